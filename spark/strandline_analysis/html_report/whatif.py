"""The curve of what other settings of replica.lag.time.max.ms would have done."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from strandline_analysis.sentences import WHATIF_CAVEAT, whatif_sentences

from .axes import Upward, band_of, line_of, number_axis
from .chart import NAMES_WIDTH, RIGHT, WIDTH, drawing
from .markup import Element, element
from .rows import Cell, table_of
from .words import Row, span

HEIGHT: Final = 160.0
GAP: Final = 46.0
"""Between the two charts, which stand above each other."""
CURVES: Final = (
    ("shrinks", "b0", "times that replicas leave the ISR"),
    ("stall", "b5", "seconds at most that commits wait longer than they did"),
)


def whatif_curve(found: Sequence[Row], lag_time_max_ms: int) -> list[Element]:
    """Return the sentences, the curves, the table and the caveat."""
    rows = sorted(found, key=itemgetter("setting_ms"))
    if not rows:
        return [element("p", "No setting could be replayed.", class_="empty")]
    said = [element("li", each) for each in whatif_sentences(rows, lag_time_max_ms)]
    return [
        element("ul", *said, class_="sentences"),
        *([_drawn(rows, lag_time_max_ms)] if len(rows) > 1 else []),
        element("p", WHATIF_CAVEAT, class_="lead"),
        _table(rows),
    ]


def _drawn(rows: Sequence[Row], lag_time_max_ms: int) -> Element:
    """Return two charts over the settings, which stand at equal distances."""
    width = WIDTH - NAMES_WIDTH - RIGHT
    places = [NAMES_WIDTH + width * (index + 0.5) / len(rows) for index in range(len(rows))]
    drawn: list[Element] = []
    for index, (what, look, name) in enumerate(CURVES):
        top = 24 + index * (HEIGHT + GAP)
        low, high = ([_value(row, what, bound) for row in rows] for bound in ("low", "high"))
        scale = Upward(least=0, most=max(*high, 1), top=top, bottom=top + HEIGHT)
        drawn += [
            element("text", name, x=NAMES_WIDTH, y=top - 9, class_="title"),
            number_axis(scale, ""),
        ]
        lower, upper = (
            [(x, scale.y(value)) for x, value in zip(places, values, strict=True)]
            for values in (low, high)
        )
        if what == "shrinks":
            drawn.append(band_of(lower, upper, look))
        drawn.append(line_of(upper, look))
        for (x, y), row in zip(upper, rows, strict=True):
            tip = element("title", f"{span(row['setting_ms'])}: {_told(row, what)}")
            drawn.append(element("circle", tip, cx=x, cy=y, r=3, class_=look))
            mark = "tick now" if row["setting_ms"] == lag_time_max_ms else "tick"
            shown = span(row["setting_ms"]).replace(".0 ", " ")
            drawn.append(element("text", shown, x=x, y=top + HEIGHT + 15, class_=mark))
    height = 24 + 2 * HEIGHT + GAP + 24
    return drawing("What other settings of replica.lag.time.max.ms would have done", height, *drawn)


def _value(row: Row, what: str, bound: str) -> float:
    if what == "shrinks":
        return float(row[f"shrinks_{bound}"])
    return row["extra_hw_stall_ms"] / 1000 if bound == "high" else 0.0


def _told(row: Row, what: str) -> str:
    if what == "shrinks":
        return f"{row['shrinks_low']} to {row['shrinks_high']} shrinks"
    return f"{span(row['extra_hw_stall_ms'])} at most"


def _table(rows: Sequence[Row]) -> Element:
    header = (
        *("setting ms", "shrinks, low", "shrinks, high", "expands, low", "expands, high"),
        *("under-replicated ms, low", "ms, high", "below min ISR ms, low", "ms, high"),
        "commits wait longer, ms at most",
    )
    names = (
        *("setting_ms", "shrinks_low", "shrinks_high", "expands_low", "expands_high"),
        *("ur_low_ms", "ur_high_ms", "umi_low_ms", "umi_high_ms", "extra_hw_stall_ms"),
    )
    cells: list[Sequence[Cell]] = [[row[name] for name in names] for row in rows]
    return table_of(f"Settings: {len(rows)}", header, cells, file="lagtime_whatif.csv")
