"""Run-length encoding of one series: equal samples in a row become one row.

Called by `read` before rows reach the JVM. A single sample is a run of length one, so that
`samples.held` returns the same for runs and for the samples they were made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from .xor_chunk import STALE_BITS

GAP_INTERVALS: Final = 2.5
"""Scrape intervals without a sample that make a gap; a single lost scrape makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive samples of one series with the same bits and no gap among them.

    A stale marker is a run of its own with sample_count 1 and no value.
    """

    first_ms: int
    last_ms: int
    sample_count: int
    bits: int

    @property
    def is_stale(self) -> bool:
        """Tell whether this is a stale marker."""
        return self.bits == STALE_BITS


def run_lengths(samples: Iterable[tuple[int, int]], *, gap_ms: float) -> Iterator[Run]:
    """Yield the runs of a series; with gap_ms 0 every sample by itself.

    Shape:   samples are (timestamp in ms, bits), strictly ascending
    """
    run: Run | None = None
    for timestamp, bits in samples:
        if run is not None and _goes_on(run, timestamp, bits, gap_ms=gap_ms):
            first_ms, count = run.first_ms, run.sample_count + 1
        else:
            if run is not None:
                yield run
            first_ms, count = timestamp, 1
        run = Run(first_ms=first_ms, last_ms=timestamp, sample_count=count, bits=bits)
    if run is not None:
        yield run


def _goes_on(run: Run, timestamp: int, bits: int, *, gap_ms: float) -> bool:
    return bits == run.bits and bits != STALE_BITS and timestamp - run.last_ms <= gap_ms
