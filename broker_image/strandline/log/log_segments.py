"""The segments of one log, in order: rolling, syncing, cutting, reading across them.

The caller handles the OSError that operations raise.
Invariant: never empty once `load` or `add` was called; each segment begins where the one before it
ends; all but the last are sealed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strandline.broker_interface import Buffer

from .files import sync_folder
from .log_validation import LogValidation, validate_segments
from .record_batch import BatchHeader
from .retention import SealedSegment
from .segment import SET_ASIDE_SUFFIX, LogLimits, Segment, SegmentPool, base_offsets_in
from .segment_part import LogPart, SegmentPart


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnvironment:
    """What all logs of a broker share."""

    pool: SegmentPool
    limits: LogLimits
    on_flush: Callable[[float], None] = lambda _seconds: None
    """Gets the seconds of each fsync of a log."""


class LogSegments:
    """The segments of one log, ascending by base offset."""

    __slots__ = (
        "_changes",
        "_environment",
        "_folder",
        "_folder_dirty",
        "_sealed_bytes",
        "_segments",
        "_unflushed",
    )

    def __init__(self, folder: Path, environment: LogEnvironment) -> None:
        self._folder = folder
        self._environment = environment
        self._segments: list[Segment] = []
        self._unflushed: list[Segment] = []
        self._sealed_bytes = 0
        self._folder_dirty = False
        self._changes = 0

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
        """Tell whether files were made or removed since the folder was last synced."""
        return self._folder_dirty

    def load(
        self,
        recovery_point: int,
        *,
        with_crc: bool,
        epoch_max: int,
        visit: Callable[[BatchHeader], None],
    ) -> LogValidation:
        """Check the segments in the folder; see `validate_segments`."""

        def sealed(segment: Segment) -> None:
            # Batches of an earlier process above the recovery point may not be on disk yet.
            if segment.end_offset > recovery_point:
                self._wait_for_sync(segment)
            else:
                segment.release()
            self._sealed_bytes += segment.size_bytes

        for left in self._folder.glob("*" + SET_ASIDE_SUFFIX):
            left.unlink()
        self._segments, result = validate_segments(
            [self._segment(base) for base in base_offsets_in(self._folder)],
            crc_from=recovery_point if with_crc else None,
            epoch_max=epoch_max,
            visit=visit,
            sealed=sealed,
        )
        if not self._segments:
            self.add(0)
        self._folder_dirty = True
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
        self._folder_dirty = True

    def release_all(self) -> None:
        """Close every file of this log."""
        self._changes += 1
        for segment in self._segments:
            segment.release()

    def append(
        self, buffers: Sequence[Buffer], batches: Sequence[BatchHeader], *, segment_max_bytes: int
    ) -> None:
        """Write batches to one segment: the last one, or a new one if the last has no room."""
        active = self._segments[-1]
        if not active.has_room(
            batches[0], position=active.size_bytes, segment_max_bytes=segment_max_bytes
        ):
            self.roll(batches[0].base_offset)
            active = self._segments[-1]
        active.append(buffers, batches)

    def split(
        self, headers: Sequence[BatchHeader], *, segment_max_bytes: int
    ) -> Iterator[tuple[list[BatchHeader], int]]:
        """Split batches where the log must roll, into parts of (batches, bytes).

        The caller must append each part before it asks for the next.
        """
        part: list[BatchHeader] = []
        size = 0
        for header in headers:
            active = self._segments[-1]
            if part and not active.has_room(
                header, position=active.size_bytes + size, segment_max_bytes=segment_max_bytes
            ):
                yield part, size
                part, size = [], 0
            part.append(header)
            size += header.size_bytes
        if part:
            yield part, size

    def _wait_for_sync(self, segment: Segment) -> None:
        """Queue a sealed segment for fsync; sync the oldest if too many wait, as files are open."""
        self._unflushed.append(segment)
        while len(self._unflushed) > self._environment.limits.unflushed_segments_max:
            oldest = self._unflushed.pop(0)
            oldest.sync()
            oldest.release()

    def sync(self) -> None:
        """Make all content durable, and the folder if files were created or removed."""
        for segment in self._unflushed:
            segment.sync()
        self._segments[-1].sync()
        if self._folder_dirty:
            sync_folder(self._folder)
            self._folder_dirty = False
        for segment in self._unflushed:
            segment.release()
        self._unflushed.clear()

    def truncate_to(self, offset: int) -> None:
        """Cut off every batch that reaches an offset or lies above it.

        Shape:   start offset <= offset < end offset
        """
        self._changes += 1
        self._remove(keep=self._index_of(offset) + 1)
        self._segments[-1].activate()
        self._segments[-1].truncate_to(offset)

    def restart_at(self, offset: int) -> None:
        """Remove all segments and begin with an empty one at an offset; durable on return."""
        self._changes += 1
        self._remove(keep=0)
        self.add(offset)
        sync_folder(self._folder)
        self._folder_dirty = False

    def _remove(self, *, keep: int) -> None:
        """Delete segments from the newest on, so that a crash in between leaves no hole."""
        while len(self._segments) > keep:
            segment = self._segments.pop()
            if segment in self._unflushed:
                self._unflushed.remove(segment)
            segment.remove()
            self._folder_dirty = True
        if self._segments and self._segments[-1] in self._unflushed:
            self._unflushed.remove(self._segments[-1])
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

    def roll(self, base_offset: int) -> None:
        """Seal the last segment and begin a new one."""
        active = self._segments[-1]
        active.write_index()
        self._wait_for_sync(active)
        self._sealed_bytes += active.size_bytes
        self.add(base_offset)

    def set_aside_below(self, offset: int) -> list[Path]:
        """Take out sealed segments that end at or below an offset; return their renamed files.

        The oldest goes first, so that a crash in between leaves no hole.
        """
        files = []
        while len(self._segments) > 1 and self._segments[0].end_offset <= offset:
            segment = self._segments.pop(0)
            if segment in self._unflushed:
                self._unflushed.remove(segment)
            self._sealed_bytes -= segment.size_bytes
            files.append(segment.set_aside())
            self._folder_dirty = True
        return files

    def read(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int, any_size: bool
    ) -> list[memoryview]:
        """Read whole batches across segments; any_size lets the first one exceed max_bytes.

        Shape:   start offset <= from_offset; up_to_offset <= end offset
        """
        found: list[memoryview] = []
        index, budget, complete = self._index_of(from_offset), max_bytes, True
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

    @property
    def changes(self) -> int:
        """How often the log was cut or closed: bytes read before are not those read after."""
        return self._changes

    def part(self, *, from_offset: int, up_to_offset: int, max_bytes: int) -> LogPart:
        """Return the segments that a read of max_bytes may touch, for a reader in any thread.

        Shape:   start offset <= from_offset; up_to_offset <= end offset
        """
        first = self._index_of(from_offset)
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
            changes=self._changes,
        )

    def size_range(self, from_offset: int, up_to_offset: int) -> tuple[int, int]:
        """Return the least and the most bytes between two offsets, without reading the disk."""
        first, last = self._index_of(from_offset), self._index_of(up_to_offset)
        before = sum(segment.size_bytes for segment in self._segments[first:last])
        start_low, start_high = self._segments[first].position_range(from_offset)
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

    def headers_backwards(self) -> Iterator[BatchHeader]:
        """Yield the header of every batch, newest first."""
        for segment in reversed(self._segments):
            yield from segment.headers_backwards()

    def _index_of(self, offset: int) -> int:
        """Return the index of the segment that an offset belongs to."""
        if offset >= self._segments[-1].base_offset:
            return len(self._segments) - 1
        return max(0, bisect_right(self._segments, offset, key=lambda s: s.base_offset) - 1)
