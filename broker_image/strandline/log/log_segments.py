"""The segments of one log, in order: rolling, syncing, cutting, reading across them.

The caller handles the OSError that operations raise. One thread calls all of it; what another
thread reads or brings to disk is a part, begun here and ended here.
Invariant: never empty once `load` or `add` was called; each segment begins where the one before it
ends; all but the last are sealed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strandline.broker_interface import Buffer

from .log_flush import FlushPart, LogFlush, LogSync, ProducerRebuild
from .log_validation import LogValidation, remove_leftovers, validate_segments
from .record_batch import BatchHeader
from .retention import SealedSegment
from .segment import LogLimits, Segment, SegmentPool, base_offsets_in
from .segment_part import LogPart, SegmentPart
from .segment_summary import SegmentSummary

SET_ASIDE_AT_ONCE_MAX = 32
"""Segments whose files are renamed in one turn of the event loop: a retention that a person has
shortened may end thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnvironment:
    """What all logs of a broker share."""

    pool: SegmentPool
    limits: LogLimits
    on_flush: Callable[[float], None] = lambda _seconds: None
    """Gets the seconds of each fsync of a log."""
    on_append: Callable[[Path, int, int], None] = lambda _path, _start, _end: None
    """Gets a segment's file, and from where to where it was written."""


