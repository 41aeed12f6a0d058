# Shared by the scripts beside this file; sourced, not run.
set -euo pipefail
umask 022

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KUBE_VERSION=1.34.4
COREDNS_VERSION=1.12.4
HELM_VERSION=3.19.5
CACHE=${STRANDLINE_CACHE:-$HOME/.cache/strandline}
KUBE_CACHE=$CACHE/kube-$KUBE_VERSION
BIN=$KUBE_CACHE/bin
IMAGES=$KUBE_CACHE/images
RUN=${STRANDLINE_RUN:-/var/lib/strandline-cluster}
# Two clusters can run side by side: give the second its own STRANDLINE_RUN,
# STRANDLINE_CLUSTER (prefix of network namespaces and cgroups) and STRANDLINE_API_PORT.
PREFIX=${STRANDLINE_CLUSTER:-sl}
API_PORT=${STRANDLINE_API_PORT:-6443}

NET=10.250.0           # nodes: .10 control, .11 worker1, ...; .1 the switch
CONTROL_IP=$NET.10
POD_NET=10.244         # pods of node i: 10.244.i.0/24
SERVICE_CIDR=10.96.0.0/16
DNS_IP=10.96.0.10
PAUSE_IMAGE=strandline.test/pause:3.10
STORAGE_PROVISIONER=strandline.test/local

# A script that another script calls continues its clock.
export STRANDLINE_START=${STRANDLINE_START:-$(date +%s.%N)}
elapsed() { awk -v a="$STRANDLINE_START" -v b="$(date +%s.%N)" 'BEGIN{printf "%.1f", b-a}'; }
say() { printf '[%6ss] %s\n' "$(elapsed)" "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || die "run as root: namespaces, mounts and containers need it"; }
need_bin() { [ -x "$BIN/hyperkube" ] && [ -f "$IMAGES/pause.tar" ] || die "not installed yet: run $HERE/install"; }

case $RUN in /run/*|/var/run/*|/proc/*|/sys/*|/dev/*) die "STRANDLINE_RUN may not lie under /run, /proc, /sys or /dev" ;; /*) ;; *) die "STRANDLINE_RUN must be an absolute path" ;; esac

node_dir() { echo "$RUN/nodes/$1"; }
netns() { echo "$PREFIX-$1"; }
nodes() { [ -d "$RUN/nodes" ] && (cd "$RUN/nodes" && ls -d */ 2>/dev/null | tr -d / | sort) || true; }
node_index() { cat "$(node_dir "$1")/index"; }
node_ip() { echo "$NET.$((10 + $(node_index "$1")))"; }
pod_cidr() { echo "$POD_NET.$(node_index "$1").0/24"; }
need_node() { [ -d "$(node_dir "$1")" ] || die "no node '$1'; nodes: $(nodes | tr '\n' ' ')"; }

# One run of a script at a time. Processes that it starts do not inherit the descriptor.
lock() { mkdir -p "$(dirname "$RUN")"; exec 9>"$RUN.lock"; flock -w "${1:-300}" 9 || die "another run holds $RUN.lock"; }

# A recorded pid counts only while the process still has the start time that was
# recorded with it, so that a reused pid is never taken for ours.
proc_stat() { # pid -> "state start-time"
	local stat; stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	set -- ${stat##*) }; echo "$1 ${20}"
}
record_pid() { local s; s=$(proc_stat "$2") && echo "$2 ${s#* }" > "$1"; }
alive() { # pid file -> prints the pid while that very process runs
	local pid start state now
	[ -s "$1" ] && read -r pid start < "$1" && read -r state now < <(proc_stat "$pid") || return 1
	[ "$now" = "$start" ] && [ "$state" != Z ] && echo "$pid"
}
stop_pid() { # pid file, signal, tenths of a second until KILL follows: end that process and wait for it
	local pid i
	pid=$(alive "$1") || { rm -f "$1"; return 0; }
	kill "-${2:-TERM}" "$pid" 2>/dev/null || true
	for i in $(seq 100); do alive "$1" >/dev/null || break; [ "$i" = "${3:-50}" ] && kill -KILL "$pid" 2>/dev/null || true; sleep 0.1; done
	rm -f "$1"
}

node_init() { alive "$(node_dir "$1")/init.pid"; }
in_node() { # node, command...: runs in the node's namespaces
	local init; init=$(node_init "$1") || die "node $1 is not running"
	shift
	nsenter -t "$init" -m -n -p -u -i -- "$@"
}
# Starts a program inside a node; it becomes a child of the node's init.
# <node>/<program>.inner holds its pid as seen inside the node.
start_in() { # node, program, command...
	local node=$1 program=$2 dir; dir=$(node_dir "$1"); shift 2
	mkdir -p "$RUN/log"
	printf '%q ' "$@" >"$dir/$program.cmd"
	in_node "$node" /bin/bash -c 'cd /; ulimit -n "$(ulimit -H -n)"; log=$1 pidfile=$2; shift 2; setsid "$@" </dev/null >>"$log" 2>&1 9>&- & echo $! >"$pidfile"' \
		start "$RUN/log/$node-$program.log" "$dir/$program.inner" "$@"
}
signal_in() { # node, program, signal
	local inner; inner=$(cat "$(node_dir "$1")/$2.inner" 2>/dev/null) || return 0
	in_node "$1" kill "-$3" "$inner" 2>/dev/null || true
}
runs_in() { local inner; node_init "$1" >/dev/null || return 1; inner=$(cat "$(node_dir "$1")/$2.inner" 2>/dev/null) && in_node "$1" kill -0 "$inner" 2>/dev/null; }

restart_in() { # node, program: with the command line it was last started with
	local command i
	command=$(cat "$(node_dir "$1")/$2.cmd" 2>/dev/null) || die "no program $2 in $1"
	signal_in "$1" "$2" "${3:-TERM}"
	for i in $(seq 100); do runs_in "$1" "$2" || break; [ "$i" = 70 ] && signal_in "$1" "$2" KILL; sleep 0.1; done
	eval "start_in $1 $2 $command"
}

wait_for() { # seconds, what, command...: polls until the command succeeds
	local limit=$1 what=$2 end; shift 2
	end=$(( $(date +%s) + limit ))
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt "$end" ] || die "$what: not within ${limit}s (logs: $RUN/log)"
		sleep 0.2
	done
}
k() { "$BIN/kubectl" --kubeconfig "$RUN/kubeconfig" "$@"; }
