"""Which broker led each partition, and when there was none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

from .chart import AXIS_HEIGHT, bar, colour_of, drawing, name_of_lane, scale_of, time_axis
from .markup import Element, element
from .words import Range, Row, broker, clock, counted, grouped, partition_of, span

PARTITIONS_MAX: Final = 40
"""Partitions drawn, those with the most elections first."""
ELECTIONS_MAX: Final = 400
"""Elections drawn of one partition, the oldest first."""
LANE: Final = 18.0

IDENTITY = itemgetter("topic", "partition")


def leader_lines(elections: Sequence[Row], window: Range) -> list[Element]:
    """Return the drawing of leaders with a sentence about it, or a sentence alone."""
    seen = [row for row in elections if row["observed"]]
    ordered = sorted(seen, key=lambda row: (*IDENTITY(row), row["epoch"]))
    lanes = [list(rows) for _, rows in groupby(ordered, key=IDENTITY)]
    if not lanes:
        return [element("p", "No leader changed in this range.", class_="empty")]
    lanes.sort(key=lambda rows: -len(rows))
    shown = lanes[:PARTITIONS_MAX]
    scale, bottom = scale_of(window), LANE * len(shown) + 4
    drawn = [time_axis(scale, top=0, bottom=bottom)]
    for index, rows in enumerate(shown):
        y = index * LANE + 2
        name = partition_of(rows[0])
        drawn.append(name_of_lane(name, y=y + LANE - 6))
        for start, end, leader in stretches(rows[:ELECTIONS_MAX], window):
            tip = (
                f"{name}: {broker(leader)} from {clock(start)} to {clock(end)}, {span(end - start)}"
            )
            look = f"leader {colour_of(leader)}"
            drawn.append(bar(scale, start, end, y=y, height=LANE - 4, look=look, tip=tip))
    said = (
        f"{counted(len(lanes), 'partition')} changed the leader; "
        "the others had the same one throughout, or none was seen. "
        "A space between two bars is a time without a known leader."
    )
    if len(lanes) > len(shown):
        said += f" Drawn are the {grouped(len(shown))} with the most elections."
    if any(len(rows) > ELECTIONS_MAX for rows in shown):
        said += f" Of a partition the first {grouped(ELECTIONS_MAX)} elections are drawn."
    brokers = sorted({each for rows in shown for row in rows for each in _leaders(row)})
    return [
        element("p", said),
        legend(brokers),
        drawing("Leaders of partitions over time", bottom + AXIS_HEIGHT, *drawn),
    ]


def stretches(rows: Sequence[Row], window: Range) -> list[tuple[int, int, int]]:
    """Return the times with a known leader: start, end, broker.

    Shape:   rows are the observed elections of one partition, by epoch
    """
    found = []
    first = rows[0]
    if first["old_leader"] is not None and first["t_last_old_ms"] is not None:
        found.append((window.start_ms, first["t_last_old_ms"], first["old_leader"]))
    for row, following in pairwise([*rows, None]):
        if row is None or row["new_leader"] is None:
            continue
        until = window.end_ms if following is None else following["t_last_old_ms"]
        if until is None or (following and following["old_leader"] != row["new_leader"]):
            until = following["t_first_new_ms"] if following else window.end_ms
        found.append((row["t_first_new_ms"], max(until, row["t_first_new_ms"]), row["new_leader"]))
    return found


def legend(brokers: Sequence[int]) -> Element:
    """Return which colour is which broker."""
    items = [
        element("li", element("span", class_=f"swatch {colour_of(each)}"), f"broker {each}")
        for each in brokers
    ]
    return element("ul", *items, class_="legend")


def _leaders(row: Row) -> list[int]:
    return [each for each in (row["old_leader"], row["new_leader"]) if each is not None]
