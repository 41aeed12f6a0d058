"""`strandline elect`: partitions go back to their preferred leaders."""

from __future__ import annotations

import argparse

from strandline_cli.command_line import Verb, add_place, add_waiting

WAIT_SECONDS = 30
"""Default bound: a controller elects in milliseconds, a broker joins an ISR in seconds."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("partitions", nargs="*", metavar="TOPIC[/PARTITION]", help="such as orders or orders/0")
    add("--all", action="store_true", help="all partitions of the cluster")
    add_waiting(parser, WAIT_SECONDS)
    add_place(parser)


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.assignments import assignments_of
    from strandline_cli.elect import ElectionWishes, elect

    words = tuple(options.partitions)
    if bool(words) == options.all:
        raise argparse.ArgumentError(None, "name TOPIC[/PARTITION] or give --all, one of both")
    wishes = ElectionWishes(words=words, wait_seconds=options.wait_seconds)
    return 0 if elect(assignments_of(options), wishes, print) else 1


VERB = Verb(
    name="elect",
    summary="give partitions back to their preferred leaders, the first of their replicas",
    text="""\
After a restart leaders stand where they moved to, until the controller moves them back by itself
(leader.imbalance.check.interval.seconds). This asks for it at once, for every partition named that
another broker leads. A preferred leader is elected when it is in the ISR, in session, and has room
on its volume; what keeps the others from it is told at the end, with exit code 1. The wish ends
with any election. It needs the role admin in the namespace.""",
    examples=(
        ("strandline elect --all -n shop", "after a node came back"),
        ("strandline elect orders payments/3 --no-wait", "a topic and one partition of another"),
    ),
    add_options=_add_options,
    run=_run,
)
