"""`strandline describe`: one page on a topic, a broker or a cluster."""

from __future__ import annotations

import argparse
import os

from strandline_cli.command_line import Verb

KINDS = ("topic", "broker", "cluster")


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    add("name", metavar="NAME", help="the name of its object: orders, default-0, default")
    add("--namespace", "-n", default="default", help="the namespace it is in")
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")
    add("--context", default="", help="a context of the kubeconfig; default: the current one")


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.describe import describe
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    kubernetes = Kubernetes(kubeconfig, options.namespace, context=options.context)
    describe(kubernetes, options.kind, options.name)
    return 0


VERB = Verb(
    name="describe",
    summary="one page on a topic, a broker or a cluster: what, where, why not ready",
    text="""\
It puts together what is spread over objects: the sentences of the conditions that are amiss, leader
and ISR of each partition and why it lacks one, pods with their nodes and what keeps them from
running, volumes, whether a broker may be restarted, and the last Events about all of these.""",
    examples=(
        ("strandline describe topic orders -n shop", "a topic and its partitions"),
        ("strandline describe broker default-0 -n shop", "a broker, its pod and its volume"),
        ("strandline describe cluster default -n shop", "brokers, topics, and what is amiss"),
    ),
    add_options=_add_options,
    run=_run,
)
