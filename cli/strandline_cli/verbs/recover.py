"""`strandline recover`: a lost partition goes on without brokers that do not come back."""

from __future__ import annotations

import argparse
import os

from strandline_cli.command_line import Verb, broker_ids


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("partition", help="the Partition object, such as orders-0")
    add(
        "--without",
        required=True,
        type=broker_ids,
        metavar="IDS",
        help="brokers that do not come back, such as 2",
    )
    add("--namespace", "-n", default="default", help="the namespace of the object")
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of, recover

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    kubernetes = Kubernetes(kubeconfig, options.namespace)
    print(recover(kubernetes, options.partition, options.without))
    return 0


VERB = Verb(
    name="recover",
    summary="rebuild a lost partition without brokers that do not come back",
    text="""\
A partition whose object was lost has the reason StateLost until every broker that may have its
data is in session; then the latest log leads, and no acknowledged record is lost. If a broker is
gone for good, only a person can say so: records that this broker alone had are lost.""",
    examples=(
        ("strandline recover orders-0 --without 2 -n shop", "broker 2's volume is gone for good"),
    ),
    add_options=_add_options,
    run=_run,
)
