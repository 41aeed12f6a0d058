"""One Prometheus block: the chunks of its series, and which of their samples were deleted.

Called by `tsdb_snapshot`. A block is a folder named by a ULID:

    meta.json      the range of its samples
    index          its series, see tsdb_index
    chunks/000001  segments with the samples; a reference is a segment's place and a byte in it
    tombstones     what was deleted since the block was written; may be missing

Source: Prometheus tsdb/docs/format, tsdb/block.go, tsdb/chunks/chunks.go, tsdb/tombstones.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .tsdb_files import CHECKSUM_BYTES, BlockRefused, MappedFile, signed, uvarints, wrapped
from .tsdb_index import Index, IndexedSeries, Labels
from .xor_chunk import ENCODINGS, XOR

FACTS: Final = "meta.json"
FACTS_VERSION: Final = 1
ULID: Final = re.compile("[0-9A-HJKMNP-TV-Z]{26}")
CHUNKS: Final = "chunks"
SEGMENT_MAGIC: Final = 0x85BD40DD
SEGMENT: Final = re.compile("[0-9]+")
TOMBSTONES_MAGIC: Final = 0x0130BA30
TOMBSTONES_HEADER_BYTES: Final = 5
VERSION: Final = 1
SEGMENT_SHIFT: Final = 32
"""The upper bits of a chunk's reference are its segment, the lower ones its byte there."""
SEGMENT_BYTES_MASK: Final = (1 << SEGMENT_SHIFT) - 1

Span = tuple[int, int]
"""The first and the last ms of a time in which all samples were deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A folder, and the range that its meta.json tells."""

    folder: Path
    start_ms: int
    end_ms: int
    """Exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSeries:
    """A series of one block."""

    labels: dict[str, str]
    chunks: tuple[bytes, ...]
    """XOR chunks with samples of the range that was asked for, and others."""
    deleted: tuple[Span, ...]


def block_of(folder: Path) -> Block:
    """Return the block in a folder.

    Raises:  BlockRefused if its meta.json is missing or no such file
    """
    path = folder / FACTS
    try:
        facts = json.loads(path.read_bytes())
        version, start_ms, end_ms = facts["version"], facts["minTime"], facts["maxTime"]
    except FileNotFoundError:
        said = f"has no {FACTS}: it is no block, or was not written to its end"
        raise BlockRefused(f"{folder} {said}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BlockRefused(f"{path} cannot be read ({error!r})") from error
    if version != FACTS_VERSION:
        raise BlockRefused(f"{path} has version {version!r}; only {FACTS_VERSION} is read")
    if type(start_ms) is not int or type(end_ms) is not int:
        raise BlockRefused(f"{path} has no times of a block: {start_ms!r} and {end_ms!r}")
    return Block(folder=folder, start_ms=start_ms, end_ms=end_ms)


class OpenBlock:
    """The files of a block; `close` them after use."""

    def __init__(self, block: Block) -> None:
        """Open a block and verify what is needed for any of its series.

        Raises:  BlockRefused
        """
        self._folder = block.folder
        self._index = Index(block.folder / "index")
        self._segments: list[MappedFile] = []
        try:
            for path in _segment_paths(block.folder / CHUNKS):
                self._segments.append(MappedFile(path, magic=SEGMENT_MAGIC, version=VERSION))
            self._deleted = _tombstones(block.folder / "tombstones")
        except BlockRefused:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the files."""
        self._index.close()
        for segment in self._segments:
            segment.close()

    def series(
        self, metric: str, *, start_ms: int, end_ms: int, wanted: Callable[[Labels], bool]
    ) -> Iterator[BlockSeries]:
        """Yield the wanted series of a metric with chunks in [start_ms, end_ms), by labels.

        Raises:  BlockRefused
        """
        ranged = {"start_ms": start_ms, "end_ms": end_ms}
        for each in self._index.series(metric, wanted=wanted, **ranged):
            yield BlockSeries(
                labels=each.labels,
                chunks=tuple(self._chunk(reference, each) for reference in each.chunks),
                deleted=self._deleted.get(each.number, ()),
            )

    def _chunk(self, reference: int, series: IndexedSeries) -> bytes:
        place, at = reference >> SEGMENT_SHIFT, reference & SEGMENT_BYTES_MASK
        if place >= len(self._segments):
            said = f"a chunk of {series.labels} is in segment {place + 1}, which is missing"
            raise BlockRefused(f"{self._folder / CHUNKS}: {said}")
        segment = self._segments[place]
        size, at = segment.uvarint(at)
        # The checksum is that of the encoding as well.
        found = segment.checked(at, 1 + size, what="a chunk")
        if found[0] != XOR:
            name = ENCODINGS.get(found[0], "without a name here")
            said = f"chunk encoding {found[0]} ({name}); only {XOR} (XOR) is read"
            raise segment.refused(f"holds {series.labels} in {said}")
        return found[1:]


def _segment_paths(folder: Path) -> list[Path]:
    """Return the segments in the order of their numbers; a block without samples may have none."""
    try:
        found = [path for path in folder.iterdir() if SEGMENT.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda path: int(path.name))


def _tombstones(path: Path) -> Mapping[int, tuple[Span, ...]]:
    """Return by a series' number the times in which its samples were deleted."""
    if not path.exists():
        return {}
    file = MappedFile(path, magic=TOMBSTONES_MAGIC, version=VERSION)
    try:
        size = len(file) - TOMBSTONES_HEADER_BYTES - CHECKSUM_BYTES
        values = uvarints(file.checked(TOMBSTONES_HEADER_BYTES, size, what="the tombstones"))
    finally:
        file.close()
    if len(values) % 3:
        raise file.refused("ends within a tombstone")
    found = defaultdict[int, list[Span]](list)
    for number, first, last in zip(*[iter(values)] * 3, strict=True):
        found[number].append((wrapped(signed(first)), wrapped(signed(last))))
    return {number: tuple(spans) for number, spans in found.items()}
