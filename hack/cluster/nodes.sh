# How a node is made and started; sourced after lib.sh by up, down, load, node and forward.
. "$HERE/pki.sh"

# Kernel settings that kubelet wants, or that many kubelets need; `down` puts the old values back.
HOST_SETTINGS=(vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes
	fs/inotify/max_user_instances fs/inotify/max_user_watches vm/max_map_count)
host_settings() {
	local s
	[ -f "$RUN/host-settings" ] || for s in "${HOST_SETTINGS[@]}"; do
		[ -r "/proc/sys/$s" ] && echo "$s $(cat "/proc/sys/$s")"
	done >"$RUN/host-settings"
	raise() { if [ "$(cat "/proc/sys/$1")" -lt "$2" ]; then echo "$2" >"/proc/sys/$1"; fi; }
	raise fs/inotify/max_user_instances 8192
	raise fs/inotify/max_user_watches 524288
	raise vm/max_map_count 262144
}
restore_host_settings() {
	local s v
	[ -f "$RUN/host-settings" ] || return 0
	while read -r s v; do echo "$v" >"/proc/sys/$s" 2>/dev/null || true; done <"$RUN/host-settings"
}

# The switch is a namespace with one bridge. No cable leads to the machine's own
# namespace: nothing a pod sends can leave, and the API is reached by nsproxy.
make_switch() {
	local ns; ns=$(netns switch)
	[ -e "/run/netns/$ns" ] && return
	ip netns add "$ns"
	ip -n "$ns" link set lo up
	ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.bridge.bridge-nf-call-iptables=0 2>/dev/null || true
	# It forwards, but has no way out: packets for outside get "unreachable" at once.
	ip netns exec "$ns" sysctl -qw net.ipv4.ip_forward=1
	ip -n "$ns" link add br0 type bridge
	ip -n "$ns" addr add "$NET.1/24" dev br0
	ip -n "$ns" link set br0 up
}

make_node_folder() { # name, index
	local dir; dir=$(node_dir "$1")
	mkdir -p "$dir"/{kubelet,log/pods,log/containers,cni,cni-state,containerd,pv}
	echo "$2" >"$dir/index"
	printf '127.0.0.1 localhost\n%s %s\n' "$(node_ip "$1")" "$1" >"$dir/hosts"
	# Pods with dnsPolicy Default get this: there is no outside resolver.
	printf 'nameserver %s\noptions timeout:1 attempts:1\n' "$NET.1" >"$dir/resolv.conf"
	cat >"$dir/cni/10-bridge.conflist" <<-JSON
		{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true, "forceAddress": true,
		   "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": "$(pod_cidr "$1")"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}]}
	JSON
	cat >"$dir/containerd.toml" <<-TOML
		version = 2
		root = "$dir/containerd"
		state = "/run/containerd"
		oom_score = 0
		disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
		[grpc]
		  address = "$dir/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$PAUSE_IMAGE"
		  stream_server_address = "127.0.0.1"
		  disable_apparmor = true
		  # Without CAP_SYS_RESOURCE no process may lower an OOM score, and runc fails if it must.
		  restrict_oom_score_adj = true
		  tolerate_missing_hugetlb_controller = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "/etc/cni/net.d"
		  [plugins."io.containerd.grpc.v1.cri".containerd]
		    snapshotter = "overlayfs"
		    default_runtime_name = "runc"
		    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		      runtime_type = "io.containerd.runc.v2"
		      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		        SystemdCgroup = false
	TOML
	local zones=(control a b c d e f g h i)
	cat >"$dir/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true, cacheTTL: 10s}, x509: {clientCAFile: $RUN/pki/ca.crt}}
		authorization: {mode: Webhook}
		tlsCertFile: $RUN/pki/kubelet-$1.crt
		tlsPrivateKeyFile: $RUN/pki/kubelet-$1.key
		containerRuntimeEndpoint: unix://$dir/containerd.sock
		cgroupDriver: cgroupfs
		cgroupRoot: /$PREFIX/$1
		failCgroupV1: false
		failSwapOn: false
		clusterDNS: [$DNS_IP]
		clusterDomain: cluster.local
		resolvConf: $dir/resolv.conf
		volumePluginDir: $dir/kubelet/volume-plugins
		# No registry to pull again from: never collect images, never evict for disk.
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		evictionHard: {memory.available: 100Mi, nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
		# Lose a node in seconds rather than a minute (see --node-monitor-grace-period in up).
		nodeLeaseDurationSeconds: 8
		nodeStatusUpdateFrequency: 4s
		nodeStatusReportFrequency: 1m
		serializeImagePulls: false
		registerNode: true
		oomScoreAdj: 0
	YAML
	echo "topology.kubernetes.io/zone=zone-${zones[$2]}" >"$dir/labels"
}

