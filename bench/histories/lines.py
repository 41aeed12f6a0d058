"""A whole number over time as straight pieces, exact to the unit.

Called by `partition`, and read by `truth`, `signals` and `scrapes`. Offsets and counters grow by
whole records; a line gives the same number to whoever asks for a moment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple


class LinePiece(NamedTuple):
    """From at_ms on the value is base + (t - at_ms) * rise // per_ms."""

    at_ms: int
    base: int
    rise: int
    per_ms: int

    def at(self, time_ms: int) -> int:
        """Return the value at a time; the piece does not know its end."""
        return self.base + (time_ms - self.at_ms) * self.rise // self.per_ms


@dataclass(slots=True)
class Line:
    """Pieces in order of time; the first one also holds before its begin."""

    pieces: list[LinePiece] = field(default_factory=list)

    def set(self, at_ms: int, base: int, *, rise: int = 0, per_ms: int = 1000) -> None:
        """Begin a piece; it replaces one that began at the same time.

        Shape:   at_ms is not before the begin of the last piece
        """
        piece = LinePiece(at_ms, base, rise, per_ms)
        if self.pieces and self.pieces[-1].at_ms == at_ms:
            self.pieces.pop()
        elif self.pieces and self.pieces[-1].at_ms > at_ms:
            raise ValueError(f"at_ms is {at_ms}, before {self.pieces[-1].at_ms}: times only rise")
        if self.pieces and rise == 0 == self.pieces[-1].rise and self.pieces[-1].base == base:
            return
        self.pieces.append(piece)

    def at(self, time_ms: int) -> int:
        """Return the value at a time."""
        place = bisect_right(self.pieces, time_ms, key=attrgetter("at_ms")) - 1
        return self.pieces[max(place, 0)].at(time_ms)

    def before(self, time_ms: int) -> int:
        """Return the value right before a time, where a piece may end in a jump."""
        place = bisect_left(self.pieces, time_ms, key=attrgetter("at_ms")) - 1
        return self.pieces[max(place, 0)].at(time_ms)
