"""What went wrong, in sentences, over time, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline_analysis.sentences import by_start, incident_sentence

from .chart import AXIS_HEIGHT, bar, colour_of, drawing, name_of_lane, scale_of, time_axis
from .leaders import legend
from .markup import Element, element
from .rows import Cell, table_of
from .words import Range, Row, broker, clock, counted, grouped

SENTENCES_MAX: Final = 50
"""Incidents that are told in words and drawn, the oldest first."""
LANE: Final = 18.0


def incident_list(incidents: Sequence[Row], window: Range) -> list[Element]:
    """Return the incidents: a sentence each, a drawing, and a table."""
    if not incidents:
        return [element("p", "The samples show no incident in this range.", class_="empty")]
    ordered = by_start(incidents)
    shown = ordered[:SENTENCES_MAX]
    said = f"{counted(len(ordered), 'incident')}, the oldest first."
    if len(ordered) > len(shown):
        said += f" The first {grouped(len(shown))} are told here; the table has more."
    items = [
        element("li", element("b", f"{row['kind']}: "), incident_sentence(row)) for row in shown
    ]
    roots = sorted({row["root_broker"] for row in shown if row["root_broker"] is not None})
    return [
        element("p", said),
        element("ol", *items, class_="incidents"),
        *([legend(roots)] if roots else []),
        _drawn(shown, window),
        _table(ordered),
    ]


def _drawn(shown: Sequence[Row], window: Range) -> Element:
    """Return a lane for each incident: a bar over its time, and a line for each sign of it."""
    scale, bottom = scale_of(window), LANE * len(shown) + 4
    drawn = [time_axis(scale, top=0, bottom=bottom)]
    for index, row in enumerate(shown):
        y = index * LANE + 2
        name = row["kind"] if row["root_broker"] is None else f"{row['kind']} {row['root_broker']}"
        drawn.append(name_of_lane(f"{index + 1}. {name}", y=y + LANE - 6))
        start, end = row["start_ms"], row["end_ms"]
        look = f"incident {colour_of(row['root_broker'])}"
        tip = incident_sentence(row)
        drawn.append(bar(scale, start, end, y=y, height=LANE - 4, look=look, tip=tip))
        for at in sorted({proof["at_ms"] for proof in row["evidence"]}):
            x = scale.x(at)
            drawn.append(element("line", x1=x, x2=x, y1=y + 2, y2=y + LANE - 6, class_="sign"))
    return drawing("Incidents over time", bottom + AXIS_HEIGHT, *drawn)


def _table(ordered: Sequence[Row]) -> Element:
    header = (
        *("began", "ended", "kind", "root", "confidence", "partitions", "brokers", "episodes"),
        "evidence",
    )
    rows: list[Sequence[Cell]] = [
        (
            clock(row["start_ms"]),
            clock(row["end_ms"]),
            row["kind"],
            None if row["root_broker"] is None else broker(row["root_broker"]),
            round(row["confidence"], 3),
            row["partitions"],
            row["brokers"],
            row["episodes"],
            ", ".join(dict.fromkeys(proof["kind"] for proof in row["evidence"])),
        )
        for row in ordered
    ]
    return table_of(f"Incidents: {len(rows)}", header, rows, file="incidents.csv")
