"""`strandline status`: the clusters and topics of a namespace, and what could be brought back."""

from __future__ import annotations

import argparse
import os

from strandline_cli.command_line import Verb


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--namespace", "-n", default="default", help="the namespace of the clusters")
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of
    from strandline_cli.status import show_status

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    show_status(Kubernetes(kubeconfig, options.namespace))
    return 0


VERB = Verb(
    name="status",
    summary="show clusters, topics, volumes, and topics that could be brought back",
    text="""\
A volume is full when clients are refused, at log.dir.fill.max; its time is that at the rate of the
last ten minutes. Brokers are shown with their racks once one of them has one.

Topics that could be brought back are those that brokers have logs of and no ReplicatedTopic has the
id of: deleted ones, whose logs lie in the trash, and ones whose object was lost or restored with
another uid. Each comes with the command that brings it back.""",
    examples=(("strandline status -n shop", "everything in the namespace shop"),),
    add_options=_add_options,
    run=_run,
)
