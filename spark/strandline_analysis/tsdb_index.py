"""The index of a Prometheus block: which series it has, and where their chunks are.

Called by `tsdb_block`. A metric's series are found by its postings list, and read one after the
other. The table of contents, the symbols and the table of postings are verified when an index is
opened, lists and series when they are read.

Source: Prometheus tsdb/docs/format/index.md, tsdb/index/index.go.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .tsdb_files import CHECKSUM_BYTES, MappedFile, signed, uvarints, wrapped

MAGIC: Final = 0xBAAAD700
VERSION: Final = 2
"""Version 1 is older than Prometheus 2.0; its numbers of symbols and series mean other things."""
HEADER_BYTES: Final = 5
CONTENTS_BYTES: Final = 6 * 8
SYMBOLS, POSTINGS_TABLE = 0, 5
"""Places of two sections in the table of contents; each is told by 8 bytes."""
ENTRY_STRINGS: Final = 2
SERIES_ALIGNMENT: Final = 16
TEXTS_KEPT: Final = 100_000
"""Symbols that are kept as text: labels repeat."""
NAME: Final = b"__name__"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSeries:
    """One series: its number in the index, its labels, and its chunks of a range."""

    number: int
    labels: dict[str, str]
    chunks: tuple[int, ...]
    """References, in the order of the index."""


class Index:
    """An index that was opened; `close` it after use."""

    def __init__(self, path: Path) -> None:
        """Open an index.

        Raises:  BlockRefused
        """
        self._file = MappedFile(path, magic=MAGIC, version=VERSION)
        try:
            at = len(self._file) - CONTENTS_BYTES - CHECKSUM_BYTES
            contents = self._file.checked(at, CONTENTS_BYTES, what="the table of contents")
            sections = struct.unpack(">6Q", contents)
            self._symbols = self._symbol_places(sections[SYMBOLS])
            self._postings = self._postings_places(sections[POSTINGS_TABLE])
        except ValueError:
            self.close()
            raise
        self._texts: dict[int, str] = {}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def series(
        self, metric: str, *, start_ms: int, end_ms: int, wanted: Callable[[Labels], bool]
    ) -> Iterator[IndexedSeries]:
        """Yield the wanted series of a metric with chunks in [start_ms, end_ms), by labels.

        Raises:  BlockRefused
        """
        place = self._postings.get(metric.encode())
        if place is None:
            return
        begin, end = self._section(place, what="a list of series")
        before: list[tuple[str, str]] = []
        for at in range(begin + 4, end, 4):
            number = self._file.number(at, 4)
            found = self._one(number, start_ms, end_ms, wanted)
            if found is None:
                continue
            labels = sorted(found.labels.items())
            # What is merged with other blocks must be in order.
            if labels <= before:
                raise self._file.refused(f"has series {number} in no order of labels")
            before = labels
            yield found

    def _one(
        self, number: int, start_ms: int, end_ms: int, wanted: Callable[[Labels], bool]
    ) -> IndexedSeries | None:
        size, at = self._file.uvarint(number * SERIES_ALIGNMENT)
        values = uvarints(self._file.checked(at, size, what=f"series {number}"))
        try:
            first = 1 + 2 * values[0]
            names = [self._text(symbol) for symbol in values[1:first]]
            fields = values[first + 1 :]
            if len(names) != 2 * values[0] or len(fields) != 3 * values[first]:
                raise IndexError(first)
        except (IndexError, UnicodeDecodeError) as error:
            raise self._file.refused(f"has a malformed entry of series {number}") from error
        labels = dict(zip(names[::2], names[1::2], strict=True))
        if not wanted(labels):
            return None
        chunks = tuple(_chunks(fields, start_ms=start_ms, end_ms=end_ms))
        return IndexedSeries(number=number, labels=labels, chunks=chunks) if chunks else None

    def _text(self, symbol: int) -> str:
        text = self._texts.get(symbol)
        if text is None:
            if len(self._texts) >= TEXTS_KEPT:
                self._texts.clear()
            size, at = self._file.uvarint(self._symbols[symbol])
            text = self._texts[symbol] = self._file.part(at, size).decode()
        return text

    def _section(self, at: int, *, what: str) -> tuple[int, int]:
        """Verify the section that begins with its length; return its begin and end."""
        size, begin = self._file.number(at, 4), at + 4
        self._file.verify(begin, size, what=what)
        return begin, begin + size

    def _symbol_places(self, at: int) -> array[int]:
        """Return where each symbol is: a text that labels refer to by number."""
        at, end = self._section(at, what="the symbols")
        count, at = self._file.number(at, 4), at + 4
        places = array("Q")
        for _ in range(count):
            places.append(at)
            size, at = self._file.uvarint(at)
            at += size
        if at != end:
            raise self._file.refused(f"has symbols that do not end with their section at {end}")
        return places

    def _postings_places(self, at: int) -> dict[bytes, int]:
        """Return where the list of series of each metric is; entries are sorted by label."""
        at, end = self._section(at, what="the table of postings")
        count, at = self._file.number(at, 4), at + 4
        places = {}
        for _ in range(count):
            if self._file.number(at, 1) != ENTRY_STRINGS or at >= end:
                raise self._file.refused(f"has a malformed table of postings at byte {at}")
            name, at = self._string(at + 1)
            value, at = self._string(at)
            place, at = self._file.uvarint(at)
            if name == NAME:
                places[value] = place
            elif name > NAME:
                break
        return places

    def _string(self, at: int) -> tuple[bytes, int]:
        size, at = self._file.uvarint(at)
        return self._file.part(at, size), at + size


def _chunks(fields: list[int], *, start_ms: int, end_ms: int) -> Iterator[int]:
    """Yield the references of the chunks that meet a range.

    Nothing says that a series' chunks follow each other: those of late samples overlap. So all are
    looked at, and times are differences that wrap.
    """
    if not fields:
        return
    first, last, reference = signed(fields[0]), 0, 0
    for index in range(0, len(fields), 3):
        if index:
            first = wrapped(last + fields[index])
            reference += signed(fields[index + 2])
        else:
            reference = fields[2]
        last = wrapped(first + fields[index + 1])
        if first < end_ms and start_ms <= last:
            yield reference
