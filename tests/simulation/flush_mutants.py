"""Planted bugs of records that count before the disk has them (ADR 0055); see `mutants`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strandline.core import leader as leader_module
from strandline.core.events import LogFlushed
from strandline.core.fetcher import Fetcher
from strandline.core.high_watermark import next_high_watermark
from strandline.model import TopicPartition
from strandline_simulation.core_shell import SimulatedCoreShell
from strandline_simulation.disk import RecordLog
from strandline_simulation.invariants import Invariant

from .mutants import Mutant


def _watermark_ahead_of_the_disk(ends: Sequence[int], *, leader_end: int, **figures: Any) -> int:
    """Count the followers alone, whatever the leader itself has on disk."""
    return next_high_watermark(ends, leader_end=min(ends, default=leader_end), **figures)


def _end_sync_as_if_nothing_was_cut(
    self: SimulatedCoreShell, tp: TopicPartition, log: RecordLog, offset: int, _: int
) -> None:
    """Tell of a sync that a cut has overtaken, as far as the log reaches now."""
    self._syncing.remove(tp)
    self.step(LogFlushed(tp=tp, offset=min(offset, log.end)))
    if log.flushed < log.end:
        self._begin_sync(tp)


WATERMARK_AHEAD_OF_THE_DISK = Mutant(
    "a high watermark that does not wait for the leader's disk",
    leader_module,
    "next_high_watermark",
    _watermark_ahead_of_the_disk,
    Invariant.ISR_IS_COMPLETE,
)
FETCHES_AHEAD_OF_THE_DISK = Mutant(
    "a follower that fetches before its disk is done",
    Fetcher,
    "_waits_for_disk",
    lambda *_: False,
    Invariant.WRITTEN_IS_ON_DISK,
)
SYNC_OF_A_CUT_LOG_COUNTS = Mutant(
    "a shell that tells of a sync which a cut has overtaken",
    SimulatedCoreShell,
    "_end_sync",
    _end_sync_as_if_nothing_was_cut,
    Invariant.WRITTEN_IS_ON_DISK,
)

FLUSH_MUTANTS = (
    WATERMARK_AHEAD_OF_THE_DISK,
    FETCHES_AHEAD_OF_THE_DISK,
    SYNC_OF_A_CUT_LOG_COUNTS,
)
"""Random search finds all of them."""
