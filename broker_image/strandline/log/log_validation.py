"""Validate the segments of a log found on disk, and cut it at the first bad batch.

What is kept is contiguous and ends with the last good batch before the first bad one. All batches
after a hole are deleted: the replica must fetch lost offsets again from the leader, not skip them.

Source: Kafka LogLoader.recoverLog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .batch_scan import EndKind
from .files import TEMPORARY_SUFFIX
from .record_batch import BatchHeader
from .segment import INDEX_SUFFIX, LOG_SUFFIX, SET_ASIDE_SUFFIX, Segment
from .segment_summary import SUMMARY_SUFFIX, SegmentSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class LogValidation:
    """The result of a validation; problem is "" if nothing was cut.

    damaged means that bytes of a finished write are missing or changed. A write torn by the
    death of the process is not damage: it was never acknowledged. Nor is a truncation that it did
    not finish, also if a power cut undid what took later segments away.
    """

    problem: str = ""
    cut_at_offset: int = -1
    damaged: bool = False


def validate_segments(
    segments: Sequence[Segment],
    *,
    crc_from: int | None,
    epoch_max: int,
    known: Callable[[Segment, int], SegmentSummary | None],
    visit: Callable[[BatchHeader], None],
    sealed: Callable[[Segment], None],
    before_loss: Callable[[], None],
) -> tuple[list[Segment], LogValidation]:
    """Validate segments in order; return those to keep, the last one open for writing.

    Shape:   segments ascend by base offset; CRCs are checked from the segment that holds the
             offset crc_from on, or not at all if it is None
    Calls:   known for the summary of a segment behind a last epoch, None to walk all of it;
             visit for each good batch that no summary covers; sealed for each kept segment but
             the last; before_loss before a damaged log is cut
    """
    kept: list[Segment] = []
    last_epoch = -1
    for index, segment in enumerate(segments):
        later = segments[index + 1 :]
        if kept and segment.base_offset != kept[-1].end_offset:
            problem = f"segment {segment.base_offset} does not follow {kept[-1].end_offset}"
            before_loss()
            return kept, _cut(kept[-1], segments[index:], problem, damaged=True)
        if kept:
            sealed(kept[-1])
        end = segment.check(
            summary=known(segment, last_epoch),
            last_epoch=last_epoch,
            epoch_max=epoch_max,
            with_crc=crc_from is not None and not (later and later[0].base_offset <= crc_from),
            visit=visit,
        )
        kept.append(segment)
        last_epoch = end.last_epoch
        if end.kind is not EndKind.COMPLETE:
            damaged = end.kind is EndKind.DAMAGED or (end.kind is EndKind.TORN and bool(later))
            if damaged:
                before_loss()
            return kept, _cut(segment, later, end.problem, damaged=damaged)
    return kept, LogValidation()


def _cut(last: Segment, later: Sequence[Segment], problem: str, *, damaged: bool) -> LogValidation:
    """Delete later segments, newest first, and cut the file of the last one kept."""
    for segment in reversed(later):
        segment.remove()
    last.cut_file()
    return LogValidation(problem=problem, cut_at_offset=last.end_offset, damaged=damaged)


def remove_leftovers(folder: Path) -> None:
    """Remove segments that were set aside, and what stayed beside segments that are gone."""
    for pattern in ("*" + SET_ASIDE_SUFFIX, f"*{INDEX_SUFFIX}*{TEMPORARY_SUFFIX}"):
        for left in folder.glob(pattern):
            left.unlink()
    for suffix in (SUMMARY_SUFFIX, INDEX_SUFFIX):
        for left in folder.glob("*" + suffix):
            if not left.with_suffix(LOG_SUFFIX).exists():
                left.unlink()
