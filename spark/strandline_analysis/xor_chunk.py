"""The scalar decoder of Prometheus's XOR chunks.

Called by `remote_read`, `tsdb_block` and `xor_chunks`; needs only Python. Values stay bit patterns,
because a stale marker is one NaN among many.

Source: Prometheus tsdb/chunkenc/xor.go (after Facebook's Gorilla paper), tsdb/chunkenc/chunk.go,
model/value.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

STALE_BITS: Final = 0x7FF0_0000_0000_0002
"""The NaN that Prometheus writes when a series has ended; it carries no value."""

XOR: Final = 1
"""Number of this encoding, which a chunk of a block or a response carries."""
ENCODINGS: Final = {0: "none", 2: "histogram", 3: "float histogram", 4: "XOR2"}
"""Names of the other encodings, by number. A newer Prometheus may have more."""

HEADER_BYTES: Final = 2
DELTA_WIDTHS: Final = (0, 14, 17, 20, 64)
"""Bits of a timestamp's delta of deltas, by the number of 1 bits before it."""
VARINT_BYTES_MAX: Final = 10
WORD: Final = 64
WORD_MASK: Final = (1 << WORD) - 1


class ChunkMalformed(ValueError):
    """A chunk ends before its last sample, or holds what its format does not allow."""


def decode(chunk: bytes) -> Iterator[tuple[int, int]]:
    """Yield (timestamp, bits of the value) of every sample.

    Units:   timestamps are ms since 1970; bits are those of an IEEE double
    Raises:  ChunkMalformed if the chunk ends before its last sample
    """
    if len(chunk) < HEADER_BYTES:
        raise ChunkMalformed(f"{len(chunk)} bytes hold no header")
    count = int.from_bytes(chunk[:HEADER_BYTES], "big")
    if count == 0:
        return
    bits = _Bits(chunk[HEADER_BYTES:])
    timestamp = bits.varint()
    value = bits.take(WORD)
    yield timestamp, value
    delta = 0
    leading, width = 0, 0
    for index in range(1, count):
        delta = bits.uvarint() if index == 1 else _wrapped(delta + _delta_of_delta(bits))
        timestamp = _wrapped(timestamp + delta)
        if bits.take(1):
            if bits.take(1):
                leading, width = bits.take(5), bits.take(6) or WORD
            if width == 0 or leading + width > WORD:
                raise ChunkMalformed(f"a window of {leading} + {width} bits")
            value ^= bits.take(width) << (WORD - leading - width)
        yield timestamp, value


def number(bits: int) -> float:
    """Return the double that has these bits."""
    value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return value


def _delta_of_delta(bits: _Bits) -> int:
    ones = 0
    while ones < len(DELTA_WIDTHS) - 1 and bits.take(1):
        ones += 1
    width = DELTA_WIDTHS[ones]
    if width == 0:
        return 0
    raw = bits.take(width)
    # Prometheus's ranges lack the smallest negative number of the width.
    limit = 1 << (width - 1)
    return raw - (1 << width) if raw > limit or (width == WORD and raw == limit) else raw


def _wrapped(value: int) -> int:
    """Return a sum wrapped as Go's int64 wraps."""
    value &= WORD_MASK
    return value - (1 << WORD) if value >> (WORD - 1) else value


class _Bits:
    """Reads a byte string bit by bit, most significant first."""

    def __init__(self, data: bytes) -> None:
        self._all = int.from_bytes(data, "big")
        self._left = len(data) * 8

    def take(self, count: int) -> int:
        """Return the next bits as an unsigned number."""
        if count > self._left:
            raise ChunkMalformed(f"{count} bits wanted, {self._left} left")
        self._left -= count
        return (self._all >> self._left) & ((1 << count) - 1)

    def uvarint(self) -> int:
        """Return the next unsigned varint, seven bits a byte, least significant first."""
        value = 0
        for index in range(VARINT_BYTES_MAX):
            byte = self.take(8)
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value & WORD_MASK
        raise ChunkMalformed("a varint without end")

    def varint(self) -> int:
        """Return the next signed varint: the sign is the lowest bit."""
        value = self.uvarint()
        return -(value >> 1) - 1 if value & 1 else value >> 1
