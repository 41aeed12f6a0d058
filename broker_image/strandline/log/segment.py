"""One segment of a log: `<20-digit base offset>.log` and its `.index`.

A segment is active (the last one: open for writing, its index in memory) or sealed (never written
again, opened for reading through a pool that bounds how many are open). The file is a plain
sequence of batches, as Kafka's are.

Invariant: the tracked size is a batch boundary; bytes behind it, left by a failed write, are never
read and are cut off at the next start.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strandline.broker_interface import Buffer

from .batch_scan import ScanEnd, Window, check_batches, headers
from .files import FILE_MODE, replace_file, write_all
from .index import RELATIVE_MAX, OffsetIndex
from .record_batch import HEADER_BYTES, BatchHeader
from .segment_part import OpenFile, SegmentPart

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
SET_ASIDE_SUFFIX = ".deleted"
OFFSET_DIGITS = 20
NO_TIMESTAMP = -1
BACKWARD_BLOCK_BYTES = 1 << 20

_SEGMENT = re.compile(rf"[0-9]{{{OFFSET_DIGITS}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """The bounds of every log of a broker, for all topics."""

    index_interval_bytes: int
    """Bytes of log between two index entries (log.index.interval.bytes)."""
    index_size_max_bytes: int
    """A full index rolls its segment (log.index.size.max.bytes)."""
    unflushed_segments_max: int = 8
    """Sealed segments of a log that may wait for an fsync; beyond it, the oldest is synced."""

    def new_index(self) -> OffsetIndex:
        """Make an empty index with these bounds."""
        return OffsetIndex(
            interval_bytes=self.index_interval_bytes, size_max_bytes=self.index_size_max_bytes
        )


class SegmentPool:
    """Sealed segments of all logs open for reading; the least recently read is closed first."""

    def __init__(self, *, open_segments_max: int) -> None:
        self._open: OrderedDict[Path, OpenFile] = OrderedDict()
        self._open_segments_max = open_segments_max

    def get(self, path: Path, opener: Callable[[], OpenFile]) -> OpenFile:
        """Return the open file of a path; open it, and close another, if need be."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        while len(self._open) >= self._open_segments_max:
            os.close(self._open.popitem(last=False)[1].fd)
        file = self._open[path] = opener()
        return file

    def find(self, path: Path) -> OpenFile | None:
        """Return the file of a path if it is open; it counts as read."""
        if path in self._open:
            self._open.move_to_end(path)
        return self._open.get(path)

    def discard(self, path: Path) -> None:
        """Close the file of a path if it is open."""
        file = self._open.pop(path, None)
        if file is not None:
            os.close(file.fd)

    def close(self) -> None:
        """Close every file."""
        while self._open:
            os.close(self._open.popitem()[1].fd)


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
        "end_offset",
        "max_timestamp_ms",
        "path",
        "size_bytes",
    )

    def __init__(
        self, folder: Path, base_offset: int, *, limits: LogLimits, pool: SegmentPool
    ) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        """The greatest timestamp of a batch; a truncation that leaves batches keeps it, so it may
        be greater than theirs."""
        self.path = folder / f"{base_offset:0{OFFSET_DIGITS}d}{LOG_SUFFIX}"
        self._limits = limits
        self._pool = pool
        self._writer: OpenFile | None = None

    def create(self) -> None:
        """Make the empty file and open it for writing; it must not exist."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
        self._writer = OpenFile(fd, self._limits.new_index())

    def check(
        self,
        *,
        last_epoch: int,
        epoch_max: int,
        with_crc: bool,
        visit: Callable[[BatchHeader], None],
    ) -> ScanEnd:
        """Open a file found on disk, check it as `check_batches` does, and rebuild its index.

        The segment then covers the good batches; `cut_file` removes the rest.
        """
        fd = os.open(self.path, os.O_RDWR)
        index = self._limits.new_index()
        self._writer = OpenFile(fd, index)

        def note(position: int, header: BatchHeader) -> None:
            index.note(header.base_offset - self.base_offset, position)
            self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp)
            visit(header)

        end = check_batches(
            fd,
            os.fstat(fd).st_size,
            first_offset=self.base_offset,
            last_epoch=last_epoch,
            epoch_max=epoch_max,
            with_crc=with_crc,
            visit=note,
        )
        self.size_bytes, self.end_offset = end.position, end.next_offset
        return end

    def cut_file(self) -> None:
        """Cut the file to the tracked size."""
        os.ftruncate(self._file().fd, self.size_bytes)

    def write_index(self) -> None:
        """Write the index in memory to its file, without fsync: a lost index is rebuilt."""
        path = self.path.with_suffix(INDEX_SUFFIX)
        content = self._file().index.to_bytes()
        try:
            if path.read_bytes() == content:
                return
        except FileNotFoundError:
            pass
        path.write_bytes(content)

    def release(self) -> None:
        """Close the file; a sealed segment is opened again when it is read."""
        if self._writer is not None:
            os.close(self._writer.fd)
            self._writer = None
        self._pool.discard(self.path)

    def activate(self) -> None:
        """Open a sealed segment for writing again, after the removal of those behind it."""
        if self._writer is None:
            index = self._file().index
            self._pool.discard(self.path)
            self._writer = OpenFile(os.open(self.path, os.O_RDWR), index)

    def remove(self) -> None:
        """Delete both files."""
        self.release()
        self.path.unlink()
        self.path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)

    @property
    def modified_ms(self) -> int:
        """When the file was last written, ms since 1970."""
        return int(self.path.stat().st_mtime * 1000)

    @property
    def first_timestamp_ms(self) -> int:
        """The timestamp of the first batch; the segment holds at least one."""
        _, header = next(headers(self._file().fd, start=0, end=self.size_bytes))
        return header.base_timestamp

    def set_aside(self) -> Path:
        """Rename the file, so that a read in progress ends well; return the file to be removed."""
        self.release()
        self.path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
        return self.path.rename(self.path.with_name(self.path.name + SET_ASIDE_SUFFIX))

    def sync(self) -> None:
        """Make the content durable; a segment that is not open for writing is durable already."""
        if self._writer is not None:
            os.fdatasync(self._writer.fd)

    def _file(self) -> OpenFile:
        if self._writer is not None:
            return self._writer
        return self._pool.get(self.path, self.open_sealed)

    def open_sealed(self) -> OpenFile:
        """Open a sealed segment and load its index; in any thread."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            return OpenFile(fd, self._load_index(fd))
        except BaseException:
            os.close(fd)
            raise

    def _load_index(self, fd: int) -> OffsetIndex:
        """Read the index file; rebuild it if it is missing, short or corrupt."""
        path = self.path.with_suffix(INDEX_SUFFIX)
        index = self._limits.new_index()
        try:
            if index.load(path.read_bytes(), log_size_bytes=self.size_bytes):
                return index
        except FileNotFoundError:
            pass
        for position, header in headers(fd, start=0, end=self.size_bytes):
            index.note(header.base_offset - self.base_offset, position)
        replace_file(path, index.to_bytes())
        return index

    def has_room(self, header: BatchHeader, *, position: int, segment_max_bytes: int) -> bool:
        """Tell whether a batch written at a position fits into this segment.

        An empty segment takes any batch. Source: Kafka LogSegment.shouldRoll.
        """
        return position == 0 or (
            position + header.size_bytes <= min(segment_max_bytes, RELATIVE_MAX)
            and header.next_offset - 1 - self.base_offset <= RELATIVE_MAX
            and not self._file().index.full
        )

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchHeader]) -> None:
        """Write whole batches behind the last one.

        Shape:   the buffers together are the bytes of the batches; offsets are contiguous
        """
        file = self._file()
        write_all(file.fd, buffers, self.size_bytes)
        position = self.size_bytes
        for header in batches:
            file.index.note(header.base_offset - self.base_offset, position)
            self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp)
            position += header.size_bytes
        self.size_bytes = position
        self.end_offset = batches[-1].next_offset

    def truncate_to(self, offset: int) -> None:
        """Cut off every batch that reaches an offset or lies above it; for an active segment."""
        file = self._file()
        near = file.index.at_or_below_offset(offset - self.base_offset)
        for position, header in headers(file.fd, start=near, end=self.size_bytes):
            if header.next_offset > offset:
                os.ftruncate(file.fd, position)
                file.index.truncate(position)
                self.size_bytes, self.end_offset = position, header.base_offset
                if position == 0:
                    self.max_timestamp_ms = NO_TIMESTAMP
                return

    def read(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int, any_size: bool
    ) -> tuple[memoryview, bool]:
        """Read whole batches; see `SegmentPart.read`."""
        return self._part(None).read(
            self._file(),
            from_offset=from_offset,
            up_to_offset=up_to_offset,
            max_bytes=max_bytes,
            any_size=any_size,
        )

    def part(self) -> SegmentPart:
        """Return this segment as it is now, for a reader in any thread that closes it."""
        file = self._writer or self._pool.find(self.path)
        return self._part(file and OpenFile(os.dup(file.fd), file.index))

    def _part(self, file: OpenFile | None) -> SegmentPart:
        return SegmentPart(
            segment=self,
            file=file,
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            size_bytes=self.size_bytes,
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
        file = self._file()
        start = file.index.at_or_below_offset(offset - self.base_offset)
        ahead = self._limits.index_interval_bytes + HEADER_BYTES
        window = Window(file.fd, end=self.size_bytes, read_bytes=ahead)
        while start < self.size_bytes:
            header = window.header_at(start)
            if header.next_offset > offset:
                break
            start += header.size_bytes
        return start

    def headers_backwards(self) -> Iterator[BatchHeader]:
        """Yield the headers of all batches, newest first, reading block by block."""
        file = self._file()
        borders = [*file.index.positions_apart(BACKWARD_BLOCK_BYTES), self.size_bytes]
        for start, end in zip(reversed(borders[:-1]), reversed(borders[1:]), strict=True):
            block = [header for _, header in headers(file.fd, start=start, end=end)]
            yield from reversed(block)
