"""The sparse index of one segment: from an offset to a position near it, and from a time to blocks.

Called by `segment`, `segment_part` and `time_search`. An entry is 8 bytes big endian, as in Kafka:
offset relative to the segment's base, and file position. The first batch after each interval of log
has an entry. A block is the batches from one entry to the sixteenth after it; behind the entries
the file has the greatest timestamp of each whole block, 8 bytes big endian (ADR 0042). What was not
noted from a block's first batch on counts as reaching any time. Entries depend on the batches
alone, not on the appends that wrote them: a lost index file is rebuilt from the segment.
Followers and most consumers read the newest batches, so each of these has an entry in memory.

One thread changes an index while others look entries up: a lookup takes all arrays as one value,
an entry's position and its block are there before its offset, and a truncation makes new arrays.

Invariant: offsets and positions strictly ascend; every entry points at the first byte of the batch
with that base offset; no batch of a block is younger than the block's timestamp; between the newest
batches that are remembered there is no other.

Source: Kafka OffsetIndex, TimeIndex.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import lt

ENTRY_BYTES = 8
RELATIVE_MAX = (1 << 31) - 1
"""Greatest relative offset and greatest file position an entry can hold."""
BLOCK_ENTRIES = 16
"""Entries of a block: with an interval of 4 KiB, a search by time walks 64 KiB."""
RECENT_BATCHES = 64
"""Of the newest batches, at least half as many are remembered: a follower behind them walks."""
NO_TIME = -(1 << 63)
ANY_TIME = (1 << 63) - 1


class OffsetIndex:
    """The entries of one segment, in two arrays of 4 bytes each, and an array of its blocks."""

    __slots__ = ("_block_time", "_entries", "_interval_bytes", "_recent", "_size_max_bytes")

    def __init__(self, *, interval_bytes: int, size_max_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._size_max_bytes = size_max_bytes
        self._entries = (array("I"), array("I"), array("q"))
        """Relative offsets, a position for each of them or for one more, and the greatest timestamp
        of each whole block."""
        self._block_time = NO_TIME
        """The greatest timestamp of the batches behind the last whole block."""
        self._recent = (array("I"), array("I"))
        """Relative offsets of the newest batches, and a position for each of them or one more."""

    @property
    def full(self) -> bool:
        """Tell whether no further entry fits; the segment must roll then."""
        count = len(self._entries[0]) + 1
        return (count + count // BLOCK_ENTRIES) * ENTRY_BYTES > self._size_max_bytes

    def note(self, relative_offset: int, position: int, timestamp_ms: int) -> None:
        """Take a written batch; it gets an entry if an interval has passed since the last one.

        Shape:   called for each batch in order; timestamp_ms is the batch's greatest
        """
        offsets, positions, times = self._entries
        last = positions[-1] if positions else 0
        if position - last > self._interval_bytes and not self.full:
            positions.append(position)
            if len(positions) % BLOCK_ENTRIES == 0:
                times.append(self._block_time)
                self._block_time = NO_TIME
            offsets.append(relative_offset)
        self._block_time = max(self._block_time, timestamp_ms)
        recent, places = self._recent
        if len(recent) == RECENT_BATCHES:
            half = RECENT_BATCHES // 2
            recent, places = self._recent = (recent[half:], places[half:])
        places.append(position)
        recent.append(relative_offset)

    def reaching_time(
        self, timestamp_ms: int, *, from_position: int, size_bytes: int
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges of positions, ascending: a batch that reaches a time lies in one of them.

        Shape:   each range begins and ends where a batch does, or at from_position or size_bytes
        """
        _, positions, times = self._entries
        whole = len(times)
        begin = from_position
        for block in range(bisect_right(positions, from_position) // BLOCK_ENTRIES, whole):
            end = positions[(block + 1) * BLOCK_ENTRIES - 1]
            if begin >= size_bytes:
                return
            if times[block] >= timestamp_ms:
                yield begin, min(end, size_bytes)
            begin = end
        if begin < size_bytes:
            yield begin, size_bytes

    def at_or_below_offset(self, relative_offset: int) -> int:
        """Return the position of the greatest entry not above an offset, 0 if there is none."""
        offsets, positions = self._recent
        if not offsets or relative_offset < offsets[0]:
            offsets, positions, _ = self._entries
        count = bisect_right(offsets, relative_offset)
        return positions[count - 1] if count else 0

    def at_or_below_position(self, position: int) -> int:
        """Return the greatest position of an entry that is not above a position, 0 without one."""
        _, positions, _ = self._entries
        count = bisect_right(positions, position)
        return positions[count - 1] if count else 0

    def reaching_offset(self, relative_offset: int, *, default: int) -> int:
        """Return the position of the first entry at or above an offset."""
        offsets, positions, _ = self._entries
        slot = bisect_left(offsets, relative_offset)
        return positions[slot] if slot < len(offsets) else default

    def truncate(self, size_bytes: int) -> None:
        """Forget entries at or beyond the new end of the file."""
        offsets, positions, times = self._entries
        keep = bisect_right(positions, size_bytes - 1) if size_bytes > 0 else 0
        self._entries = (offsets[:keep], positions[:keep], times[: keep // BLOCK_ENTRIES])
        self._block_time = ANY_TIME if size_bytes > 0 else NO_TIME
        self._recent = (array("I"), array("I"))

    def __len__(self) -> int:
        return len(self._entries[0])

    def to_bytes(self, count: int | None = None) -> bytes:
        """Return the content of the index file, of the first entries only if a count is given."""
        entries = self._entries
        offsets, positions = entries[0][:count], entries[1][:count]
        mixed = array("I", bytes(len(offsets) * ENTRY_BYTES))
        mixed[0::2] = offsets
        mixed[1::2] = positions[: len(offsets)]
        times = entries[2][: len(offsets) // BLOCK_ENTRIES]
        return _big_endian(mixed).tobytes() + _big_endian(times).tobytes()

    def load(self, content: bytes, *, log_size_bytes: int) -> bool:
        """Load a file's entries; return False without loading if they do not fit the segment."""
        words, rest = divmod(len(content), ENTRY_BYTES)
        blocks, after = divmod(words, BLOCK_ENTRIES + 1)
        if rest or after == BLOCK_ENTRIES or len(content) > self._size_max_bytes:
            return False
        split = len(content) - blocks * ENTRY_BYTES
        mixed, times = array("I", content[:split]), array("q", content[split:])
        mixed, times = _big_endian(mixed), _big_endian(times)
        offsets, positions = mixed[0::2], mixed[1::2]
        if not _ascend(offsets) or not _ascend(positions):
            return False
        if positions and positions[-1] >= log_size_bytes:
            return False
        self._entries = (offsets, positions, times)
        self._block_time = ANY_TIME
        self._recent = (array("I"), array("I"))
        return True


def _big_endian(values: array[int]) -> array[int]:
    """Turn values of the machine's byte order into big endian ones, or back, in place."""
    if sys.byteorder == "little":
        values.byteswap()
    return values


def _ascend(values: array[int]) -> bool:
    return all(map(lt, values, values[1:])) and (
        not values or (values[0] > 0 and values[-1] <= RELATIVE_MAX)
    )
