"""`strandline rebalance`: all brokers are to hold about as many replicas."""

from __future__ import annotations

import argparse

from strandline_cli.command_line import Verb, add_place, add_waiting

WAIT_SECONDS = 24 * 3600
"""Default bound of the wait for the copies; they go on after it."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="print what would move and write nothing")
    add_waiting(parser, WAIT_SECONDS)
    add_place(parser)


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.assignments import assignments_of
    from strandline_cli.rebalance import RebalanceWishes, rebalance

    wishes = RebalanceWishes(wait_seconds=options.wait_seconds, is_dry_run=options.dry_run)
    return 0 if rebalance(assignments_of(options), wishes, print) else 1


VERB = Verb(
    name="rebalance",
    summary="spread replicas and preferred leaders evenly over all brokers",
    text="""\
Replicas that share a rack move apart, if another rack has none of their partition. Beyond that as
few move as even numbers ask for, and no partition is in fewer racks afterwards. Then partitions
prefer other leaders among their replicas, which copies nothing. A broker that is full,
never registered, is being emptied or goes takes nothing. The controller copies at most eight
partitions at a time. Ctrl-C ends this program and not the moves; run it again to go on. A broker
that was drained gets replicas again. It needs the role admin in the namespace.""",
    examples=(
        ("strandline rebalance --dry-run -n shop", "what each broker has and would have"),
        ("strandline rebalance -n shop", "and wait until it is so"),
    ),
    add_options=_add_options,
    run=_run,
)
