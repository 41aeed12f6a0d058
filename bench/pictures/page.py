"""The page docs/tables.md: every table with its question, a picture, and one row read aloud."""

from __future__ import annotations

import json
from textwrap import wrap
from typing import Any, Final

from strandline_analysis.catalogue import TABLES, Column, Table
from strandline_analysis.html_report.words import clock, grouped, span

from .example import INTERVAL_MS, PLAN, Tables
from .shapes import Row
from .words import EXAMPLES, READ, UNKNOWN

EVIDENCE_SHOWN: Final = 1
"""Pieces of evidence shown of an incident."""
OPENING: Final = """\
# The tables of the analysis

For a reader who has never seen one. Each table answers one question about what Prometheus scraped
from brokers. `strandline analysis` writes those of its report as Parquet and CSV, with
`--all-tables` all of them; [analysis.md](analysis.md) tells how, and what the words mean.

Pictures and rows are of one example: {minutes} minutes of a cluster of {brokers} brokers and
{topics} topics with one partition each, scraped every {interval}, in which every kind of fault
comes once; `umi_episodes` and `zombie_leaders` show a second one. `python -m bench.pictures` makes
them again, and this page with them. The files have the column `cluster` before those that are
shown here.

What holds for every table:

- Times are ms since 1970, UTC, and ends are exclusive. An example has the time of day behind them.
- `..._err_ms` is how much earlier the true time may be. A true duration lies between
  `..._low_ms` and `..._high_ms`.
- Offsets are places in a log; their differences are numbers of records.
- Null is not zero. Where samples tell nothing a state is unknown; no state is carried over.
"""
LINE: Final = 150
"""Characters of a line of the page."""


def page_of(tables: Tables) -> str:
    """Return the page."""
    opening = OPENING.format(
        minutes=PLAN.length_ms // 60_000,
        brokers=PLAN.brokers,
        topics=PLAN.topics,
        interval=span(INTERVAL_MS),
    )
    return opening + "".join(_part(table, tables) for table in TABLES.values())


def example_of(name: str, tables: Tables) -> Row:
    """Return the row of a table that the page shows."""
    wanted = EXAMPLES.get(name, {}).items()
    rows = tables[name]
    return next(row for row in rows if all(row[column] == value for column, value in wanted))


def _part(table: Table, tables: Tables) -> str:
    row = example_of(table.name, tables)
    told = {column.name: _told(column, row[column.name]) for column in table.columns}
    asks = table.asks if table.asks.endswith("?") else f"{table.asks}."
    lines = [
        "",
        f"## {table.name}",
        f"**{asks}**",
        "",
        f"![The table {table.name} of the example](pictures/{table.name}.svg)",
        "",
        *_wrapped(READ[table.name].format_map(told)),
        "",
        *_wrapped(f"*Unknown:* {UNKNOWN[table.name]}"),
        "",
        "| Column | The row | Unit and meaning |",
        "|---|---|---|",
        *(
            f"| {column.name} | {_cell(column, row[column.name])} | {column.unit} |"
            for column in table.columns
        ),
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return wrap(text, LINE, break_long_words=False, break_on_hyphens=False)


def _told(column: Column, value: Any) -> str:
    """Return a value as a sentence has it."""
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if column.unit.startswith("ms since 1970"):
        return clock(value)
    if column.name.endswith("_ms"):
        return span(round(value))
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return grouped(value) if column.kind == "long" else str(value)


def _cell(column: Column, value: Any) -> str:
    """Return a value as the table has it, with the time of day behind a time."""
    if isinstance(value, list):
        shown = json.dumps(value[:EVIDENCE_SHOWN] if column.kind == "array<evidence>" else value)
        return f"`{shown}`" + (f" and {len(value) - 1} more" if "{" in shown else "")
    if isinstance(value, float):
        value = round(value, 6)
    shown = json.dumps(value) if not isinstance(value, str) else value
    if value is not None and column.unit.startswith("ms since 1970"):
        return f"{shown} ({clock(value)})"
    return shown
