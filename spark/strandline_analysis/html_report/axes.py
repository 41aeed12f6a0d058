"""Scales of numbers for charts, with round ticks: linear, and by powers of ten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .chart import NAMES_WIDTH, RIGHT, WIDTH
from .markup import Element, element
from .words import grouped

TICKS: Final = 4
"""Ticks of an axis of numbers, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upward:
    """Where a number lies between the bottom and the top of a chart."""

    least: float
    most: float
    top: float
    bottom: float

    def y(self, value: float) -> float:
        """Return the place of a number, held within the chart."""
        share = (min(max(value, self.least), self.most) - self.least) / self._length
        return self.bottom - share * (self.bottom - self.top)

    @property
    def _length(self) -> float:
        return max(self.most - self.least, 1e-9)

    def ticks(self) -> list[float]:
        """Return round numbers, some TICKS of them."""
        step = 10 ** math.floor(math.log10(self._length / TICKS))
        step *= next(each for each in (1, 2, 5, 10) if self._length / (step * each) <= TICKS)
        first = math.ceil(self.least / step)
        return [step * number for number in range(first, math.floor(self.most / step) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowersOfTen:
    """Where a time span in ms lies from left to right, each power of ten as wide as the next."""

    least: int
    """The power of ten at the left."""
    most: int

    @classmethod
    def over(cls, values: Sequence[float]) -> PowersOfTen:
        """Return the scale that holds these values."""
        powers = [math.log10(max(value, 1)) for value in values] or [0.0]
        least = math.floor(min(powers))
        return cls(least=least, most=max(math.ceil(max(powers)), least + 1))

    def x(self, value: float) -> float:
        """Return the place of a value; what is smaller than the scale is at its left end."""
        power = min(max(math.log10(max(value, 1e-9)), self.least), self.most)
        share = (power - self.least) / (self.most - self.least)
        return NAMES_WIDTH + share * (WIDTH - NAMES_WIDTH - RIGHT)

    def ticks(self) -> list[int]:
        """Return the powers of ten."""
        return [10**power for power in range(self.least, self.most + 1)]


def number_axis(scale: Upward, unit: str, *, right: float = WIDTH - RIGHT) -> Element:
    """Return lines with their numbers at the left."""
    marks = []
    for value in scale.ticks():
        y, whole = scale.y(value), round(value)
        shown = grouped(whole) if abs(value - whole) < 1e-9 else f"{value:g}"
        marks += [
            element("line", x1=NAMES_WIDTH, x2=right, y1=y, y2=y, class_="grid"),
            element("text", f"{shown} {unit}".strip(), x=NAMES_WIDTH - 8, y=y + 4, class_="lane"),
        ]
    return element("g", *marks)


def line_of(points: Sequence[tuple[float, float]], look: str) -> Element:
    """Return a line through points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=joined, class_=f"curve {look}")


def band_of(
    low: Sequence[tuple[float, float]], high: Sequence[tuple[float, float]], look: str
) -> Element:
    """Return the area between two lines."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*high, *reversed(low)])
    return element("polygon", points=joined, class_=f"band {look}")
