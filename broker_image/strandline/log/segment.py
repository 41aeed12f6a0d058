"""One segment of a log: `<20-digit base offset>.log`, its `.index` and its `.summary`.

A segment is active (the last one: open for writing, its index in memory) or sealed (never written
again, opened for reading through a pool that bounds how many are open). The file is a plain
sequence of batches, as Kafka's are.

Invariant: the tracked size is a batch boundary; bytes behind it, left by a failed write, are never
read and are cut off at the next start.

One thread changes a segment; its `SegmentPart` is read in any thread meanwhile.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from strandline.broker_interface import Buffer
from strandline.errors import CorruptBatch
from strandline.model import EpochStart

from .batch_scan import ScanEnd, Window, check_batches, headers
from .files import FILE_MODE, content_of, is_full, rewrite_file, write_all
from .index import RELATIVE_MAX, OffsetIndex
from .producer_state import ProducerState
from .record_batch import HEADER_BYTES, BatchHeader
from .segment_cut import CUT_AT_ONCE_BYTES_MAX, SegmentCut, cut_or_mark
from .segment_part import OpenFile, SegmentPart
from .segment_summary import SUMMARY_SUFFIX, SegmentSummary, read_summary

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
SET_ASIDE_SUFFIX = ".deleted"
OFFSET_DIGITS = 20
NO_TIMESTAMP = -1

_SEGMENT = re.compile(rf"[0-9]{{{OFFSET_DIGITS}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """The bounds of every log of a broker, for all topics."""

    index_interval_bytes: int
    """Bytes of log between two index entries (log.index.interval.bytes)."""
    index_size_max_bytes: int
    """A full index rolls its segment (log.index.size.max.bytes)."""
    unflushed_segments_max: int = 8
    """Sealed segments of a log that may wait for an fsync; while so many wait, the last segment
    takes more than its size (log.unflushed.segments.max)."""
    fsyncs_at_once_max: int = 8
    """Logs that a start brings to disk at a time."""
    cut_at_once_bytes_max: int = CUT_AT_ONCE_BYTES_MAX
    """A truncation frees so much of a segment at once; more waits for a thread."""

    def new_index(self) -> OffsetIndex:
        """Make an empty index with these bounds."""
        return OffsetIndex(
            interval_bytes=self.index_interval_bytes, size_max_bytes=self.index_size_max_bytes
        )


class SegmentPool:
    """Sealed segments of all logs open for reading; the least recently read is let go first.

    Any thread may call it. Two threads that open one path at once may open it twice; one of both
    files is closed after its read.
    """

    def __init__(self, *, open_segments_max: int) -> None:
        self._open: OrderedDict[Path, OpenFile] = OrderedDict()
        self._open_segments_max = open_segments_max
        self._lock = Lock()

    def get(self, path: Path, opener: Callable[[], OpenFile]) -> OpenFile:
        """Return the open file of a path; open it, and let another go, if need be."""
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
                return file
        file = opener()
        with self._lock:
            while len(self._open) >= self._open_segments_max:
                self._open.popitem(last=False)
            self._open[path] = file
        return file

    def find(self, path: Path) -> OpenFile | None:
        """Return the file of a path if it is open; it counts as read."""
        with self._lock:
            if path in self._open:
                self._open.move_to_end(path)
            return self._open.get(path)

    def discard(self, path: Path) -> None:
        """Let the file of a path go if it is open."""
        with self._lock:
            self._open.pop(path, None)

    def close(self) -> None:
        """Let every file go."""
        with self._lock:
            self._open.clear()


class SegmentEnd(NamedTuple):
    """The end of a segment's batches: the offset after the last one, and the bytes of all."""

    offset: int
    position: int


def base_offsets_in(folder: Path) -> list[int]:
    """Return the base offsets of the segments in a folder, ascending; other files are ignored."""
    names = (path.name.removesuffix(LOG_SUFFIX) for path in folder.glob("*" + LOG_SUFFIX))
    return sorted(int(name) for name in names if _SEGMENT.fullmatch(name))


