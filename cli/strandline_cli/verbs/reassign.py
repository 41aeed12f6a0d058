"""`strandline reassign`: a partition moves to other brokers."""

from __future__ import annotations

import argparse

from strandline_cli.command_line import Verb, add_place, add_waiting, broker_ids

WAIT_SECONDS = 3600
"""Default bound of the wait for a copy; the move goes on after it."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("partition", nargs="?", metavar="TOPIC/PARTITION", help="such as orders/0")
    what = parser.add_mutually_exclusive_group(required=True)
    to = "the brokers that shall have it, such as 0,2,3; the first is preferred as leader"
    what.add_argument("--to", type=broker_ids, metavar="IDS", help=to)
    back = "back to the replicas before the move that is under way"
    what.add_argument("--cancel", action="store_true", help=back)
    moves = "show the moves under way, of all topics if none is named"
    what.add_argument("--status", action="store_true", help=moves)
    add("--dry-run", action="store_true", help="print the change and write nothing")
    add_waiting(parser, WAIT_SECONDS)
    add_place(parser)


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.assignments import assignments_of
    from strandline_cli.reassign import MoveWishes, reassign, show_moves

    partition = options.partition or ""
    if options.status:
        show_moves(assignments_of(options), [partition] if partition else [], print)
        return 0
    if "/" not in partition:
        raise argparse.ArgumentError(None, "--to and --cancel need one TOPIC/PARTITION")
    wishes = MoveWishes(
        partition=partition,
        replicas=options.to,
        wait_seconds=options.wait_seconds,
        is_dry_run=options.dry_run,
    )
    return 0 if reassign(assignments_of(options), wishes, print) else 1


VERB = Verb(
    name="reassign",
    summary="move a partition to other brokers, take that back, or show the moves under way",
    text="""\
New replicas copy the log and join the ISR before former ones go; the logs of these lie in the trash
for a while. The controller does it, at most eight partitions at a time, also while nobody waits:
Ctrl-C ends this program and not the move. A partition has as many replicas as
spec.replicationFactor of its topic says. It needs the role admin in the namespace.""",
    examples=(
        ("strandline reassign orders/0 --to 0,2,3 -n shop", "and wait until it has moved"),
        ("strandline reassign orders/0 --to 3,2,0 --dry-run", "what that would change"),
        ("strandline reassign --status", "every move, and how far each copy is behind"),
        ("strandline reassign orders/0 --cancel", "back to where it was"),
    ),
    add_options=_add_options,
    run=_run,
)