boot_node() { # name: namespaces and cable, no daemon yet
	local n=$1 dir ns other hierarchy group
	dir=$(node_dir "$n") ns=$(netns "$n")
	node_init "$n" >/dev/null && return
	rm -f "$dir"/*.inner "$dir/init.pid" "$dir/containerd.sock"*
	if [ ! -e "/run/netns/$ns" ]; then
		ip netns add "$ns"
		ip -n "$ns" link set lo up
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 \
			net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
		ip -n "$(netns switch)" link del "$n" 2>/dev/null || true
		ip -n "$(netns switch)" link add "$n" type veth peer name eth0 netns "$ns"
		ip -n "$(netns switch)" link set "$n" master br0 up
		ip -n "$(netns switch)" route replace "$(pod_cidr "$n")" via "$(node_ip "$n")"
		ip -n "$ns" addr add "$(node_ip "$n")/24" dev eth0
		ip -n "$ns" link set eth0 up
		# Services: any route will do, kube-proxy rewrites the address before a packet leaves.
		ip -n "$ns" route add default via "$NET.1"
		for other in $(nodes); do
			[ "$other" = "$n" ] || ip -n "$ns" route add "$(pod_cidr "$other")" via "$(node_ip "$other")"
		done
	fi
	for hierarchy in /sys/fs/cgroup/*; do
		[ ! -L "$hierarchy" ] && [ "$(stat -f -c %T "$hierarchy")" = cgroupfs ] || continue
		for group in "$PREFIX" "$PREFIX/$n"; do
			mkdir -p "$hierarchy/$group"
			if [ -f "$hierarchy/cpuset.cpus" ]; then # a new cpuset group starts empty
				cat "$hierarchy/cpuset.cpus" >"$hierarchy/$group/cpuset.cpus"
				cat "$hierarchy/cpuset.mems" >"$hierarchy/$group/cpuset.mems"
			fi
		done
	done
	# The namespaces live as long as node-init, process 1 of the node. The shell below reads
	# its pid on the machine from the old /proc, before it mounts the new one.
	mkdir -p "$RUN/log"
	# A session of its own, so that no signal to the caller's group reaches it.
	setsid nsenter --net="/run/netns/$ns" unshare --mount --pid --uts --ipc --fork --propagation private \
		/bin/bash -ec '
			dir=$1 node=$2 init=$3
			read -ra stat </proc/self/stat # fields 1 and 22: pid and start time, as alive() wants them
			mount -t proc proc /proc
			mount --make-rshared /
			mount -t tmpfs -o mode=755 tmpfs /run
			mkdir -p /run/netns /run/containerd /run/lock /var/lib/kubelet /var/log/pods /var/log/containers /etc/cni/net.d /var/lib/cni
			mount --bind "$dir/kubelet" /var/lib/kubelet
			mount --bind "$dir/log/pods" /var/log/pods
			mount --bind "$dir/log/containers" /var/log/containers
			mount --bind "$dir/cni" /etc/cni/net.d
			mount --bind "$dir/cni-state" /var/lib/cni
			mount --bind "$dir/hosts" /etc/hosts
			mount --bind "$dir/resolv.conf" "$(readlink -f /etc/resolv.conf)" 2>/dev/null || true
			echo "$node" >/proc/sys/kernel/hostname
			echo "${stat[0]} ${stat[21]}" >"$dir/init.new"; mv "$dir/init.new" "$dir/init.pid"
			exec "$init"
		' boot "$dir" "$n" "$BIN/node-init" </dev/null >>"$RUN/log/$n-boot.log" 2>&1 9>&- &
	disown
	wait_for 20 "boot of node $n" test -f "$dir/init.pid"
}

ctr_in() { local n=$1; shift; ctr -a "$(node_dir "$n")/containerd.sock" -n k8s.io "$@"; }
start_containerd() { start_in "$1" containerd containerd --config "$(node_dir "$1")/containerd.toml" --log-level warn; }
start_kubelet() {
	local n=$1 dir; dir=$(node_dir "$1")
	start_in "$n" kubelet env PATH="$PATH:/usr/sbin:/sbin" "$BIN/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$RUN/pki/kubelet-$n.conf" \
		--hostname-override="$n" --node-ip="$(node_ip "$n")" --node-labels="$(cat "$dir/labels")" --housekeeping-interval=30s --v=1
	start_in "$n" kube-proxy env PATH="$PATH:/usr/sbin:/sbin" "$BIN/kube-proxy" --kubeconfig="$RUN/pki/kube-proxy.conf" --hostname-override="$n" \
		--proxy-mode=iptables --cluster-cidr="$POD_NET.0.0/16" --bind-address="$(node_ip "$n")" --nodeport-addresses=primary \
		--oom-score-adj=0 --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s \
		--healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249 --v=1
}

# Images: `ctr import` into each node, two nodes at a time.
load_images() { # "node node", archive...
	local list=$1 n a pid pids=() failed=0; shift
	for a in "$@"; do [ -f "$a" ] || die "no such file: $a"; done
	for n in $list; do
		# By pid: `wait -n` of bash 5.2 now and then knows nothing of a job that ended before it.
		if [ "${#pids[@]}" -ge 2 ]; then wait "${pids[0]}" || failed=1; pids=("${pids[@]:1}"); fi
		( for a in "$@"; do ctr_in "$n" images import --all-platforms=false "$a" >/dev/null || exit 1; done ) 9>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
	[ "$failed" = 0 ] || die "importing images failed"
}

# nsproxy between namespaces: listen address, listen namespace ("" = the machine's), dial address, dial namespace, name
start_proxy() {
	local l=$2 d=$4 pidfile=$RUN/forward-$5.pid
	alive "$pidfile" >/dev/null && return
	setsid "$BIN/nsproxy" -listen "$1" ${l:+-listen-netns /run/netns/$l} -dial "$3" ${d:+-dial-netns /run/netns/$d} \
		</dev/null >>"$RUN/log/forward-$5.log" 2>&1 9>&- &
	record_pid "$pidfile" $!
	disown
	sleep 0.1
	alive "$pidfile" >/dev/null || die "forward $5: $(tail -1 "$RUN/log/forward-$5.log")"
}

# One CA for all; kept while the state folder is.
certificates() {
	local n
	umask 077
	authority ca kubernetes
	authority front-proxy-ca front-proxy-ca
	certificate apiserver ca /CN=kube-apiserver "DNS:localhost,DNS:control,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$CONTROL_IP,IP:${SERVICE_CIDR%.*}.1,IP:$NET.1"
	certificate apiserver-kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client
	certificate front-proxy-client front-proxy-ca /CN=front-proxy-client
	certificate admin ca /O=system:masters/CN=admin
	certificate kube-controller-manager ca /CN=system:kube-controller-manager
	certificate kube-scheduler ca /CN=system:kube-scheduler
	certificate kube-proxy ca /CN=system:kube-proxy
	certificate local-provisioner ca /O=system:masters/CN=local-provisioner
	for n in $(nodes); do
		certificate "kubelet-$n" ca "/O=system:nodes/CN=system:node:$n" "DNS:$n,IP:$(node_ip "$n"),IP:127.0.0.1"
		kubeconfig_file "$pki/kubelet-$n.conf" "https://$CONTROL_IP:6443" "kubelet-$n" "system:node:$n"
	done
	for n in kube-controller-manager kube-scheduler kube-proxy local-provisioner; do kubeconfig_file "$pki/$n.conf" "https://$CONTROL_IP:6443" "$n" "$n"; done
	kubeconfig_file "$RUN/kubeconfig" "https://127.0.0.1:$API_PORT" admin admin
	service_account_keys
	umask 022
}

check_storage() { # a claim of the default class, written by a pod
	k delete pod,pvc -n kube-system storage-check --ignore-not-found --grace-period=0 --force >/dev/null 2>&1 || true
	k apply -f - >/dev/null <<-YAML
		{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: storage-check, namespace: kube-system},
		 spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
		---
		{apiVersion: v1, kind: Pod, metadata: {name: storage-check, namespace: kube-system},
		 spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, tolerations: [{operator: Exists}],
		  volumes: [{name: data, persistentVolumeClaim: {claimName: storage-check}}],
		  containers: [{name: c, image: "docker.io/library/busybox:1.35", command: [sh, -c, "echo ok >/data/f && cat /data/f"], volumeMounts: [{name: data, mountPath: /data}]}]}}
	YAML
	k wait -n kube-system pod/storage-check --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s >/dev/null || die "the default StorageClass does not work (logs: $RUN/log)"
	k delete pod,pvc -n kube-system storage-check --wait=false >/dev/null
}
