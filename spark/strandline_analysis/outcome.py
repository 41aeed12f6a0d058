"""How a run of the job ends: its exit code, and the sentence that tells why; needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .findings import no_partition
from .task import Task

OK: Final = 0
UNREADABLE: Final = 1
NO_DATA: Final = 2
LITTLE_KNOWN: Final = 3

Row = Mapping[str, Any]


def known_share(slo: Sequence[Row]) -> float:
    """Return how much of the time of all partitions the samples tell of, 0 to 1.

    Shape:   rows as catalogue.SLO; without any nothing is known
    """
    total_ms = sum(row["total_ms"] for row in slo)
    return sum(row["known_ms"] for row in slo) / total_ms if total_ms else 0.0


def outcome(task: Task, *, isr_intervals: Sequence[Row], slo: Sequence[Row]) -> tuple[int, str]:
    """Return the exit code of a run that has written its tables, and a sentence unless it is OK."""
    if not isr_intervals:
        return NO_DATA, no_partition(task.origin)
    share = known_share(slo)
    if share >= task.coverage_min:
        return OK, ""
    return LITTLE_KNOWN, (
        f"the samples tell of {share:.1%} of the partitions' time in this range, and "
        f"--coverage-min asks for {task.coverage_min:.1%}: a metric is missing, or targets were "
        "not scraped all the time; the table coverage (--all-tables) tells which and when"
    )
