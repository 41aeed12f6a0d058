"""The decoder of many XOR chunks at once: sample i of every chunk in one step of numpy.

Called by `columns`. Samples of one chunk depend on each other, chunks do not, so all chunks of a
batch go on in lockstep, each with its own cursor in bits. `xor_chunk` decodes one chunk alone; both
return the same bits, and a chunk that is malformed is given to it for its sentence.

Source: Prometheus tsdb/chunkenc/xor.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .xor_chunk import (
    DELTA_WIDTHS,
    HEADER_BYTES,
    VARINT_BYTES_MAX,
    WORD,
    ChunkMalformed,
    decode,
)

BATCH_CHUNKS_MAX: Final = 4096
"""Chunks in lockstep; their cursors, values and bytes fit into a core's cache."""
SAMPLES_MAX: Final = (1 << 16) - 1
"""Samples that the header of one chunk can count."""
SAMPLE_BITS_MIN: Final = 2
PADDING_BYTES: Final = (SAMPLE_BITS_MIN * SAMPLES_MAX + 1024) // 8
"""Zeros behind a batch. A cursor that left its chunk ends in them, because two zero bits are one
sample, and is noticed at the end: one comparison for each chunk instead of one for each sample."""
NO_WINDOW: Final = WORD + 1
"""Leading zeros before the first window; no width makes them fit into a word."""

_ONES: Final = [min(4 - (15 - top).bit_length(), 4) for top in range(16)]
"""1 bits at the begin of four bits."""
_WIDTH: Final = [DELTA_WIDTHS[ones] for ones in _ONES]


