"""`strandline sim`: seeded schedules against the shipped core and controller."""

from __future__ import annotations

import argparse
from pathlib import Path

from strandline_cli.command_line import Verb


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seeds", type=int, default=100, help="how many schedules (100)")
    add("--first-seed", type=int, default=0, help="the first of them (0)")
    add("--plan", type=Path, help="run the plan in this file instead")
    add("--shrink-to", type=Path, help="write the first failing plan here, made small")


def _run(options: argparse.Namespace) -> int:
    from strandline_simulation.schedules import run_schedules

    if options.seeds < 1:
        raise argparse.ArgumentError(None, f"--seeds must be at least 1, not {options.seeds}")
    return run_schedules(**vars(options))


VERB = Verb(
    name="sim",
    summary="drive the shipped core and controller under seeded faults",
    text="""\
Each seed draws a cluster, a network, disks, an API server and their faults; invariants are checked
after every event. Exit code 1 means that one was broken.""",
    examples=(
        ("strandline sim --seeds 10", "ten schedules, and what happened in them"),
        ("strandline sim --first-seed 4711 --seeds 1", "one schedule again, with its digest"),
        (
            "strandline sim --first-seed 4711 --seeds 5 --shrink-to plan.json",
            "write the first plan that breaks an invariant, made small, for --plan",
        ),
    ),
    add_options=_add_options,
    run=_run,
)
