"""A log's end, its high watermark, and what lies between them, around an incident."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

from strandline_analysis.run_lengths import GAP_INTERVALS

from .axes import Upward, line_of, number_axis
from .chart import NAMES_WIDTH, TimeScale, drawing, time_axis
from .markup import Element, element
from .rows import Cell, table_of
from .words import Range, Row, broker, clock, counted, partition_of

POINTS_MAX: Final = 600
"""Points of a line; of more, each part of the time shows its greatest lag."""
HEIGHT: Final = 130.0
GAP: Final = 34.0


def incident_curves(found: Sequence[Row], incidents: Sequence[Row], window: Range) -> list[Element]:
    """Return for each incident with curves a drawing, and a table of all points."""
    if not found:
        return [element("p", "No partition had samples around an incident.", class_="empty")]
    by_id = {row["id"]: row for row in incidents}
    ordered = sorted(found, key=lambda row: (*_name(row), row["at_ms"]))
    parts: list[Element] = []
    for _, rows in groupby(ordered, key=_name):
        listed = list(rows)
        parts += _drawn(listed, by_id.get(listed[0]["incident"]), window)
    header = ("incident", "partition", "leader", "at", "log end", "high watermark", "lag")
    cells: list[Sequence[Cell]] = [
        (
            row["incident"],
            partition_of(row),
            broker(row["leader"]),
            clock(row["at_ms"]),
            row["leo"],
            row["hw"],
            row["leo"] - row["hw"],
        )
        for row in ordered
    ]
    caption = f"Scrapes around incidents: {len(cells)}"
    return [*parts, table_of(caption, header, cells, file="incident_curves.csv")]


_name = itemgetter("incident", "topic", "partition")


def thinned(rows: Sequence[Row]) -> list[Row]:
    """Return at most POINTS_MAX rows: of each part of them the one with the greatest lag."""
    size = -(-len(rows) // POINTS_MAX)
    parts = (rows[first : first + size] for first in range(0, len(rows), size))
    return [max(part, key=lambda row: (row["leo"] - row["hw"], row["at_ms"])) for part in parts]


def unbroken(rows: Sequence[Row], *, gap_ms: float) -> list[list[Row]]:
    """Return the rows in stretches without a gap and with one leader."""
    stretches: list[list[Row]] = [[rows[0]]]
    for before, row in pairwise(rows):
        if row["at_ms"] - before["at_ms"] > gap_ms or row["leader"] != before["leader"]:
            stretches.append([])
        stretches[-1].append(row)
    return stretches


def _drawn(rows: Sequence[Row], incident: Row | None, window: Range) -> list[Element]:
    shown = thinned(rows)
    begin, end = rows[0]["at_ms"], rows[-1]["at_ms"]
    scale = TimeScale(start_ms=begin, end_ms=max(end, begin + 1))
    step_ms = max((b["at_ms"] - a["at_ms"] for a, b in pairwise(shown)), default=0)
    gap_ms = GAP_INTERVALS * window.interval_ms
    gap_ms = max(gap_ms, step_ms if len(shown) < len(rows) else 0)
    name = partition_of(rows[0])
    drawn: list[Element] = []
    if incident is not None:
        left, right = scale.x(incident["start_ms"]), scale.x(incident["end_ms"])
        tall = 2 * HEIGHT + GAP
        width = max(right - left, 1.0)
        tip = element("title", "the incident")
        drawn.append(element("rect", tip, x=left, y=20, width=width, height=tall, class_="during"))
    first = min(row["hw"] for row in rows)
    for index, (title, lines) in enumerate(
        (
            (f"{name}: offsets above {first}", (("leo", "b1"), ("hw", "b0"))),
            ("written and not committed, offsets", (("lag", "b5"),)),
        )
    ):
        top = 20 + index * (HEIGHT + GAP)
        base = first if index == 0 else 0
        most = max(_of(row, what) - base for row in shown for what, _ in lines)
        upward = Upward(least=0, most=max(most, 1), top=top, bottom=top + HEIGHT)
        drawn += [
            number_axis(upward, ""),
            element("text", title, x=NAMES_WIDTH, y=top - 7, class_="title"),
        ]
        for what, look in lines:
            for stretch in unbroken(shown, gap_ms=gap_ms):
                points = [
                    (scale.x(row["at_ms"]), upward.y(_of(row, what) - base)) for row in stretch
                ]
                drawn.append(line_of(points, look))
    bottom = 20 + 2 * HEIGHT + GAP
    drawn.insert(0, time_axis(scale, top=20, bottom=bottom))
    said = f"Partition {name}, {counted(len(rows), 'scrape')} of its leaders."
    said += " The incident is shaded; a line ends where another broker leads, or no scrape is."
    keys = (("b1", "log end"), ("b0", "high watermark"), ("b5", "between them"))
    legend = [element("li", element("span", class_=f"swatch {k}"), v) for k, v in keys]
    return [
        element("h3", f"Around the incident {_called(rows[0], incident)}"),
        element("p", said),
        element("ul", *legend, class_="legend"),
        drawing(f"Log end and high watermark of {name}", bottom + 22, *drawn),
    ]


def _called(row: Row, incident: Row | None) -> str:
    if incident is None:
        return str(row["incident"])
    root = "" if incident["root_broker"] is None else f" {broker(incident['root_broker'])}"
    return f"of {clock(incident['start_ms'])}:{root or ' ' + incident['kind']}"


def _of(row: Row, what: str) -> int:
    return int(row["leo"] - row["hw"] if what == "lag" else row[what])
