"""How long partitions had no leader, by kind of election."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from .axes import PowersOfTen
from .chart import drawing, name_of_lane
from .markup import Element, element
from .rows import Cell, table_of
from .words import Row, counted, partition_of, span

LANE: Final = 34.0
DRAWN_MAX: Final = 500
"""Elections drawn of one kind, the longest first."""


def failover_times(elections: Sequence[Row], quantiles: Sequence[Row] | None) -> list[Element]:
    """Return the distribution of the times without a leader: a sentence, a drawing, a table."""
    seen = [row for row in elections if row["observed"] and row["no_leader_high_ms"] is not None]
    if not seen:
        return [element("p", "No election was seen from begin to end.", class_="empty")]
    ordered = sorted(seen, key=lambda row: (row["kind"] or "", -row["no_leader_high_ms"]))
    lanes = [(kind or "not seen", list(rows)) for kind, rows in groupby(ordered, _kind)]
    scale = PowersOfTen.over([row["no_leader_high_ms"] for row in seen])
    bottom = LANE * len(lanes) + 4
    drawn = []
    for value in scale.ticks():
        x = scale.x(value)
        drawn += [
            element("line", x1=x, x2=x, y1=0, y2=bottom, class_="grid"),
            element(
                "text",
                span(value).replace(".0 ", " "),
                x=x,
                y=bottom + 14,
                class_=_look(scale, value),
            ),
        ]
    for index, (kind, rows) in enumerate(lanes):
        y = index * LANE + LANE / 2
        drawn.append(name_of_lane(kind, y=y + 4))
        for number, row in enumerate(rows[:DRAWN_MAX]):
            drawn.append(_mark(scale, row, y=y - 9 + 18 * (number * 7 % 10) / 9))
    said = f"{counted(len(seen), 'election')}. Each line is one: its time without a leader lay "
    said += "between its ends; a dot is the upper bound."
    if any(len(rows) > DRAWN_MAX for _, rows in lanes):
        said += f" Of a kind the {DRAWN_MAX} longest are drawn."
    title = "Times without a leader by kind of election"
    return [
        element("p", said),
        drawing(title, bottom + 22, *drawn),
        *([_table(quantiles)] if quantiles else []),
    ]


def _short(value: int) -> str:
    return span(value).replace(".0 ", " ")


def _look(scale: PowersOfTen, value: int) -> str:
    return "tick last" if value == scale.ticks()[-1] else "tick"


def _kind(row: Row) -> str | None:
    return None if row["kind"] is None else str(row["kind"])


def _mark(scale: PowersOfTen, row: Row, *, y: float) -> Element:
    low, high = scale.x(row["no_leader_low_ms"]), scale.x(row["no_leader_high_ms"])
    bounds = f"{span(row['no_leader_low_ms'])} to {span(row['no_leader_high_ms'])}"
    tip = element("title", f"{partition_of(row)}, epoch {row['epoch']}: {bounds}")
    line = element("line", x1=low, x2=high, y1=y, y2=y, class_="range")
    return element("g", tip, line, element("circle", cx=high, cy=y, r=2.5, class_="b0"))


def _table(quantiles: Sequence[Row]) -> Element:
    header = (
        *("kind", "elections", "half, low ms", "half, high ms", "99 %, low ms", "99 %, high ms"),
        *("longest, low ms", "longest, high ms"),
    )
    names = ("p50_low_ms", "p50_high_ms", "p99_low_ms", "p99_high_ms", "max_low_ms", "max_high_ms")
    cells: list[Sequence[Cell]] = [
        (row["kind"], row["elections"], *(round(row[name], 1) for name in names))
        for row in sorted(quantiles, key=lambda row: str(row["kind"]))
    ]
    return table_of(f"Kinds: {len(cells)}", header, cells, file="failover_quantiles.csv")