def _table(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


# By the four bits at the cursor: how the delta of deltas behind them is cut out of a word.
PREFIX: Final = _table([min(ones + 1, 4) for ones in _ONES])
REST: Final = _table([63 - width if width < WORD else 63 for width in _WIDTH])
USED: Final = _table([min(ones + 1, 4) + width for ones, width in zip(_ONES, _WIDTH, strict=True)])
HALF: Final = _table([1 << (width - 1) if 0 < width < WORD else 0 for width in _WIDTH])
FULL: Final = np.array([1 << width if 0 < width < WORD else 0 for width in _WIDTH], np.int64)
WIDEST: Final = 15
"""The four bits before a delta of deltas of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSamples:
    """The samples of chunks, one chunk behind the other, as columns of equal length."""

    timestamps: np.ndarray
    """int64, ms since 1970."""
    bits: np.ndarray
    """uint64, the bits of IEEE doubles."""
    counts: np.ndarray
    """int64, the number of samples of each chunk."""


def decode_chunks(chunks: Sequence[bytes]) -> ChunkSamples:
    """Return the samples of all chunks, in the order of the chunks.

    Raises:  ChunkMalformed as xor_chunk.decode does, for the first malformed chunk
    """
    for chunk in chunks:
        if len(chunk) < HEADER_BYTES:
            _refuse(chunk)
    heads = np.frombuffer(b"".join([chunk[:HEADER_BYTES] for chunk in chunks]), ">u2")
    counts = heads.astype(np.int64)
    # Such a chunk would keep all others in lockstep for as many steps as it counts.
    overcounted = counts > np.fromiter(map(len, chunks), np.int64) * (8 // SAMPLE_BITS_MIN)
    counts[overcounted] = 0
    starts = np.cumsum(counts) - counts
    total = int(counts.sum())
    timestamps, bits = np.empty(total, np.int64), np.empty(total, np.uint64)
    for first in range(0, len(chunks), BATCH_CHUNKS_MAX):
        batch = slice(first, first + BATCH_CHUNKS_MAX)
        # Longest first, so that the chunks that still have a sample are the first ones.
        order = np.argsort(-counts[batch], kind="stable") + first
        lockstep = _Lockstep([chunks[index] for index in order.tolist()], counts[order])
        lockstep.run(timestamps, bits, starts[order])
        for index in np.sort(order[lockstep.malformed | overcounted[order]]).tolist():
            _refuse(chunks[index])
    return ChunkSamples(timestamps=timestamps, bits=bits, counts=counts)


def _refuse(chunk: bytes) -> None:
    for _ in decode(chunk):
        pass
    raise ChunkMalformed(f"the decoders disagree about a chunk of {len(chunk)} bytes")


class _Lockstep:
    """The cursors of a batch of chunks, ordered by falling count.

    Between steps, each cursor is at the first bit of its chunk's next sample.
    """

    def __init__(self, chunks: Sequence[bytes], counts: np.ndarray) -> None:
        data = b"".join([*chunks, bytes(PADDING_BYTES)])
        ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.uint64)
        begins = np.concatenate([np.zeros(1, np.uint64), ends[:-1]])
        self._bytes = np.frombuffer(data, np.uint8)
        self._words = np.ndarray(len(data) - 7, ">u8", data, strides=(1,))
        """The word that begins at each byte."""
        self._counts = counts
        self._ends = ends * 8
        self._cursor = (begins + HEADER_BYTES) * 8
        self._delta = np.zeros(len(chunks), np.int64)
        self._leading = np.full(len(chunks), NO_WINDOW, np.uint64)
        self._width = np.zeros(len(chunks), np.uint64)
        self.malformed = np.zeros(len(chunks), bool)
        """Chunks whose samples are not to be used, valid after `run`."""

    def run(self, timestamps: np.ndarray, bits: np.ndarray, starts: np.ndarray) -> None:
        """Put the samples of each chunk into both columns, from its start on."""
        longest = int(self._counts[0]) if len(self._counts) else 0
        living = np.searchsorted(-self._counts, -np.arange(longest), side="left").tolist()
        for index, active in enumerate(living):
            if index == 0:
                timestamp, value = self._first(active)
            else:
                timestamp, value = timestamp[:active], value[:active]
                if index == 1:
                    self._delta[:active] = self._varint(active).view(np.int64)
                    control = self._fetch(self._cursor[:active])
                else:
                    control = self._pace(active)
                timestamp += self._delta[:active]
                self._change(value, control)
            at = starts[:active] + index
            timestamps[at], bits[at] = timestamp, value
        self.malformed |= (self._cursor > self._ends) & (self._counts > 0)

    def _first(self, active: int) -> tuple[np.ndarray, np.ndarray]:
        zigzag = self._varint(active)
        sign = np.where(zigzag & 1, np.uint64((1 << WORD) - 1), np.uint64(0))
        value = self._word(self._cursor[:active])
        self._cursor[:active] += WORD
        return ((zigzag >> 1) ^ sign).view(np.int64), value

    def _varint(self, active: int) -> np.ndarray:
        """Take an unsigned varint of each chunk; both stand at the begin of a byte."""
        at = (self._cursor[:active] >> 3).view(np.int64)
        value = np.zeros(active, np.uint64)
        going = np.ones(active, bool)
        for index in range(VARINT_BYTES_MAX):
            byte = self._bytes[at + index].astype(np.uint64)
            value |= np.where(going, (byte & 0x7F) << (7 * index), 0)
            self._cursor[:active] += np.where(going, np.uint64(8), np.uint64(0))
            going &= byte >= 0x80
            if not going.any():
                return value
        self.malformed[:active] |= going
        return value

    def _pace(self, active: int) -> np.ndarray:
        """Take the delta of deltas; return words that begin with the bits behind it."""
        cursor = self._cursor[:active]
        word = self._fetch(cursor)
        top = (word >> 60).view(np.int64)
        # A shift by a whole word is not defined, so it is made of two.
        raw = (word << PREFIX[top]) >> 1 >> REST[top]
        change = raw.view(np.int64) - FULL[top] * (raw > HALF[top])
        used = USED[top]
        control = word << np.minimum(used, np.uint64(WORD - 1))
        (widest,) = np.nonzero(top == WIDEST)
        if widest.size:
            change[widest] = self._word(cursor[widest] + 4).view(np.int64)
            control[widest] = self._fetch(cursor[widest] + (WORD + 4))
        cursor += used
        self._delta[:active] += change
        return control

    def _change(self, value: np.ndarray, control: np.ndarray) -> None:
        """Take what has changed in each value; control begins with the bits at the cursor."""
        self._cursor[: len(value)] += 1
        (changed,) = np.nonzero(control >> (WORD - 1))
        if not changed.size:
            return
        control = control[changed]
        new = (control >> (WORD - 2)) == 3
        leading = np.where(new, (control >> 57) & 31, self._leading[changed])
        width = np.where(new, (((control >> 51) & 63) - 1 & 63) + 1, self._width[changed])
        self._leading[changed], self._width[changed] = leading, width
        unfit = leading + width > WORD
        if unfit.any():
            self.malformed[changed[unfit]] = True
            leading[unfit], width[unfit] = 0, WORD
        at = self._cursor[changed] + np.where(new, np.uint64(12), np.uint64(1))
        different = self._word(at) >> (WORD - width)
        value[changed] ^= different << (WORD - leading - width)
        self._cursor[changed] = at + width

    def _fetch(self, at: np.ndarray) -> np.ndarray:
        """Return words whose first 57 bits are those at these bits' places."""
        return self._words[(at >> 3).view(np.int64)].astype(np.uint64) << (at & 7)

    def _word(self, at: np.ndarray) -> np.ndarray:
        """Return the whole words at these bits' places."""
        byte, shift = (at >> 3).view(np.int64), at & 7
        word = self._words[byte].astype(np.uint64) << shift
        return word | (self._bytes[byte + 8] >> (8 - shift))
