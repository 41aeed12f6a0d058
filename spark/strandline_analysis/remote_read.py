"""A client of Prometheus's remote read, STREAMED_XOR_CHUNKS alone.

Called by `read`. Chosen over the JSON API because only remote read shows stale markers, and
because Prometheus copies compressed chunks instead of printing numbers. Ranges are half-open:
chunks arrive whole and are cut here. Needs neither Spark nor generated protobuf code: this file
itself encodes and decodes the five messages.

Source: Prometheus storage/remote/chunked.go, prompb/remote.proto, prompb/types.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPResponse
from io import BufferedIOBase
from typing import Final

import crc32c

from .prometheus_http import ReadFailed, Retriable, Server, ask
from .read_options import Matcher, Piece, Transport
from .xor_chunk import ENCODINGS, XOR, decode

PATH: Final = "/api/v1/read"
STREAMED: Final = "application/x-streamed-protobuf"
STREAMED_XOR_CHUNKS: Final = 1
EQUAL, MATCHES = 0, 2
"""Kinds of a label matcher."""
NAME_LABEL: Final = "__name__"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

FRAME_BYTES_MAX: Final = 64 << 20
"""Prometheus sends at most 1 MiB unless a single series is larger."""
RESPONSE_BYTES_MAX: Final = 1 << 30
"""Compressed samples of one response, which are held until its end: some 300 million samples."""
LITERAL_BYTES_MAX: Final = 60
"""Longest snappy literal whose length fits into its tag."""


@dataclass(slots=True)
class Series:
    """One series: its labels, and its chunks in the order of arrival."""

    labels: dict[str, str]
    chunks: list[bytes] = field(default_factory=list)
    deleted: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By a chunk's index: the first and last ms of the times whose samples were deleted. Prometheus
    sends none of those; the chunks of a block have them still."""

    def samples(self, *, start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
        """Yield (timestamp, bits) within [start_ms, end_ms), strictly ascending.

        Chunks of the head and of a block may overlap; the first sample of a timestamp counts.
        The reference for `columns`, which does the same for many series at once.
        """
        found: dict[int, int] = {}
        for index, chunk in enumerate(self.chunks):
            spans = self.deleted.get(index, ())
            for timestamp, bits in decode(chunk):
                gone = any(first <= timestamp <= last for first, last in spans)
                if start_ms <= timestamp < end_ms and not gone:
                    found.setdefault(timestamp, bits)
        yield from sorted(found.items())


def read_series(server: Server, piece: Piece) -> list[Series]:
    """Return all series of a piece that have chunks in its range.

    After a broken response the whole request is repeated, so that no sample counts twice.

    Raises:  ReadFailed when Prometheus refuses or every attempt failed
    """
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Read-Version": "0.1.0",
    }

    def take(response: HTTPResponse) -> list[Series]:
        kind = response.headers.get("Content-Type", "")
        if not kind.startswith(STREAMED):
            advice = f"option transport={Transport.JSON} reads it, without stale markers"
            raise ReadFailed(f"{server.url}: answered {kind}, not {STREAMED}; {advice}")
        return merged(frames(response))

    return ask(server, PATH, body=compressed(request(piece)), headers=headers, take=take)


def merged(messages: Iterable[bytes]) -> list[Series]:
    """Return the series of all frames; join those that were split over frames."""
    found: dict[tuple[tuple[str, str], ...], Series] = {}
    held_bytes = 0
    for message in messages:
        held_bytes += len(message)
        if held_bytes > RESPONSE_BYTES_MAX:
            said = f"a response of more than {RESPONSE_BYTES_MAX} bytes"
            raise ReadFailed(f"{said}: a smaller slice_ms or more shards make it smaller")
        for number, value in fields(message):
            if number == 1:
                series = _series(_expect_bytes(value))
                key = tuple(sorted(series.labels.items()))
                found.setdefault(key, Series(series.labels)).chunks.extend(series.chunks)
    return [found[key] for key in sorted(found)]


