"""Runs schedules by seed, or one plan, for `strandline sim`; prints what happened in them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from .plan import Plan, from_json, to_json
from .plan_generator import draw_plan
from .run import run
from .shrink import Shrinker
from .summary import Summary, failure_report


def run_schedules(*, first_seed: int, seeds: int, plan: Path | None, shrink_to: Path | None) -> int:
    """Run the plan in the file, or else those of the seeds; 1 if an invariant was broken.

    The plan of the first seed that breaks one is shrunk into the file `shrink_to`.
    """
    plans: Iterable[Plan] = map(draw_plan, range(first_seed, first_seed + seeds))
    if plan is not None:
        plans = [from_json(plan.read_text())]
    summary, begun = Summary(), time.monotonic()
    for each in plans:
        result = run(each)
        if result.broken_invariant:
            print(failure_report(result))
            if shrink_to is not None and not summary.broken:
                smallest = Shrinker(each, result.broken_invariant).shrink()
                shrink_to.write_text(to_json(smallest) + "\n")
        summary.add(result)
    print(summary.table(time.monotonic() - begun))
    if len(summary.results) == 1:
        print(f"digest {summary.results[0].digest}")
    return 1 if summary.broken else 0