class LogSegments:
    """The segments of one log, ascending by base offset.

    summarise returns the summary of all that a segment holds, while it is the last one; None while
    the log does not know it.
    """

    __slots__ = (
        "_environment",
        "_folder",
        "_folder_changes",
        "_folder_synced",
        "_sealed_bytes",
        "_segments",
        "_set_aside",
        "_summarise",
        "_unflushed",
        "changes",
    )

    def __init__(
        self,
        folder: Path,
        environment: LogEnvironment,
        *,
        summarise: Callable[[Segment], SegmentSummary | None],
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._summarise = summarise
        self._segments: list[Segment] = []
        self._unflushed: list[FlushPart] = []
        """Sealed segments, still open for writing, that wait for a flush."""
        self._set_aside: list[Path] = []
        """Renamed files of segments that a cut took whole."""
        self._sealed_bytes = 0
        self._folder_changes = self._folder_synced = 0
        """How often the folder changed, and up to which of these changes it was synced."""
        self.changes = 0
        """How often the log was cut or closed: bytes read before are not those read after."""

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment:
        """The last segment, the only one that is written."""
        return self._segments[-1]

    @property
    def start_offset(self) -> int:
        """First offset of the first segment."""
        return self._segments[0].base_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._sealed_bytes + self._segments[-1].size_bytes

    @property
    def dirty(self) -> bool:
        """Tell whether the folder changed since it was last synced, or a sealed segment waits."""
        return self._folder_dirty or bool(self._unflushed)

    @property
    def _folder_dirty(self) -> bool:
        return self._folder_synced < self._folder_changes

    @property
    def sealed_waiting(self) -> int:
        """How many sealed segments wait for a flush."""
        return len(self._unflushed)

    def load(
        self,
        recovery_point: int,
        *,
        with_crc: bool,
        epoch_max: int,
        adopt: Callable[[SegmentSummary], None],
        visit: Callable[[BatchHeader], None],
        before_loss: Callable[[], None],
    ) -> LogValidation:
        """Check the segments in the folder; see `validate_segments`.

        adopt gets each trusted summary, in order among the batches that visit gets.
        """
        covered: dict[int, int] = {}

        def known(segment: Segment, last_epoch: int) -> SegmentSummary | None:
            summary = segment.trusted_summary(recovery_point=recovery_point)
            if summary is None:
                return None
            lowest, highest = summary.epoch_range
            if lowest < last_epoch or highest > epoch_max:
                return None
            covered[segment.base_offset] = summary.end_offset
            adopt(summary)
            return summary

        def sealed(segment: Segment) -> None:
            self._sealed_bytes += segment.size_bytes
            if covered.get(segment.base_offset) == segment.end_offset:
                segment.release()
                return
            # Batches of an earlier process may not be on disk yet, and have no summary.
            self._unflushed.append(self._part(segment))
            if len(self._unflushed) > self._environment.limits.unflushed_segments_max:
                for part in self._unflushed:
                    part.sync()
                    part.summarise()
                    part.segment.release()
                self._unflushed.clear()

        remove_leftovers(self._folder)
        self._segments, result = validate_segments(
            [self._segment(base) for base in base_offsets_in(self._folder)],
            crc_from=recovery_point if with_crc else None,
            epoch_max=epoch_max,
            known=known,
            visit=visit,
            sealed=sealed,
            before_loss=before_loss,
        )
        if not self._segments:
            self.add(0)
        self._folder_changes += 1
        return result

    def _segment(self, base_offset: int) -> Segment:
        return Segment(
            self._folder, base_offset, limits=self._environment.limits, pool=self._environment.pool
        )

    def add(self, base_offset: int) -> None:
        """Begin a new last segment."""
        segment = self._segment(base_offset)
        segment.create()
        self._segments.append(segment)
        self._folder_changes += 1

    def release_all(self) -> None:
        """Close every file of this log, and tell readers so."""
        self.changes += 1
        self._unflushed = []
        for segment in self._segments:
            segment.release()

    def append(
        self, buffers: Sequence[Buffer], batches: Sequence[BatchHeader], *, segment_max_bytes: int
    ) -> None:
        """Write batches to one segment: the last one, or a new one if the last has no room."""
        if not self._fits(
            batches[0], position=self._segments[-1].size_bytes, segment_max_bytes=segment_max_bytes
        ):
            self.roll(batches[0].base_offset)
        active = self._segments[-1]
        start = active.size_bytes
        active.append(buffers, batches)
        self._environment.on_append(active.path, start, active.size_bytes)

    def _fits(self, header: BatchHeader, *, position: int, segment_max_bytes: int) -> bool:
        """Tell whether the last segment takes a batch.

        While too many segments wait for a flush it takes more than its size: a roll would open one
        more file, and an fsync here would stop the event loop.
        """
        active = self._segments[-1]
        if active.has_room(header, position=position, segment_max_bytes=segment_max_bytes):
            return True
        return not self.may_roll and active.can_hold(header, position=position)

    def roll(self, base_offset: int) -> None:
        """Seal the last segment and begin a new one; a flush brings the sealed one to disk.

        Nothing has changed if there is no space for the new one.
        """
        active = self._segments[-1]
        active.finish_cut()
        part = self._part(active)
        self.add(base_offset)
        self._unflushed.append(part)
        self._sealed_bytes += active.size_bytes

    def _part(self, segment: Segment) -> FlushPart:
        file = segment.open_file()
        return FlushPart(
            segment=segment,
            file=file,
            index_count=len(file.index),
            summary=self._summarise(segment),
        )

    def split(
        self, headers: Sequence[BatchHeader], *, segment_max_bytes: int
    ) -> Iterator[tuple[list[BatchHeader], int]]:
        """Split batches where the log must roll, into parts of (batches, bytes).

        The caller must append each part before it asks for the next.
        """
        part: list[BatchHeader] = []
        size = 0
        for header in headers:
            position = self._segments[-1].size_bytes + size
            if part and not self._fits(
                header, position=position, segment_max_bytes=segment_max_bytes
            ):
                yield part, size
                part, size = [], 0
            part.append(header)
            size += header.size_bytes
        if part:
            yield part, size

    def begin_flush(self) -> LogFlush:
        """Begin a flush of all content; `run` it on any thread, then `end_flush` on this one."""
        return LogFlush(
            folder=self._folder,
            parts=(*self._unflushed, self._part(self._segments[-1])),
            end_offset=self._segments[-1].end_offset,
            changes=self.changes,
            folder_changes=self._folder_changes,
        )

    def end_flush(self, flush: LogFlush) -> bool:
        """Take a flush that has run; False if a cut voids it, with the summaries it wrote.

        What it wrote beside a segment that was set aside meanwhile goes.
        """
        self._folder_synced = max(self._folder_synced, flush.folder_changes)
        if flush.changes != self.changes:
            for part in flush.parts:
                part.segment.remove_side_files()
            self._folder_changes += 1
            return False
        for part in flush.parts[:-1]:
            part.segment.release()
        for part in flush.parts:
            if part.segment.base_offset < self.start_offset:
                part.segment.remove_side_files()
        self._unflushed = [part for part in self._unflushed if part not in flush.parts]
        return True

    def begin_sync(self) -> LogSync:
        """Begin to bring all content to disk; summaries come with the next flush."""
        files = (*(part.file for part in self._unflushed), self._segments[-1].open_file())
        return LogSync(
            folder=self._folder if self._folder_dirty else None,
            files=files,
            end_offset=self._segments[-1].end_offset,
            changes=self.changes,
            folder_changes=self._folder_changes,
        )

    def end_sync(self, sync: LogSync) -> bool:
        """Take a sync that has run; False if a cut voids it."""
        if sync.folder is not None:
            self._folder_synced = max(self._folder_synced, sync.folder_changes)
        return sync.changes == self.changes

    def producers_up_to(self, offset: int) -> ProducerRebuild:
        """Begin to make the producer state at an offset anew, which is the end of the log."""
        last = _index_of(self._segments, offset)
        before = self._segments[last - 1] if last else None
        known = [part.summary for part in self._unflushed if part.segment is before]
        return ProducerRebuild(
            segments=self._segments[: last + 1],
            known=known[0] if known else None,
            end_offset=offset,
        )

    def truncate_to(self, offset: int) -> None:
        """Cut off every batch that reaches an offset or lies above it.

        Shape:   start offset <= offset < end offset
        """
        self.changes += 1
        self._take_out(keep=_index_of(self._segments, offset) + 1)
        self._segments[-1].truncate_to(offset)

    def restart_at(self, offset: int) -> None:
        """Take out all segments and begin with an empty one at an offset."""
        self.changes += 1
        self._take_out(keep=0)
        self.add(offset)

    def take_set_aside(self) -> list[Path]:
        """Return the renamed files of the segments that cuts took whole, to be removed."""
        files, self._set_aside = self._set_aside, []
        return files

    def _take_out(self, *, keep: int) -> None:
        """Take segments out from the newest on, so that a crash in between leaves no hole."""
        removed, self._segments = self._segments[keep:], self._segments[:keep]
        for segment in reversed(removed):
            self._set_aside.append(segment.set_aside())
        if self._segments:
            self._segments[-1].activate()
            self._segments[-1].remove_side_files()
        self._folder_changes += 1
        sealed = self._segments[:-1]
        self._unflushed = [part for part in self._unflushed if part.segment in sealed]
        self._sealed_bytes = sum(segment.size_bytes for segment in self._segments[:-1])

    def sealed(self) -> Iterator[SealedSegment]:
        """Yield what retention asks of each sealed segment, from the oldest on."""
        for segment in self._segments[:-1]:
            yield SealedSegment(
                end_offset=segment.end_offset,
                size_bytes=segment.size_bytes,
                max_timestamp_ms=segment.max_timestamp_ms,
                modified_ms=segment.modified_ms,
            )

    @property
    def may_roll(self) -> bool:
        """Tell whether one more sealed segment may wait for a flush."""
        return len(self._unflushed) < self._environment.limits.unflushed_segments_max

    def set_aside_below(self, offset: int) -> list[Path]:
        """Take out sealed segments that end at or below an offset; return their renamed files.

        The oldest goes first, so that a crash in between leaves no hole. What a reader or a flush
        has begun goes on with the files that it holds. At most SET_ASIDE_AT_ONCE_MAX go: the
        caller asks again.
        """
        files: list[Path] = []
        while (
            len(self._segments) > 1
            and self._segments[0].end_offset <= offset
            and len(files) < SET_ASIDE_AT_ONCE_MAX
        ):
            segment = self._segments.pop(0)
            self._unflushed = [part for part in self._unflushed if part.segment is not segment]
            self._sealed_bytes -= segment.size_bytes
            self._folder_changes += 1
            files.append(segment.set_aside())
        return files

    def read(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int, any_size: bool
    ) -> list[memoryview]:
        """Read whole batches across segments; any_size lets the first one exceed max_bytes.

        Shape:   start offset <= from_offset; up_to_offset <= end offset
        """
        found: list[memoryview] = []
        index, budget, complete = _index_of(self._segments, from_offset), max_bytes, True
        while complete and from_offset < up_to_offset and (budget > 0 or (any_size and not found)):
            segment = self._segments[index]
            part, complete = segment.read(
                from_offset=from_offset,
                up_to_offset=up_to_offset,
                max_bytes=max(0, budget),
                any_size=any_size and not found,
            )
            if len(part) > 0:
                found.append(part)
                budget -= len(part)
            from_offset = segment.end_offset
            index += 1
        return found

    def part(self, *, from_offset: int, up_to_offset: int, max_bytes: int) -> LogPart:
        """Return the segments that a read of max_bytes may touch, for a reader in any thread.

        Shape:   start offset <= from_offset; up_to_offset <= end offset
        """
        first = _index_of(self._segments, from_offset)
        parts: list[SegmentPart] = []
        following = 0
        for segment in self._segments[first:]:
            if parts and (segment.base_offset >= up_to_offset or following > max_bytes):
                break
            following += segment.size_bytes if parts else 0
            parts.append(segment.part())
        return LogPart(
            segments=parts,
            from_offset=from_offset,
            up_to_offset=up_to_offset,
            changes=self.changes,
        )

    def unindexed(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int
    ) -> SegmentPart | None:
        """Return the first segment that a read may touch whose index must be made from all of it.

        Opens the segments before it, which costs a read of each one's index file.
        """
        if from_offset >= self.active.base_offset:
            return None
        following = 0
        first = _index_of(self._segments, from_offset)
        for segment in self._segments[first:]:
            if segment.base_offset >= up_to_offset or following > max_bytes:
                break
            if not segment.open_indexed():
                return segment.part()
            following += segment.size_bytes if segment is not self._segments[first] else 0
        return None

    def first_reaching_time(
        self, timestamp_ms: int, *, from_offset: int, up_to_offset: int
    ) -> SegmentPart | None:
        """Return the first segment between two offsets with a batch that may reach a timestamp."""
        for segment in self._segments[_index_of(self._segments, from_offset) :]:
            if segment.base_offset >= up_to_offset:
                break
            if segment.max_timestamp_ms >= timestamp_ms and segment.end_offset > from_offset:
                return segment.part()
        return None

    def size_range(self, from_offset: int, up_to_offset: int, *, enough: int) -> tuple[int, int]:
        """Return the least and the most bytes between two offsets, without reading the disk.

        Where both are at least enough they may be too small: a log has many segments, and a read
        touches few.
        """
        first, last = (_index_of(self._segments, each) for each in (from_offset, up_to_offset))
        start_low, start_high = self._segments[first].position_range(from_offset)
        before = 0
        for index in range(first, last):
            before += self._segments[index].size_bytes
            if before - start_high >= enough:
                return before - start_high, before - start_low
        end_low, end_high = self._segments[last].position_range(up_to_offset)
        return max(0, before + end_low - start_high), max(0, before + end_high - start_low)

    def size_between(self, from_offset: int, up_to_offset: int) -> int:
        """Return the bytes between two offsets of the last segment; reads two index intervals."""
        start, end = (self.active.position_of(offset) for offset in (from_offset, up_to_offset))
        return max(0, end - start)

    def is_recent(self, offset: int, *, within_bytes: int) -> bool:
        """Tell whether all from an offset on is in the last segment and within its last bytes."""
        active = self.active
        if offset < active.base_offset:
            return False
        return active.size_bytes - active.position_range(offset)[0] <= within_bytes


def _index_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that an offset belongs to."""
    return max(0, bisect_right(segments, offset, key=lambda s: s.base_offset) - 1)
