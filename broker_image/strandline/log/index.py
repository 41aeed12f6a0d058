"""The sparse offset index of one segment: from an offset to a file position near it.

Called by `segment` and `segment_part`. An entry is 8 bytes big endian, as in Kafka: offset relative
to the segment's base, and file position. The first batch after each interval of log has an entry. A
lost index file is rebuilt from the segment, equal to the first one: entries depend on the batches
alone, not on the appends that wrote them.

Invariant: offsets and positions strictly ascend; every entry points at the first byte of the batch
with that base offset.

Source: Kafka OffsetIndex.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise

ENTRY_BYTES = 8
RELATIVE_MAX = (1 << 31) - 1
"""Greatest relative offset and greatest file position an entry can hold."""


class OffsetIndex:
    """The entries of one segment, in two arrays of 4 bytes each."""

    __slots__ = ("_interval_bytes", "_offsets", "_positions", "_size_max_bytes")

    def __init__(self, *, interval_bytes: int, size_max_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._size_max_bytes = size_max_bytes
        self._offsets = array("I")
        self._positions = array("I")

    @property
    def full(self) -> bool:
        """Tell whether no further entry fits; the segment must roll then."""
        return (len(self._offsets) + 1) * ENTRY_BYTES > self._size_max_bytes

    def note(self, relative_offset: int, position: int) -> None:
        """Add an entry for a written batch if an interval has passed since the last entry."""
        last = self._positions[-1] if self._positions else 0
        if position - last > self._interval_bytes and not self.full:
            # Positions first: a reader in another thread looks an offset's position up.
            self._positions.append(position)
            self._offsets.append(relative_offset)

    def at_or_below_offset(self, relative_offset: int) -> int:
        """Return the position of the greatest entry not above an offset, 0 if there is none."""
        count = bisect_right(self._offsets, relative_offset)
        return self._positions[count - 1] if count else 0

    def at_or_below_position(self, position: int) -> int:
        """Return the greatest position of an entry that is not above a position, 0 without one."""
        count = bisect_right(self._positions, position)
        return self._positions[count - 1] if count else 0

    def reaching_offset(self, relative_offset: int, *, default: int) -> int:
        """Return the position of the first entry at or above an offset."""
        slot = bisect_left(self._offsets, relative_offset)
        return self._positions[slot] if slot < len(self._positions) else default

    def positions_apart(self, distance_bytes: int) -> list[int]:
        """Return batch positions at least that far apart, beginning with 0."""
        chosen = [0]
        for position in self._positions:
            if position - chosen[-1] >= distance_bytes:
                chosen.append(position)
        return chosen

    def truncate(self, size_bytes: int) -> None:
        """Forget entries at or beyond the new end of the file."""
        keep = bisect_right(self._positions, size_bytes - 1) if size_bytes > 0 else 0
        del self._offsets[keep:]
        del self._positions[keep:]

    def to_bytes(self) -> bytes:
        """Return the content of the index file."""
        mixed = array("I", bytes(len(self._offsets) * ENTRY_BYTES))
        mixed[0::2] = self._offsets
        mixed[1::2] = self._positions
        if sys.byteorder == "little":
            mixed.byteswap()
        return mixed.tobytes()

    def load(self, content: bytes, *, log_size_bytes: int) -> bool:
        """Load a file's entries; return False without loading if they do not fit the segment."""
        if len(content) % ENTRY_BYTES or len(content) > self._size_max_bytes:
            return False
        mixed = array("I")
        mixed.frombytes(content)
        if sys.byteorder == "little":
            mixed.byteswap()
        offsets, positions = mixed[0::2], mixed[1::2]
        if not _ascend(offsets) or not _ascend(positions):
            return False
        if positions and positions[-1] >= log_size_bytes:
            return False
        self._offsets, self._positions = offsets, positions
        return True


def _ascend(values: array[int]) -> bool:
    return all(a < b for a, b in pairwise(values)) and (
        not values or (values[0] > 0 and values[-1] <= RELATIVE_MAX)
    )
