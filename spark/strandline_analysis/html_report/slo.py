"""How available topics were, and what is left of their error budget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from .chart import NAMES_WIDTH, RIGHT, WIDTH, drawing, name_of_lane
from .markup import Element, element
from .rows import Cell, table_of
from .words import Row, counted, grouped

TOPICS_MAX: Final = 40
"""Topics and days drawn, those with the least budget left first."""
LANE: Final = 18.0
COLUMNS: Final = (
    *("coverage", "availability", "produce_availability", "ur_ratio", "durability_risk"),
    *("failover_p99_ms", "error_budget_left"),
)


def slo_budget(found: Sequence[Row]) -> list[Element]:
    """Return the budgets of topics and days: a sentence, a drawing, a table."""
    if not found:
        return [element("p", "No topic was seen in this range.", class_="empty")]
    ordered = sorted(found, key=lambda row: (_left(row), row["topic"], row["day_ms"]))
    spent = sum(_left(row) < 0 for row in ordered)
    blind = sum(not row["covered"] for row in ordered)
    said = f"{counted(spent, 'error budget')} of {grouped(len(ordered))} overdrawn. "
    said += "A budget is the time without a leader that the target allows in the known time."
    if blind:
        said += f" Of {counted(blind, 'topic')} too little is known for the figures to be trusted."
    if len(ordered) > TOPICS_MAX:
        said += f" Drawn are the {TOPICS_MAX} with the least left."
    shown = ordered[:TOPICS_MAX]
    return [element("p", said), _drawn(shown), _table(ordered)]


def _drawn(shown: Sequence[Row]) -> Element:
    """Return a bar for each topic and day: how much of the budget is used."""
    width = WIDTH - NAMES_WIDTH - RIGHT
    drawn = []
    for index, row in enumerate(shown):
        y = index * LANE + 2
        drawn.append(name_of_lane(f"{row['topic']} {_day(row)}", y=y + LANE - 6))
        left = row["error_budget_left"]
        used = 0.0 if left is None else min(max(1 - left, 0.0), 1.0)
        look = "unknown" if left is None else "out2" if left < 0 else "b0"
        told = "not known" if left is None else f"{left:.1%} of the budget left"
        tip = element("title", f"{row['topic']} {_day(row)}: {told}")
        place = {"y": y, "height": LANE - 4}
        drawn += [
            element("rect", x=NAMES_WIDTH, width=width, class_="out0", **place),
            element("rect", tip, x=NAMES_WIDTH, width=max(used * width, 1.0), class_=look, **place),
        ]
    bottom = LANE * len(shown) + 4
    for share in (0, 25, 50, 75, 100):
        x = NAMES_WIDTH + width * share / 100
        anchor = "tick last" if share == 100 else "tick"
        drawn.append(element("text", f"{share} % used", x=x, y=bottom + 12, class_=anchor))
    return drawing("Used part of each error budget", bottom + 22, *drawn)


def _table(ordered: Sequence[Row]) -> Element:
    header = (
        *("topic", "day", "partitions", "known", "trusted", "availability", "acks=all possible"),
        *("under-replicated", "at risk", "failover p99 ms", "budget left"),
    )
    cells: list[Sequence[Cell]] = [
        (
            row["topic"],
            _day(row),
            row["partitions"],
            _rounded(row["coverage"]),
            "yes" if row["covered"] else "no",
            *(_rounded(row[name]) for name in COLUMNS[1:]),
        )
        for row in ordered
    ]
    return table_of(f"Topics and days: {len(cells)}", header, cells, file="slo.csv")


def _left(row: Row) -> float:
    """Return what is left of a budget; one that is not known comes last."""
    return float("inf") if row["error_budget_left"] is None else float(row["error_budget_left"])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _day(row: Row) -> str:
    return datetime.fromtimestamp(row["day_ms"] / 1000, tz=UTC).date().isoformat()
