"""`strandline watch`: partitions, replicas and events of a cluster, as they change."""

from __future__ import annotations

import argparse
import math
import os

from strandline_cli.command_line import Verb, positive


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--namespace", "-n", default="default", help="the namespace of the cluster")
    add("--cluster", default="", metavar="NAME", help="default: the only one of the namespace")
    add("--topic", default="", metavar="NAME", help="the partitions of this topic alone")
    end = parser.add_mutually_exclusive_group()
    seconds = "end by itself after so many seconds"
    end.add_argument("--for", dest="seconds", type=positive, metavar="SECONDS", help=seconds)
    once = "print one picture and end"
    end.add_argument("--once", dest="seconds", action="store_const", const=0.0, help=once)
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")
    add("--context", default="", help="a context of the kubeconfig; default: the current one")


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.end_asked import EndAsked
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of
    from strandline_cli.watch import WatchWishes, watch

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    kubernetes = Kubernetes(kubeconfig, options.namespace, context=options.context)
    seconds = math.inf if options.seconds is None else options.seconds
    wishes = WatchWishes(cluster=options.cluster, topic=options.topic, seconds=seconds)
    watch(kubernetes, wishes, EndAsked.by_signals())
    return 0


VERB = Verb(
    name="watch",
    summary="show partitions, replicas and events of a cluster as they change",
    text="""\
One line for each partition: its leader, leader epoch and ISR, and for each broker the high
watermark (HW) and the log end offset (LEO) of its replica; below it elections, ISR changes, the
controller, pods, and who does not respond. Break the cluster in another terminal meanwhile.

A gap is a time without a leader that responds. Brokers are asked twice a second, so a gap is that
exact; `strandline load` measures what a producer feels. While the API server is away no gap is
timed. Ctrl-C ends the view with a summary. In a pipe events are lines.""",
    examples=(
        ("strandline watch -n strandline-demo", "the cluster of the demo, until Ctrl-C"),
        ("strandline watch --cluster default --topic orders --for 60", "a minute of one topic"),
        ("strandline watch --once", "one picture, for scripts"),
    ),
    add_options=_add_options,
    run=_run,
)
