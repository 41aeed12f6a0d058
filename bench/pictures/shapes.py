"""Simple charts for tables that the report does not draw, in the report's own look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from strandline_analysis.html_report.axes import Upward, line_of, number_axis
from strandline_analysis.html_report.chart import (
    AXIS_HEIGHT,
    NAMES_WIDTH,
    RIGHT,
    WIDTH,
    TimeScale,
    bar,
    drawing,
    name_of_lane,
    scale_of,
    time_axis,
)
from strandline_analysis.html_report.markup import Element, element
from strandline_analysis.html_report.words import Range, grouped

LANE: Final = 22.0
HEIGHT: Final = 150.0
HALF_MS: Final = 30_000
"""Half of a minute: what is told of a minute stands in its middle."""
MARK_WIDTH: Final = 4.0
"""Of what happened in one moment."""

Row = Mapping[str, Any]


def lanes(
    rows: Sequence[Row],
    window: Range,
    *,
    label: str,
    names: Sequence[str],
    name: Callable[[Row], str],
    look: Callable[[Row], str],
    tip: Callable[[Row], str] = lambda _: "",
    start: str = "start_ms",
    end: str = "end_ms",
) -> Element:
    """Return a lane for each name, with a bar for each row of it.

    Shape:   `start` and `end` name the columns of the times; equal ones are one moment
    """
    scale, bottom = scale_of(window), LANE * len(names) + 4
    drawn = [time_axis(scale, top=0, bottom=bottom)]
    for index, each in enumerate(names):
        y = index * LANE + 2
        drawn.append(name_of_lane(each, y=y + LANE - 8))
        drawn += [
            _bar(scale, row, start=start, end=end, y=y, look=look(row), tip=tip(row))
            for row in rows
            if name(row) == each
        ]
    return drawing(label, bottom + AXIS_HEIGHT, *drawn)


def minutes(
    series: Sequence[tuple[str, Sequence[Row]]],
    window: Range,
    *,
    label: str,
    value: str,
    unit: str = "",
) -> Element:
    """Return a line for each series of rows that tell of a minute: its look, and its rows."""
    scale, top = scale_of(window), 12.0
    most = max((row[value] for _, rows in series for row in rows), default=1)
    upward = Upward(least=0, most=max(most, 1), top=top, bottom=top + HEIGHT)
    drawn = [time_axis(scale, top=top, bottom=top + HEIGHT), number_axis(upward, unit)]
    for look, rows in series:
        ordered = sorted(rows, key=lambda row: int(row["minute_ms"]))
        for stretch in unbroken(ordered):
            points = [
                (scale.x(row["minute_ms"] + HALF_MS), upward.y(row[value])) for row in stretch
            ]
            drawn += [element("circle", cx=x, cy=y, r=2.5, class_=look) for x, y in points]
            drawn.append(line_of(points, look))
    return drawing(label, top + HEIGHT + AXIS_HEIGHT, *drawn)


def unbroken(rows: Sequence[Row]) -> list[list[Row]]:
    """Return rows of minutes in stretches: a minute without a row interrupts the line."""
    stretches: list[list[Row]] = []
    for row in rows:
        if not stretches or row["minute_ms"] - stretches[-1][-1]["minute_ms"] > 2 * HALF_MS:
            stretches.append([])
        stretches[-1].append(row)
    return stretches


def counts(rows: Sequence[tuple[str, Sequence[tuple[str, int]]]], *, label: str) -> Element:
    """Return a bar for each name, made of pieces: the look and the count of each."""
    most = max((sum(count for _, count in pieces) for _, pieces in rows), default=1)
    width = WIDTH - NAMES_WIDTH - RIGHT - 60
    drawn: list[Element] = []
    for index, (name, pieces) in enumerate(rows):
        y, x = index * LANE + 2, NAMES_WIDTH
        drawn.append(name_of_lane(name, y=y + LANE - 8))
        for look, count in pieces:
            long = width * count / max(most, 1)
            drawn.append(element("rect", x=x, y=y, width=long, height=LANE - 5, class_=look))
            x += long
        told = " + ".join(grouped(count) for _, count in pieces)
        drawn.append(element("text", told, x=x + 8, y=y + LANE - 8, class_="told"))
    return drawing(label, LANE * len(rows) + 4, *drawn)


def _bar(
    scale: TimeScale, row: Row, *, start: str, end: str, y: float, look: str, tip: str
) -> Element:
    """Return the bar of a row, or a mark around its moment."""
    if row[start] != row[end]:
        height = LANE - 5
        return bar(scale, row[start], row[end], y=y, height=height, look=look, tip=tip)
    x = scale.x(row[start]) - MARK_WIDTH / 2
    tooltip = element("title", tip)
    place = {"x": x, "y": y, "width": MARK_WIDTH, "height": LANE - 5}
    return element("rect", tooltip, class_=look, **place)
