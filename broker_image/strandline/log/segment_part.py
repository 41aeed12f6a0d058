"""Read a range of a log in another thread than the one that changes the log.

The event loop makes a `LogPart` of what the log is now; `LogPart.read` may run in any thread; the
event loop then hands the outcome to `ReadableLog.finish_read`, which refuses what a truncation
has overtaken. Every part holds its open files, so a segment that is removed meanwhile is still
read as it was. Appends meanwhile do not matter: they change nothing below the end that the part
has seen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from strandline.errors import CorruptBatch

from .batch_scan import Window
from .index import OffsetIndex
from .record_batch import HEADER_BYTES


class OpenFile:
    """An open segment file and its index; the file is closed with the last reference to it.

    A thread that reads while another closes the segment would otherwise read from whatever file
    gets the same descriptor next.
    """

    __slots__ = ("fd", "index")

    def __init__(self, fd: int, index: OffsetIndex) -> None:
        self.fd = fd
        self.index = index

    def __del__(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class FileRange:
    """Whole batches that stay in their file, which is open as long as this is held."""

    file: OpenFile
    position: int
    size_bytes: int

    def __len__(self) -> int:
        return self.size_bytes


READ_ALL: Final = 1 << 62
"""More bytes than a file has: all batches are read."""
Records = memoryview | FileRange
"""Whole batches, read or where they lie."""


class ReadableSegment(Protocol):
    """What a part may ask of its segment in another thread, and the log afterwards."""

    def open_sealed(self) -> OpenFile:
        """Open a sealed segment and load its index."""
        ...

    def adopt_index(self, index: OffsetIndex) -> None:
        """Keep a sealed segment open with a loaded index."""
        ...


@dataclass(slots=True, kw_only=True)
class SegmentPart:
    """A segment as it was when the read was planned; file is None until it is opened."""

    segment: ReadableSegment
    file: OpenFile | None
    base_offset: int
    end_offset: int
    size_bytes: int
    index_interval_bytes: int

    def open(self) -> OpenFile:
        """Open the file, which is not open."""
        self.file = self.segment.open_sealed()
        return self.file

    def close(self) -> None:
        """Let the file go."""
        self.file = None

    def read(
        self,
        file: OpenFile,
        *,
        from_offset: int,
        up_to_offset: int,
        max_bytes: int,
        any_size: bool,
    ) -> tuple[memoryview, bool]:
        """Read whole batches from the one holding from_offset on, none beyond up_to_offset.

        any_size lets the first batch exceed max_bytes. A read usually takes one pread, and walks
        at most an index interval of batches at either end.

        Returns: the bytes, empty if no batch fits; and whether they reach the segment's end
        """
        window, start, end = self._find(
            file, from_offset, up_to_offset, max_bytes, any_size=any_size, ahead_bytes=max_bytes
        )
        return window.view(start, end), end == self.size_bytes

    def find(
        self,
        file: OpenFile,
        *,
        from_offset: int,
        up_to_offset: int,
        max_bytes: int,
        any_size: bool,
        range_min_bytes: int,
        cached_only: bool,
    ) -> tuple[Records, bool]:
        """Read as `read` does, but leave range_min_bytes and more in the file.

        With cached_only BlockingIOError in place of a read of the disk.
        """
        ahead_bytes = max_bytes if max_bytes < range_min_bytes else 0
        window, start, end = self._find(
            file,
            from_offset,
            up_to_offset,
            max_bytes,
            any_size=any_size,
            ahead_bytes=ahead_bytes,
            cached_only=cached_only,
        )
        size_bytes, complete = end - start, end == self.size_bytes
        if size_bytes < range_min_bytes:
            return window.view(start, end), complete
        return FileRange(file, start, size_bytes), complete

    def _find(
        self,
        file: OpenFile,
        from_offset: int,
        up_to_offset: int,
        max_bytes: int,
        *,
        any_size: bool,
        ahead_bytes: int,
        cached_only: bool = False,
    ) -> tuple[Window, int, int]:
        """Return the positions where whole batches begin and end, and what was read to find them.

        ahead_bytes are read beyond an index interval.
        """
        index, base, size = file.index, self.base_offset, self.size_bytes
        # An append meanwhile may have noted entries beyond this part.
        limit = min(index.reaching_offset(up_to_offset - base, default=size), size)
        ahead = ahead_bytes + self.index_interval_bytes + HEADER_BYTES
        window = Window(file.fd, end=limit, read_bytes=ahead, cached_only=cached_only)
        start = index.at_or_below_offset(from_offset - base)
        while start < limit:
            first = window.header_at(start)
            if first.next_offset > from_offset:
                break
            start += first.size_bytes
        else:
            return window, limit, limit
        budget_end = start + max_bytes
        if up_to_offset >= self.end_offset and size <= budget_end:
            return window, start, size
        end = start
        if any_size and first.next_offset <= up_to_offset:
            end = start + first.size_bytes
        by_size = index.at_or_below_position(budget_end)
        by_offset = index.at_or_below_offset(up_to_offset - base)
        end = max(end, min(by_size, by_offset))
        while end < limit:
            header = window.header_at(end)
            if header.next_offset > up_to_offset or end + header.size_bytes > budget_end:
                break
            end += header.size_bytes
        return window, start, end


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """The outcome of a read: its batches, or what went wrong."""

    records: tuple[Records, ...] = ()
    loaded: tuple[tuple[ReadableSegment, OffsetIndex], ...] = ()
    error: OSError | CorruptBatch | IndexError | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(len(part) for part in self.records)


@dataclass(slots=True, kw_only=True)
class LogPart:
    """Neighbouring segments of a log that hold [from_offset, up_to_offset), to be read once.

    changes is the log's count of changes other than appends when the part was made.
    """

    segments: Sequence[SegmentPart]
    from_offset: int
    up_to_offset: int
    changes: int
    _loaded: list[tuple[ReadableSegment, OffsetIndex]] = field(default_factory=list)

    def read(
        self,
        *,
        max_bytes: int,
        any_size: bool,
        range_min_bytes: int = READ_ALL,
        cached_only: bool = False,
    ) -> LogRead:
        """Read whole batches and let the files go; any_size lets the first one exceed max_bytes.

        Neighbouring batches of range_min_bytes and more stay in their file. A change of the log
        meanwhile may show as any of the errors: the log knows the difference.

        Raises:  BlockingIOError with cached_only, where the disk would have to be asked
        """
        try:
            return self._read(
                max_bytes,
                any_size=any_size,
                range_min_bytes=range_min_bytes,
                cached_only=cached_only,
            )
        except BlockingIOError:
            raise
        except (OSError, CorruptBatch, IndexError) as error:
            return LogRead(error=error)
        finally:
            self.close()

    def close(self) -> None:
        """Let every file go."""
        for segment in self.segments:
            segment.close()

    def _read(
        self, budget: int, *, any_size: bool, range_min_bytes: int, cached_only: bool
    ) -> LogRead:
        found: list[Records] = []
        from_offset = self.from_offset
        for segment in self.segments:
            if from_offset >= self.up_to_offset or (budget <= 0 and (found or not any_size)):
                break
            file = segment.file
            if file is None:
                if cached_only:
                    raise BlockingIOError
                file = segment.open()
                self._loaded.append((segment.segment, file.index))
            part, complete = segment.find(
                file,
                from_offset=from_offset,
                up_to_offset=self.up_to_offset,
                max_bytes=max(0, budget),
                any_size=any_size and not found,
                range_min_bytes=range_min_bytes,
                cached_only=cached_only,
            )
            if len(part) > 0:
                found.append(part)
                budget -= len(part)
            from_offset = segment.end_offset
            if not complete:
                break
        return LogRead(records=tuple(found), loaded=tuple(self._loaded))
