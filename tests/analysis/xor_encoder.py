"""An encoder of XOR chunks for tests: the decoder's counterpart, written from the same format."""

from __future__ import annotations

from collections.abc import Sequence

from strandline_analysis.xor_chunk import WORD_MASK

Sample = tuple[int, int]


def encode(samples: Sequence[Sample]) -> bytes:
    """Return the chunk of these (timestamp, bits) samples."""
    out = _Out()
    delta = 0
    window: tuple[int, int] | None = None
    for index, (timestamp, bits) in enumerate(samples):
        if index == 0:
            out.varint(timestamp)
            out.put(bits, 64)
            continue
        before, bits_before = samples[index - 1]
        if index == 1:
            delta = timestamp - before
            out.uvarint(delta)
        else:
            _put_delta_of_delta(out, (timestamp - before) - delta)
            delta = timestamp - before
        window = _put_value(out, bits ^ bits_before, window)
    return len(samples).to_bytes(2, "big") + out.bytes()


def _put_delta_of_delta(out: _Out, value: int) -> None:
    if value == 0:
        out.put(0, 1)
        return
    for prefix, length, width in ((0b10, 2, 14), (0b110, 3, 17), (0b1110, 4, 20)):
        if -((1 << (width - 1)) - 1) <= value <= 1 << (width - 1):
            out.put(prefix, length)
            out.put(value & ((1 << width) - 1), width)
            return
    out.put(0b1111, 4)
    out.put(value & WORD_MASK, 64)


def _put_value(out: _Out, changed: int, window: tuple[int, int] | None) -> tuple[int, int] | None:
    if changed == 0:
        out.put(0, 1)
        return window
    leading = min(64 - changed.bit_length(), 31)
    trailing = (changed & -changed).bit_length() - 1
    if window is not None and leading >= window[0] and trailing >= window[1]:
        out.put(0b10, 2)
        out.put(changed >> window[1], 64 - window[0] - window[1])
        return window
    width = 64 - leading - trailing
    out.put(0b11, 2)
    out.put(leading, 5)
    out.put(width & 63, 6)
    out.put(changed >> trailing, width)
    return leading, trailing


class _Out:
    """Collects bits, most significant first."""

    def __init__(self) -> None:
        self._value = 1
        """A leading 1 keeps the zeros after it."""

    def put(self, value: int, width: int) -> None:
        self._value = self._value << width | value

    def uvarint(self, value: int) -> None:
        value &= WORD_MASK
        while value >= 0x80:
            self.put(value & 0x7F | 0x80, 8)
            value >>= 7
        self.put(value, 8)

    def varint(self, value: int) -> None:
        self.uvarint(value << 1 if value >= 0 else (-value << 1) - 1)

    def bytes(self) -> bytes:
        count = self._value.bit_length() - 1
        padding = -count % 8
        value = (self._value ^ (1 << count)) << padding
        return value.to_bytes((count + padding) // 8, "big")