class Segment:
    """A segment; offsets in [base_offset, end_offset), bytes in [0, size_bytes)."""

    __slots__ = (
        "_limits",
        "_pool",
        "_writer",
        "base_offset",
        "cut",
        "end",
        "max_timestamp_ms",
        "path",
    )

    def __init__(
        self, folder: Path, base_offset: int, *, limits: LogLimits, pool: SegmentPool
    ) -> None:
        self.base_offset = base_offset
        self.end = SegmentEnd(base_offset, 0)
        self.max_timestamp_ms = NO_TIMESTAMP
        """The greatest timestamp of a batch; a truncation that leaves batches keeps it, so it may
        be greater than theirs."""
        self.path = folder / f"{base_offset:0{OFFSET_DIGITS}d}{LOG_SUFFIX}"
        self._limits = limits
        self._pool = pool
        self._writer: OpenFile | None = None
        self.cut: SegmentCut | None = None
        """The newest cut, if its tail was too long to go at once; `finish_cut` forgets it."""

    @property
    def end_offset(self) -> int:
        """Offset after the last batch."""
        return self.end.offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self.end.position

    @property
    def index_path(self) -> Path:
        """The index file."""
        return self.path.with_suffix(INDEX_SUFFIX)

    @property
    def summary_path(self) -> Path:
        """The summary file."""
        return self.path.with_suffix(SUMMARY_SUFFIX)

    def create(self) -> None:
        """Make the empty file and open it for writing; it must not exist."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
        self._writer = OpenFile(fd, self._limits.new_index())

    def summarise(
        self, epochs: Sequence[EpochStart], producers: ProducerState
    ) -> SegmentSummary | None:
        """Return the summary of all that the segment holds; None if it holds nothing.

        Shape:   epochs and producers are those of the log up to this segment's end
        """
        base, end = self.base_offset, self.end
        own = [each for each in epochs if base <= each.start_offset < end.offset]
        before = [each for each in epochs if each.start_offset < base]
        if before and not (own and own[0].start_offset == base):
            own.insert(0, before[-1]._replace(start_offset=base))
        if not own:
            return None
        return SegmentSummary(
            base_offset=base,
            end_offset=end.offset,
            size_bytes=end.position,
            max_timestamp_ms=self.max_timestamp_ms,
            index_crc=0,
            epochs=tuple(own),
            producers=producers.copy(),
        )

    def trusted_summary(self, *, recovery_point: int) -> SegmentSummary | None:
        """Return the summary of a file found on disk if it can be trusted; remove one that cannot.

        One that stayed could fit again after the segment has been cut and written anew. Its index
        goes with it: it may be that of an earlier version.
        """
        summary = read_summary(self.summary_path)
        if (
            summary is not None
            and summary.base_offset == self.base_offset
            and summary.end_offset <= recovery_point
            and summary.size_bytes <= self.path.stat().st_size
        ):
            index = content_of(self.index_path)
            if zlib.crc32(index) == summary.index_crc and self._limits.new_index().load(
                index, log_size_bytes=summary.size_bytes
            ):
                return summary
        self.remove_side_files()
        return None

    def check(
        self,
        *,
        summary: SegmentSummary | None,
        last_epoch: int,
        epoch_max: int,
        with_crc: bool,
        visit: Callable[[BatchHeader], None],
    ) -> ScanEnd:
        """Open a file found on disk, check what its summary does not cover, and rebuild its index.

        The check is that of `check_batches`. The segment then covers the good batches; `cut_file`
        removes the rest.
        """
        file = self._writer = OpenFile(os.open(self.path, os.O_RDWR), self._limits.new_index())
        start, first_offset = 0, self.base_offset
        if summary is not None:
            file.index.load(content_of(self.index_path), log_size_bytes=summary.size_bytes)
            start, first_offset = summary.size_bytes, summary.end_offset
            _, last_epoch = summary.epoch_range
            self.max_timestamp_ms = summary.max_timestamp_ms

        def note(position: int, header: BatchHeader) -> None:
            file.index.note(header.base_offset - self.base_offset, position, header.max_timestamp)
            self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp)
            visit(header)

        end = check_batches(
            file.fd,
            os.fstat(file.fd).st_size,
            start=start,
            first_offset=first_offset,
            last_epoch=last_epoch,
            epoch_max=epoch_max,
            with_crc=with_crc,
            visit=note,
        )
        self.end = SegmentEnd(end.next_offset, end.position)
        return end

    def cut_file(self) -> None:
        """Cut the file to the tracked size."""
        os.ftruncate(self.open_file().fd, self.size_bytes)

    def release(self) -> None:
        """Let the file go; a sealed segment is opened again when it is read."""
        self._writer = None
        self._pool.discard(self.path)

    def activate(self) -> None:
        """Open a sealed segment for writing again, after the removal of those behind it."""
        if self._writer is None:
            index = self.open_file().index
            self._pool.discard(self.path)
            self._writer = OpenFile(os.open(self.path, os.O_RDWR), index)

    def remove(self) -> None:
        """Delete all files, the segment last."""
        self.release()
        self.remove_side_files()
        self.path.unlink()

    def remove_side_files(self) -> None:
        """Delete summary and index: without their segment they could fit a later one."""
        self.summary_path.unlink(missing_ok=True)
        self.index_path.unlink(missing_ok=True)

    @property
    def modified_ms(self) -> int:
        """When the file was last written, ms since 1970."""
        return int(self.path.stat().st_mtime * 1000)

    @property
    def first_timestamp_ms(self) -> int:
        """The timestamp of the first batch; the segment holds at least one."""
        _, header = next(headers(self.open_file().fd, start=0, end=self.size_bytes))
        return header.base_timestamp

    def set_aside(self) -> Path:
        """Rename the file, so that a read in progress ends well; return the file to be removed."""
        self.release()
        self.remove_side_files()
        return self.path.rename(self.path.with_name(self.path.name + SET_ASIDE_SUFFIX))

    def open_file(self) -> OpenFile:
        """Return the open file; a reader keeps it until it has read."""
        writer = self._writer
        if writer is not None:
            return writer
        return self._pool.get(self.path, self.open_sealed)

    def open_sealed(self) -> OpenFile:
        """Open a sealed segment and load its index; in any thread."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            index = self._load_index(fd)
            return OpenFile(fd, self._make_index(fd) if index is None else index)
        except BaseException:
            os.close(fd)
            raise

    def open_indexed(self) -> bool:
        """Open a segment whose index is at hand; False if its index must be made from all of it."""
        if self._writer is not None or self._pool.find(self.path) is not None:
            return True
        fd = os.open(self.path, os.O_RDONLY)
        index = None
        try:
            index = self._load_index(fd)
        finally:
            if index is None:
                os.close(fd)
        if index is None:
            return False
        file = OpenFile(fd, index)
        self._pool.get(self.path, lambda: file)
        return True

    def _load_index(self, fd: int) -> OffsetIndex | None:
        """Read the index file; None if it is missing, short or corrupt."""
        index, size_bytes = self._limits.new_index(), self.size_bytes
        try:
            if not index.load(self.index_path.read_bytes(), log_size_bytes=size_bytes):
                return None
            if not index.full and not self._reaches_end(fd, index):
                return None
        except (FileNotFoundError, CorruptBatch):
            return None
        return index

    def _reaches_end(self, fd: int, index: OffsetIndex) -> bool:
        """Tell whether no batch behind the last entry should have one; reads one interval.

        An index that lost its end on a full disk would cost a walk of the rest at each read.
        """
        last = position = index.at_or_below_position(self.size_bytes)
        interval = self._limits.index_interval_bytes
        window = Window(fd, end=self.size_bytes, read_bytes=interval + HEADER_BYTES)
        while position < self.size_bytes and position - last <= interval:
            position += window.header_at(position).size_bytes
        return position >= self.size_bytes

    def _make_index(self, fd: int) -> OffsetIndex:
        """Make the index from all batches, and its file; two readers and a flush may do so at once.

        No fsync: a start takes the file only with the checksum that a summary has of it.
        """
        index, end = self._limits.new_index(), self.end
        for position, header in headers(fd, start=0, end=end.position):
            index.note(header.base_offset - self.base_offset, position, header.max_timestamp)
        try:
            rewrite_file(self.index_path, index.to_bytes())
            if self.end != end:  # a cut took the index file along, before this one came
                self.index_path.unlink(missing_ok=True)
        except OSError as error:
            # A full disk still serves reads; the next read builds the index again.
            if not is_full(error):
                raise
        return index

    def can_hold(self, header: BatchHeader, *, position: int) -> bool:
        """Tell whether an index can point at a batch there, however big the segment is then."""
        return (
            position + header.size_bytes <= RELATIVE_MAX
            and header.next_offset - 1 - self.base_offset <= RELATIVE_MAX
        )

    def has_room(self, header: BatchHeader, *, position: int, segment_max_bytes: int) -> bool:
        """Tell whether a batch written at a position fits into this segment.

        An empty segment takes any batch. Source: Kafka LogSegment.shouldRoll.
        """
        return position == 0 or (
            position + header.size_bytes <= segment_max_bytes
            and self.can_hold(header, position=position)
            and not self.open_file().index.full
        )

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchHeader]) -> None:
        """Write whole batches behind the last one.

        Shape:   the buffers together are the bytes of the batches; offsets are contiguous
        """
        self.finish_cut()
        file = self.open_file()
        write_all(file.fd, buffers, self.size_bytes)
        position = self.size_bytes
        for header in batches:
            file.index.note(header.base_offset - self.base_offset, position, header.max_timestamp)
            self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp)
            position += header.size_bytes
        self.end = SegmentEnd(batches[-1].next_offset, position)

    def truncate_to(self, offset: int) -> None:
        """Cut off every batch that reaches an offset or lies above it; for an active segment."""
        self.finish_cut()
        file = self.open_file()
        near = file.index.at_or_below_offset(offset - self.base_offset)
        for position, header in headers(file.fd, start=near, end=self.size_bytes):
            if header.next_offset > offset:
                self.cut = cut_or_mark(
                    file,
                    size_bytes=position,
                    old_bytes=self.size_bytes,
                    at_once_max=self._limits.cut_at_once_bytes_max,
                )
                self.end = SegmentEnd(header.base_offset, position)
                file.index.truncate(position)
                if position == 0:
                    self.max_timestamp_ms = NO_TIMESTAMP
                return

    def finish_cut(self) -> None:
        """Wait until the tail of the newest cut is gone; a thread has cut it off, as a rule."""
        if self.cut is not None:
            self.cut.run()
            self.cut = None

    def read(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int, any_size: bool
    ) -> tuple[memoryview, bool]:
        """Read whole batches; see `SegmentPart.read`."""
        return self._part(None).read(
            self.open_file(),
            from_offset=from_offset,
            up_to_offset=up_to_offset,
            max_bytes=max_bytes,
            any_size=any_size,
        )

    def part(self) -> SegmentPart:
        """Return this segment as it is now, for a reader in any thread."""
        return self._part(self._writer or self._pool.find(self.path))

    def _part(self, file: OpenFile | None) -> SegmentPart:
        end = self.end
        return SegmentPart(
            segment=self,
            file=file,
            base_offset=self.base_offset,
            end_offset=end.offset,
            size_bytes=end.position,
            index_interval_bytes=self._limits.index_interval_bytes,
        )

    def adopt_index(self, index: OffsetIndex) -> None:
        """Keep a sealed segment open with the index that a reader has loaded."""
        if self._writer is None:
            self._pool.get(self.path, lambda: OpenFile(os.open(self.path, os.O_RDONLY), index))

    def position_range(self, offset: int) -> tuple[int, int]:
        """Return positions around the batch that holds an offset, without reading the disk."""
        if offset >= self.end_offset:
            return self.size_bytes, self.size_bytes
        file = self._writer or self._pool.find(self.path)
        if file is None:
            return 0, self.size_bytes
        relative = offset - self.base_offset
        above = file.index.reaching_offset(relative, default=self.size_bytes)
        return file.index.at_or_below_offset(relative), above

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that holds an offset; reads an index interval."""
        if offset >= self.end_offset:
            return self.size_bytes
        file = self.open_file()
        start = file.index.at_or_below_offset(offset - self.base_offset)
        ahead = self._limits.index_interval_bytes + HEADER_BYTES
        window = Window(file.fd, end=self.size_bytes, read_bytes=ahead)
        while start < self.size_bytes:
            header = window.header_at(start)
            if header.next_offset > offset:
                break
            start += header.size_bytes
        return start
