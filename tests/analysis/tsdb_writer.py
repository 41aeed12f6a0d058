"""A writer of Prometheus blocks for tests: the reader's counterpart, written from the same format.

Prometheus itself reads what it writes, which a test shows. It writes what promtool does not: chunks
that overlap within a block, tombstones, several blocks of one time.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import crc32c

from strandline_analysis.tsdb_block import FACTS, SEGMENT_MAGIC, TOMBSTONES_MAGIC
from strandline_analysis.tsdb_files import MASK
from strandline_analysis.tsdb_index import MAGIC, SERIES_ALIGNMENT
from strandline_analysis.xor_chunk import XOR
from tests.analysis.xor_encoder import Sample, encode

PADDING = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSeries:
    """What a block gets of one series."""

    labels: dict[str, str]
    chunks: list[list[Sample]]
    deleted: list[tuple[int, int]] = field(default_factory=list)
    encoding: int = XOR


def write_block(
    folder: Path, series: Sequence[WrittenSeries], *, segment_chunks: int = 1000
) -> Path:
    """Write a block below a folder, with so many chunks in a segment; return its own folder."""
    number = len(list(folder.iterdir())) if folder.exists() else 0
    block = folder / f"01M8B7303PV8EADWWGZ3AN{number:04d}"
    block.mkdir(parents=True)
    in_order = sorted(series, key=lambda each: sorted(each.labels.items()))
    places = _write_chunks(block / "chunks", in_order, segment_chunks)
    numbers = _write_index(block / "index", in_order, places)
    _write_tombstones(block / "tombstones", in_order, numbers)
    times = [at for each in series for chunk in each.chunks for at, _ in chunk]
    facts = {"version": 1, "ulid": block.name, "minTime": min(times), "maxTime": max(times) + 1}
    facts["stats"] = {"numSamples": len(times), "numSeries": len(series)}
    facts["compaction"] = {"level": 1, "sources": [block.name]}
    (block / FACTS).write_text(json.dumps(facts))
    return block


def checked(data: bytes) -> bytes:
    """Return data with its checksum."""
    return data + crc32c.crc32c(data).to_bytes(4, "big")


def section(data: bytes) -> bytes:
    """Return data behind its length, with its checksum."""
    return len(data).to_bytes(4, "big") + checked(data)


def uvarint(value: int) -> bytes:
    """Return an unsigned varint; a negative number is taken as 64 bits hold it."""
    value &= MASK
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def varint(value: int) -> bytes:
    """Return a signed varint."""
    return uvarint(value << 1 ^ value >> 63)


def _string(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw)) + raw


def _write_chunks(
    folder: Path, series: Sequence[WrittenSeries], segment_chunks: int
) -> list[list[int]]:
    """Write the segments; return for each series the references of its chunks."""
    folder.mkdir()
    segments: list[bytearray] = []
    places = []
    chunks = itertools.count()
    for each in series:
        found = []
        # The last one first: references may fall.
        for samples in reversed(each.chunks):
            if next(chunks) % segment_chunks == 0:
                segments.append(bytearray(_head(SEGMENT_MAGIC) + PADDING * 3))
            found.append((len(segments) - 1) << 32 | len(segments[-1]))
            data = encode(samples)
            segments[-1] += uvarint(len(data)) + checked(bytes([each.encoding]) + data)
        places.append(found[::-1])
    for index, segment in enumerate(segments):
        (folder / f"{index + 1:06d}").write_bytes(segment)
    return places


def _write_index(
    path: Path, series: Sequence[WrittenSeries], places: Sequence[list[int]]
) -> list[int]:
    """Write the index; return the number of each series."""
    texts = {text for each in series for pair in each.labels.items() for text in pair} | {""}
    symbols = {text: index for index, text in enumerate(sorted(texts, key=str.encode))}
    out = bytearray(_head(MAGIC, version=2))
    contents = [len(out)]
    out += section(len(symbols).to_bytes(4, "big") + b"".join(map(_string, symbols)))
    numbers = []
    postings: dict[tuple[str, str], list[int]] = {}
    contents.append(len(out))
    for each, references in zip(series, places, strict=True):
        out += PADDING * (-len(out) % SERIES_ALIGNMENT)
        number = len(out) // SERIES_ALIGNMENT
        numbers.append(number)
        for pair in [("", ""), *each.labels.items()]:
            postings.setdefault(pair, []).append(number)
        entry = _entry(each, references, symbols)
        out += uvarint(len(entry)) + checked(entry)
    out += PADDING * (-len(out) % 4)
    contents += [0, 0, len(out)]
    table = bytearray(len(postings).to_bytes(4, "big"))
    for (name, value), found in sorted(postings.items()):
        table += b"\2" + _string(name) + _string(value) + uvarint(len(out))
        listed = b"".join(number.to_bytes(4, "big") for number in found)
        out += section(len(found).to_bytes(4, "big") + listed)
    contents.append(len(out))
    out += section(bytes(table))
    path.write_bytes(out + checked(b"".join(place.to_bytes(8, "big") for place in contents)))
    return numbers


def _entry(series: WrittenSeries, references: list[int], symbols: dict[str, int]) -> bytes:
    out = bytearray(uvarint(len(series.labels)))
    for pair in sorted(series.labels.items()):
        out += b"".join(uvarint(symbols[text]) for text in pair)
    out += uvarint(len(references))
    last = before = 0
    for index, (samples, reference) in enumerate(zip(series.chunks, references, strict=True)):
        begin = samples[0][0]
        out += uvarint(begin - last) if index else varint(begin)
        last = samples[-1][0]
        out += uvarint(last - begin)
        out += varint(reference - before) if index else uvarint(reference)
        before = reference
    return bytes(out)


def _write_tombstones(path: Path, series: Sequence[WrittenSeries], numbers: Sequence[int]) -> None:
    data = bytearray()
    for each, number in zip(series, numbers, strict=True):
        for first, last in each.deleted:
            data += uvarint(number) + varint(first) + varint(last)
    path.write_bytes(_head(TOMBSTONES_MAGIC) + checked(bytes(data)))


def _head(magic: int, *, version: int = 1) -> bytes:
    return magic.to_bytes(4, "big") + bytes([version])
