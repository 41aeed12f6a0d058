"""`strandline drain`: a broker is to hold nothing."""

from __future__ import annotations

import argparse

from strandline_cli.command_line import Verb, add_place, add_waiting, whole_number

WAIT_SECONDS = 24 * 3600
"""Default bound of the wait for the copies of a whole broker; they go on after it."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("broker", type=whole_number(0), metavar="BROKER", help="its id, such as 3")
    add("--dry-run", action="store_true", help="print who would take what and write nothing")
    add_waiting(parser, WAIT_SECONDS)
    add_place(parser)


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.assignments import assignments_of
    from strandline_cli.drain import DrainWishes, drain

    wishes = DrainWishes(
        broker=options.broker, wait_seconds=options.wait_seconds, is_dry_run=options.dry_run
    )
    return 0 if drain(assignments_of(options), wishes, print) else 1


VERB = Verb(
    name="drain",
    summary="move every replica of a broker to the others, until it holds nothing",
    text="""\
Each of its partitions gets one other broker: in another rack where brokers have one, and so that
replicas stay evenly spread; no other replica moves. The broker may be gone for good. If it leads,
the last step of each move elects another leader. It is refused if a partition has no broker left to
go to. Ctrl-C ends this program and not the moves; run it again to go on. New topics may be placed
on the broker again. It needs the role admin in the namespace.""",
    examples=(
        ("strandline drain 3 -n shop", "before its volume is taken away"),
        ("strandline drain 3 --dry-run", "who would take what"),
    ),
    add_options=_add_options,
    run=_run,
)
