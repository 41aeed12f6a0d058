"""`strandline undelete`: a topic comes back whose logs brokers still have."""

from __future__ import annotations

import argparse
import os

from strandline_cli.command_line import Verb, whole_number

WAIT_SECONDS = 120


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("topic", help="the topic's name or id, as `strandline status` lists it")
    add("--cluster", default="default", help="the BrokerCluster that has the logs")
    add("--name", default="", help="of the new ReplicatedTopic; default: the topic's name")
    add(
        "--replication-factor",
        type=whole_number(1),
        help="default: the number of brokers that have logs of a partition",
    )
    add(
        "--retention-ms",
        type=whole_number(-1),
        default=-1,
        help="age at which records are deleted; default: -1, never",
    )
    add("--wait-seconds", type=whole_number(1), default=WAIT_SECONDS, help="until it is ready")
    add("--namespace", "-n", default="default", help="the namespace of the cluster")
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of
    from strandline_cli.undelete import Wanted, undelete

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    wanted = Wanted(
        topic=options.topic,
        cluster=options.cluster,
        name=options.name,
        replication_factor=options.replication_factor,
        retention_ms=options.retention_ms,
        wait_seconds=options.wait_seconds,
    )
    undelete(Kubernetes(kubeconfig, options.namespace), wanted, print)
    return 0


VERB = Verb(
    name="undelete",
    summary="bring a topic back whose logs brokers still have",
    text="""\
A deleted topic's logs lie in the brokers' trash for 7 days (log.trash.retention.ms). Logs whose
topic's object was lost, or restored with another uid, stay on disk. The topic comes back with its
id and with every record at its offset. Its settings are not known any more: records are kept for
ever unless --retention-ms says otherwise. spec.config of the topic may change later.""",
    examples=(
        ("strandline undelete orders -n shop", "topic orders was deleted by mistake"),
        (
            "strandline undelete 6f0e8b7a-1c2d-4e3f-8a9b-0c1d2e3f4a5b --name orders-old",
            "one of several topics that had the same name",
        ),
    ),
    add_options=_add_options,
    run=_run,
)
