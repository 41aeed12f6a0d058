"""The heat map of ISRs: partition by time, how many replicas were out of sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from .chart import AXIS_HEIGHT, bar, drawing, name_of_lane, scale_of, time_axis
from .markup import Element, element
from .words import Range, Row, clock, counted, grouped, partition_of

PARTITIONS_MAX: Final = 60
"""Partitions drawn, those with the longest absence first."""
CELLS: Final = 120
"""Cells of one partition over the range."""
LEVELS: Final = 3
"""Classes out1 to out3 of the style sheet: that many replicas out, the last or more."""
LANE: Final = 14.0
LOOKS: Final = (
    ("out0", "all in sync"),
    ("out1", "one out"),
    ("out2", "two out"),
    ("out3", "three or more out"),
    ("unknown", "not known"),
)

Cell = tuple[frozenset[int], frozenset[int]]
"""Brokers that were out of sync at some time of the cell, and brokers not known."""


def isr_map(intervals: Sequence[Row], window: Range) -> list[Element]:
    """Return the heat map with a sentence about it, or a sentence alone."""
    ordered = sorted(intervals, key=itemgetter("topic", "partition", "replica", "start_ms"))
    lanes = [list(rows) for _, rows in groupby(ordered, key=itemgetter("topic", "partition"))]
    if not lanes:
        return [element("p", "No sample of a partition in this range.", class_="empty")]
    absent = [rows for rows in lanes if absent_ms(rows)]
    absent.sort(key=lambda rows: -absent_ms(rows))
    whole = len(lanes) - len(absent)
    of_all = counted(len(lanes), "partition")
    said = f"In {grouped(whole)} of {of_all} no replica was seen out of sync."
    if not absent:
        return [element("p", said)]
    shown = absent[:PARTITIONS_MAX]
    if len(absent) > len(shown):
        said += f" Drawn are the {grouped(len(shown))} with the longest absence."
    scale, bottom = scale_of(window), LANE * len(shown) + 4
    drawn = [time_axis(scale, top=0, bottom=bottom)]
    for index, rows in enumerate(shown):
        drawn += _lane(rows, window, y=index * LANE + 2)
    said += f" A cell is {window.length_ms / CELLS / 1000:.3g} s and shows its worst moment."
    keys = [element("li", element("span", class_=f"swatch {k}"), v) for k, v in LOOKS]
    return [
        element("p", said),
        element("ul", *keys, class_="legend"),
        drawing("Replicas out of sync over time", bottom + AXIS_HEIGHT, *drawn),
    ]


def absent_ms(rows: Sequence[Row]) -> int:
    """Return for how long replicas of one partition were out of sync, summed over replicas."""
    return sum(row["end_ms"] - row["start_ms"] for row in rows if row["in_isr"] is False)


def cells_of(rows: Sequence[Row], window: Range) -> Mapping[int, Cell]:
    """Return the cells of one partition in which a replica was out of sync or not known."""
    found: dict[int, tuple[set[int], set[int]]] = {}
    for row in rows:
        if row["in_isr"] is True:
            continue
        start = max(row["start_ms"], window.start_ms) - window.start_ms
        end = min(row["end_ms"], window.end_ms) - window.start_ms
        if start >= end:
            continue
        for cell in range(start * CELLS // window.length_ms, -(-end * CELLS // window.length_ms)):
            out, unknown = found.setdefault(cell, (set(), set()))
            (unknown if row["in_isr"] is None else out).add(row["replica"])
    return {cell: (frozenset(out), frozenset(no)) for cell, (out, no) in sorted(found.items())}


def _lane(rows: Sequence[Row], window: Range, *, y: float) -> list[Element]:
    """Return the cells of one partition; neighbours that say the same are one bar."""
    scale, name, cells = scale_of(window), partition_of(rows[0]), cells_of(rows, window)
    made = [name_of_lane(name, y=y + LANE - 4)]
    nothing: Cell = (frozenset(), frozenset())
    for state, run in groupby(range(CELLS), key=lambda cell: cells.get(cell, nothing)):
        covered = list(run)
        start, end = (
            window.start_ms + window.length_ms * cell / CELLS
            for cell in (covered[0], covered[-1] + 1)
        )
        look, what = _told(state)
        tip = f"{name}, {clock(round(start))} to {clock(round(end))}: {what}"
        made.append(bar(scale, start, end, y=y, height=LANE - 2, look=look, tip=tip))
    return made


def _told(state: Cell) -> tuple[str, str]:
    """Return the look and the words of a cell."""
    out, unknown = state
    parts = []
    if out:
        parts.append("out of sync: " + ", ".join(map(str, sorted(out))))
    if unknown:
        parts.append("not known: " + ", ".join(map(str, sorted(unknown))))
    words = "; ".join(parts) or "all in sync"
    if out:
        return f"out{min(len(out), LEVELS)}", words
    return ("unknown" if unknown else "out0"), words
