"""A client of Prometheus's remote read, STREAMED_XOR_CHUNKS alone.

Called by `read`. Chosen over the JSON API because only remote read shows stale markers, and
because Prometheus copies compressed chunks instead of printing numbers. Ranges are half-open:
chunks arrive whole and are cut here. Needs neither Spark nor generated protobuf code: this file
itself encodes and decodes the five messages.

Source: Prometheus storage/remote/chunked.go, prompb/remote.proto, prompb/types.proto.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Final

import crc32c

from .xor_chunk import decode

PATH: Final = "/api/v1/read"
STREAMED: Final = "application/x-streamed-protobuf"
STREAMED_XOR_CHUNKS: Final = 1
XOR: Final = 1
EQUAL: Final = 0
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

FRAME_BYTES_MAX: Final = 64 << 20
"""Prometheus sends at most 1 MiB unless a single series is larger."""
TIMEOUT_SECONDS: Final = 60
ATTEMPTS_MAX: Final = 5
BACK_OFF_SECONDS: Final = 0.5
"""Pause before the second attempt; doubles before each further one."""
TOO_MANY_REQUESTS: Final = 429
SERVER_ERROR: Final = 500
LITERAL_BYTES_MAX: Final = 60
"""Longest snappy literal whose length fits into its tag."""


class ReadFailed(Exception):
    """Prometheus refused the request, or its response is not what this client reads."""


class _Retriable(Exception):
    """This attempt failed; the same request may succeed next time."""


@dataclass(slots=True)
class Series:
    """One series: its labels, and its chunks in the order of arrival."""

    labels: dict[str, str]
    chunks: list[bytes] = field(default_factory=list)

    def samples(self, *, start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
        """Yield (timestamp, bits) within [start_ms, end_ms), strictly ascending.

        Chunks of the head and of a block may overlap; the first sample of a timestamp counts.
        """
        last = start_ms - 1
        for chunk in self.chunks:
            for timestamp, bits in decode(chunk):
                if last < timestamp < end_ms:
                    last = timestamp
                    yield timestamp, bits


def read_series(
    url: str, matchers: Mapping[str, str], *, start_ms: int, end_ms: int
) -> list[Series]:
    """Return all series with these label values that have chunks in [start_ms, end_ms).

    After a broken response the whole request is repeated, so that no sample counts twice.

    Raises:  ReadFailed when Prometheus refuses or every attempt failed
    """
    body = compressed(request(matchers, start_ms=start_ms, end_ms=end_ms))
    attempt = 1
    while True:
        try:
            return _attempt(url.rstrip("/") + PATH, body)
        except (_Retriable, OSError, http.client.HTTPException) as error:
            if attempt == ATTEMPTS_MAX:
                raise ReadFailed(f"{url}: {error} ({attempt} attempts)") from error
        time.sleep(BACK_OFF_SECONDS * 2 ** (attempt - 1))
        attempt += 1


def _attempt(url: str, body: bytes) -> list[Series]:
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Read-Version": "0.1.0",
    }
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            kind = response.headers.get("Content-Type", "")
            if not kind.startswith(STREAMED):
                raise ReadFailed(f"{url}: answered {kind}, not {STREAMED}")
            return merged(frames(response))
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(500).decode(errors="replace").strip()
        message = f"{url}: {error.code} {said}"
        if error.code == TOO_MANY_REQUESTS or error.code >= SERVER_ERROR:
            raise _Retriable(message) from error
        raise ReadFailed(message) from error


def merged(messages: Iterable[bytes]) -> list[Series]:
    """Return the series of all frames; join those that were split over frames."""
    found: dict[tuple[tuple[str, str], ...], Series] = {}
    for message in messages:
        for number, value in fields(message):
            if number == 1:
                series = _series(_expect_bytes(value))
                key = tuple(sorted(series.labels.items()))
                found.setdefault(key, Series(series.labels)).chunks.extend(series.chunks)
    return [found[key] for key in sorted(found)]


def frames(response: BufferedIOBase) -> Iterator[bytes]:
    """Yield the message of every frame: length, CRC-32C of the message, message.

    Raises:  _Retriable when the stream ends within a frame or a checksum differs
    """
    while (size := _frame_size(response)) is not None:
        if size > FRAME_BYTES_MAX:
            raise ReadFailed(f"a frame of {size} bytes, at most {FRAME_BYTES_MAX}")
        stated = int.from_bytes(_exactly(response, 4), "big")
        message = _exactly(response, size)
        if crc32c.crc32c(message) != stated:
            raise _Retriable("a frame's checksum differs")
        yield message


def request(matchers: Mapping[str, str], *, start_ms: int, end_ms: int) -> bytes:
    """Return a ReadRequest; its end is one ms less, because Prometheus includes the end."""
    query = _varint_field(1, start_ms) + _varint_field(2, end_ms - 1)
    for name, value in matchers.items():
        matcher = _varint_field(1, EQUAL) + _bytes_field(2, name.encode())
        query += _bytes_field(3, matcher + _bytes_field(3, value.encode()))
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
                raise ReadFailed(f"{series.labels}: chunk encoding {encoding!r}, only XOR is read")
            series.chunks.append(_expect_bytes(chunk.get(4, b"")))
    return series


def _expect_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ReadFailed("a number where bytes belong")
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
            raise _Retriable(f"the response ends after {len(data)} of {size} bytes of a frame")
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
