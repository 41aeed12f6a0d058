"""The sparse offset index of one segment: from an offset to a file position near it.

Called by `segment` and `segment_part`. An entry is 8 bytes big endian, as in Kafka: offset relative
to the segment's base, and file position. The first batch after each interval of log has an entry. A
lost index file is rebuilt from the segment, equal to the first one: entries depend on the batches
alone, not on the appends that wrote them.

One thread changes an index while others look entries up: a lookup takes both arrays as one value,
an entry's position is there before its offset, and a truncation makes new arrays.

Invariant: offsets and positions strictly ascend; every entry points at the first byte of the batch
with that base offset.

Source: Kafka OffsetIndex.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt

ENTRY_BYTES = 8
RELATIVE_MAX = (1 << 31) - 1
"""Greatest relative offset and greatest file position an entry can hold."""


class OffsetIndex:
    """The entries of one segment, in two arrays of 4 bytes each."""

    __slots__ = ("_entries", "_interval_bytes", "_size_max_bytes")

    def __init__(self, *, interval_bytes: int, size_max_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._size_max_bytes = size_max_bytes
        self._entries = (array("I"), array("I"))
        """Relative offsets, and a position for each of them or for one more."""

    @property
    def full(self) -> bool:
        """Tell whether no further entry fits; the segment must roll then."""
        return (len(self._entries[0]) + 1) * ENTRY_BYTES > self._size_max_bytes

    def note(self, relative_offset: int, position: int) -> None:
        """Add an entry for a written batch if an interval has passed since the last entry."""
        offsets, positions = self._entries
        last = positions[-1] if positions else 0
        if position - last > self._interval_bytes and not self.full:
            positions.append(position)
            offsets.append(relative_offset)

    def at_or_below_offset(self, relative_offset: int) -> int:
        """Return the position of the greatest entry not above an offset, 0 if there is none."""
        offsets, positions = self._entries
        count = bisect_right(offsets, relative_offset)
        return positions[count - 1] if count else 0

    def at_or_below_position(self, position: int) -> int:
        """Return the greatest position of an entry that is not above a position, 0 without one."""
        _, positions = self._entries
        count = bisect_right(positions, position)
        return positions[count - 1] if count else 0

    def reaching_offset(self, relative_offset: int, *, default: int) -> int:
        """Return the position of the first entry at or above an offset."""
        offsets, positions = self._entries
        slot = bisect_left(offsets, relative_offset)
        return positions[slot] if slot < len(offsets) else default

    def truncate(self, size_bytes: int) -> None:
        """Forget entries at or beyond the new end of the file."""
        offsets, positions = self._entries
        keep = bisect_right(positions, size_bytes - 1) if size_bytes > 0 else 0
        self._entries = (offsets[:keep], positions[:keep])

    def __len__(self) -> int:
        return len(self._entries[0])

    def to_bytes(self, count: int | None = None) -> bytes:
        """Return the content of the index file, of the first entries only if a count is given."""
        entries = self._entries
        offsets, positions = entries[0][:count], entries[1][:count]
        mixed = array("I", bytes(len(offsets) * ENTRY_BYTES))
        mixed[0::2] = offsets
        mixed[1::2] = positions
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
        self._entries = (offsets, positions)
        return True


def _ascend(values: array[int]) -> bool:
    return all(map(lt, values, values[1:])) and (
        not values or (values[0] > 0 and values[-1] <= RELATIVE_MAX)
    )
