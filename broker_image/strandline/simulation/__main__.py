"""`strandline sim`, or `python -m strandline.simulation`: run schedules by seed, or one plan.

Ends with status 1 if an invariant was broken; the plan of the first such seed can be shrunk
into a file that `--plan` reads.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from .plan import Plan, from_json, to_json
from .plan_generator import draw_plan
from .run import run
from .shrink import Shrinker
from .summary import Summary, failure_report


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m strandline.simulation", description=__doc__)
    add_options(parser)
    return run_schedules(parser.parse_args(arguments))


def run_schedules(options: argparse.Namespace) -> int:
    """Run what the options ask for and print the figures; 1 if an invariant was broken."""
    plans: Iterable[Plan] = map(
        draw_plan, range(options.first_seed, options.first_seed + options.seeds)
    )
    if options.plan is not None:
        plans = [from_json(options.plan.read_text())]
    summary, begun = Summary(), time.monotonic()
    smallest: Plan | None = None
    for plan in plans:
        result = run(plan)
        summary.results.append(result)
        if result.broken_invariant:
            print(failure_report(result))
            if options.shrink_to is not None and smallest is None:
                smallest = Shrinker(plan, result.broken_invariant).shrink()
                options.shrink_to.write_text(to_json(smallest) + "\n")
    print(summary.table(time.monotonic() - begun))
    if len(summary.results) == 1:
        print(f"digest {summary.results[0].digest}")
    return 1 if summary.broken else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked for."""
    parser.add_argument("--seeds", type=int, default=100, help="how many schedules (100)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--plan", type=Path, help="run the plan in this file instead")
    parser.add_argument(
        "--shrink-to", type=Path, help="write the first failing plan here, made small"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
