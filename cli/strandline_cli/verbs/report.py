"""`strandline report`: one bundle for a bug report."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from strandline_cli.command_line import Verb


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--namespace", "-n", default="default", help="the namespace of the clusters")
    elsewhere = "where the operator runs, if elsewhere: its objects and logs, too"
    add("--operator-namespace", default="", metavar="NAME", help=elsewhere)
    out = "a tar.gz that is not there yet (strandline-report-NAMESPACE-TIME.tar.gz)"
    add("--out", type=Path, metavar="FILE", help=out)
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")
    add("--context", default="", help="a context of the kubeconfig; default: the current one")


def _run(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of
    from strandline_cli.report import write_report

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    kubernetes = Kubernetes(kubeconfig, options.namespace, context=options.context)
    now = datetime.now(UTC)
    default = Path(f"strandline-report-{options.namespace}-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    path = options.out or default
    index = write_report(kubernetes, path, operator_namespace=options.operator_namespace)
    print(*index, f"written to {path}: look through it before you hand it on", sep="\n")
    return 0


VERB = Verb(
    name="report",
    summary="collect objects, logs, metrics and versions into one file for a bug report",
    text="""\
Of the namespace: clusters, topics, Partitions, Brokers; our pods, StatefulSets, Deployments,
Services, ConfigMaps and volume claims; budgets, Leases, Events. The last lines of our containers'
logs, the brokers' metrics, the versions. No Secret, no record, no value of a pod's variable.

What it prints is the index of the bundle. A part that cannot be had, as in a namespace of which you
may read little, is a line of that index.""",
    examples=(
        ("strandline report -n shop", "a file in this folder"),
        (
            "strandline report -n shop --operator-namespace strandline --out shop.tar.gz",
            "with the operator of another namespace",
        ),
    ),
    add_options=_add_options,
    run=_run,
)
