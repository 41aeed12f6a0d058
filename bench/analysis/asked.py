"""What every engine is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline_analysis.run_lengths import GAP_INTERVALS

from .made import INTERVAL_MS, METRICS

CORES: Final = 2
METRIC_NAMES: Final = tuple(metric.name for metric in METRICS)
GAP_MS: Final = GAP_INTERVALS * INTERVAL_MS
COMPARED: Final = (
    *("topic", "partition", "replica", "in_isr", "start_ms", "end_ms", "start_err_ms"),
    *("end_err_ms", "start_reason", "end_reason", "leader_epoch"),
)
"""Columns of the intervals that the engines must agree in."""

COMPARED_SAMPLES_MAX: Final = 200_000_000
"""Of more, no process could hold the intervals as objects of Python."""

Found = tuple[list[tuple[Any, ...]] | int, int]
"""The rows, or their number alone, and how many samples or runs of them went through Python."""
Work = Callable[[], Found]
"""Makes the intervals; what it takes counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A history, and the Prometheus that holds it, if one does."""

    folder: Path
    start_ms: int
    end_ms: int
    scratch: Path
    """For what memory does not take; it goes afterwards."""
    url: str = ""
    is_counted: bool = False
    """True if the intervals are too many to be compared: they are written, and counted."""

    @property
    def ranged(self) -> dict[str, int]:
        """Return the range as keywords."""
        return {"start_ms": self.start_ms, "end_ms": self.end_ms}