def frames(response: BufferedIOBase) -> Iterator[bytes]:
    """Yield the message of every frame: length, CRC-32C of the message, message.

    Raises:  Retriable when the stream ends within a frame or a checksum differs
    """
    while (size := _frame_size(response)) is not None:
        if size > FRAME_BYTES_MAX:
            raise ReadFailed(f"a frame of {size} bytes, at most {FRAME_BYTES_MAX}")
        stated = int.from_bytes(_exactly(response, 4), "big")
        message = _exactly(response, size)
        if crc32c.crc32c(message) != stated:
            raise Retriable("a frame's checksum differs")
        yield message


def request(piece: Piece) -> bytes:
    """Return a ReadRequest; its end is one ms less, because Prometheus includes the end."""
    query = _varint_field(1, piece.start_ms) + _varint_field(2, piece.end_ms - 1)
    for each in (Matcher(label=NAME_LABEL, value=piece.metric), *piece.matchers):
        kind = MATCHES if each.is_pattern else EQUAL
        matcher = _varint_field(1, kind) + _bytes_field(2, each.label.encode())
        query += _bytes_field(3, matcher + _bytes_field(3, each.value.encode()))
    return _bytes_field(1, query) + _varint_field(2, STREAMED_XOR_CHUNKS)


def compressed(data: bytes) -> bytes:
    """Return data in snappy's block format, as literals alone: requests are short."""
    pieces = [_uvarint(len(data))]
    for start in range(0, len(data), LITERAL_BYTES_MAX):
        piece = data[start : start + LITERAL_BYTES_MAX]
        pieces += [bytes([(len(piece) - 1) << 2]), piece]
    return b"".join(pieces)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a protobuf message.

    Raises:  ReadFailed on a truncated message or a group
    """
    position = 0
    while position < len(message):
        tag, position = _read_uvarint(message, position)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, position = _read_uvarint(message, position)
            yield number, value
            continue
        if wire == BYTES:
            size, position = _read_uvarint(message, position)
        elif wire in {FIXED64, FIXED32}:
            size = 8 if wire == FIXED64 else 4
        else:
            raise ReadFailed(f"wire type {wire}")
        if position + size > len(message):
            raise ReadFailed("a message ends within a field")
        yield number, message[position : position + size]
        position += size


def _series(message: bytes) -> Series:
    series = Series({})
    for number, value in fields(message):
        content = _expect_bytes(value)
        if number == 1:
            label = dict(fields(content))
            name = _expect_bytes(label.get(1, b"")).decode()
            series.labels[name] = _expect_bytes(label.get(2, b"")).decode()
        elif number == 2:
            chunk = dict(fields(content))
            encoding = chunk.get(3, 0)
            if encoding != XOR:
                name = ENCODINGS.get(_expect_number(encoding), "without a name here")
                said = f"chunk encoding {encoding!r} ({name}); only 1 (XOR) is read"
                raise ReadFailed(f"{series.labels}: {said}")
            series.chunks.append(_expect_bytes(chunk.get(4, b"")))
    return series


def _expect_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ReadFailed("a number where bytes belong")
    return value


def _expect_number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ReadFailed("bytes where a number belongs")
    return value


def _frame_size(response: BufferedIOBase) -> int | None:
    raw = response.read(1)
    if not raw:
        return None
    while raw[-1] & 0x80:
        if len(raw) == 10:
            raise ReadFailed("a frame's length has no end")
        raw += _exactly(response, 1)
    return _read_uvarint(raw, 0)[0]


def _exactly(response: BufferedIOBase, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = response.read(size - len(data))
        if not piece:
            raise Retriable(f"the response ends after {len(data)} of {size} bytes of a frame")
        data += piece
    return bytes(data)


def _read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ReadFailed("a varint without end")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_field(number: int, value: int) -> bytes:
    return _uvarint(number << 3 | VARINT) + _uvarint(value & ((1 << 64) - 1))


def _bytes_field(number: int, value: bytes) -> bytes:
    return _uvarint(number << 3 | BYTES) + _uvarint(len(value)) + value
