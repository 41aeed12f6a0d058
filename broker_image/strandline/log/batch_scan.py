"""Walk the batches of a segment file, with or without a check of every byte.

Files are read in windows, so a header costs a parse and not a system call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from strandline.errors import CorruptBatch

from .files import read_cached, read_exactly
from .record_batch import HEADER_BYTES, BatchHeader, check_crc, parse_header

WINDOW_BYTES = 256 * 1024
CUT_MARK: Final = b"\xff" * 8 + b"strandline: the log ends here"
"""In the place of a batch's header, and shorter: the log was cut here, whatever follows. No batch
has a base offset of -1."""


class Window:
    """A part of a file in memory; it moves on with the reads, and positions are the file's.

    With cached_only every method raises BlockingIOError where it would have to ask the disk.
    """

    __slots__ = ("_data", "_end", "_fd", "_from", "_read", "_read_bytes")

    def __init__(
        self, fd: int, *, end: int, read_bytes: int = WINDOW_BYTES, cached_only: bool = False
    ) -> None:
        self._fd = fd
        self._end = end
        self._read_bytes = read_bytes
        self._read = read_cached if cached_only else read_exactly
        self._from = 0
        self._data = b""

    def _locate(self, position: int, length: int) -> int:
        """Return the index of a position in `_data`, after reading the range if need be."""
        within = position - self._from
        if within < 0 or within + length > len(self._data):
            wanted = max(length, min(self._read_bytes, self._end - position))
            self._data = self._read(self._fd, wanted, position)
            self._from, within = position, 0
        return within

    def header_at(self, position: int) -> BatchHeader:
        """Read the header at a position; CorruptBatch if it is malformed or cut."""
        within = self._locate(position, min(HEADER_BYTES, self._end - position))
        return parse_header(self._data, within)

    def check_crc_at(self, position: int, header: BatchHeader) -> None:
        """Check the CRC of a batch that lies within the file; CorruptBatch if it differs."""
        within = self._locate(position, header.size_bytes)
        check_crc(header, self._data, within)

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes of a range, uncopied."""
        within = self._locate(start, end - start)
        return memoryview(self._data)[within : within + end - start]


def is_cut_at(window: Window, position: int, end: int) -> bool:
    """Tell whether a truncation marked this place of a file that is so long as its end."""
    behind = position + len(CUT_MARK)
    return behind <= end and window.view(position, behind) == CUT_MARK


def headers(fd: int, *, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of batches; the log checked them before it wrote them."""
    window = Window(fd, end=end)
    position = start
    while position < end:
        header = window.header_at(position)
        yield position, header
        position += header.size_bytes


class EndKind(Enum):
    """Why the check of a segment ended at its position."""

    COMPLETE = "complete"
    TORN = "torn"
    """The last batch is cut by the end of the file: a write that never returned."""
    CUT = "cut"
    """The mark of a truncation: the process died before the tail behind it was gone."""
    DAMAGED = "damaged"
    """Bytes that were written are missing or changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanEnd:
    """The end of the good batches of a segment file; problem is "" if it is the file's end."""

    position: int
    next_offset: int
    last_epoch: int
    kind: EndKind
    problem: str = ""


def check_batches(
    fd: int,
    size_bytes: int,
    *,
    start: int,
    first_offset: int,
    last_epoch: int,
    epoch_max: int,
    with_crc: bool,
    visit: Callable[[int, BatchHeader], None],
) -> ScanEnd:
    """Walk a segment file from a position on and stop at the first bad batch.

    Batches are contiguous from first_offset on. Leader epochs never fall below last_epoch, and none
    is above epoch_max, the highest that this broker ever accepted. These rules protect offsets and
    epochs, which the CRC does not cover. visit gets the position and header of every good batch.

    Source:  Kafka LogSegment.recover, LogLoader.recoverSegment
    """
    window = Window(fd, end=size_bytes)
    position, next_offset, kind, problem = start, first_offset, EndKind.COMPLETE, ""
    while position < size_bytes:
        try:
            if size_bytes - position < HEADER_BYTES:
                kind, problem = EndKind.TORN, "batch header is cut"
                break
            header = window.header_at(position)
            problem = _misplaced(header, next_offset, last_epoch, epoch_max)
            if problem:
                kind = EndKind.DAMAGED
                break
            if position + header.size_bytes > size_bytes:
                kind, problem = EndKind.TORN, "batch is cut"
                break
            if with_crc:
                window.check_crc_at(position, header)
        except CorruptBatch as error:
            kind, problem = EndKind.DAMAGED, str(error)
            break
        visit(position, header)
        position += header.size_bytes
        next_offset, last_epoch = header.next_offset, header.leader_epoch
    if kind is EndKind.DAMAGED and is_cut_at(window, position, size_bytes):
        kind, problem = EndKind.CUT, "a truncation was not finished"
    return ScanEnd(
        position=position,
        next_offset=next_offset,
        last_epoch=last_epoch,
        kind=kind,
        problem=problem,
    )


def _misplaced(header: BatchHeader, next_offset: int, last_epoch: int, epoch_max: int) -> str:
    if header.base_offset != next_offset:
        return f"base offset {header.base_offset} where {next_offset} must follow"
    if not last_epoch <= header.leader_epoch <= epoch_max:
        return f"leader epoch {header.leader_epoch} outside [{last_epoch}, {epoch_max}]"
    return ""
