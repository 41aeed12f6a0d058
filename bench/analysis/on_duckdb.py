"""ISR intervals by DuckDB on Parquet: the SQL that is the oracle of the tests, in two forms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from .asked import COMPARED, CORES, GAP_MS, METRIC_NAMES, Asked, Found, Work
from .made import INTERVAL_MS, LAKE

HERE: Final = Path(__file__).resolve().parent
ORACLE: Final = HERE.parent.parent / "tests" / "analysis" / "duckdb_oracle"
ORDERED: Final = """SELECT *, \
lag(ts) OVER series AS before_ms, lag(stale) OVER series AS before_stale,
        lead(ts) OVER series AS after_ms, lead(stale) OVER series AS after_stale
    FROM samples WINDOW series AS (PARTITION BY series_id ORDER BY ts)"""
"""Where the oracle orders the samples."""
MEMORY: Final = "10GiB"
"""Beyond it DuckDB writes to disk; 1e7 samples take it 6 GiB, and 1e8 would take all there is."""
SCRAPES: Final = "FROM samples WHERE NOT stale AND topic"
"""Where the oracle takes what a scrape showed."""


def plain(asked: Asked) -> Work:
    """Ask the oracle as it is: each of its steps looks at every sample."""
    tables = (ORACLE / "tables.sql").read_text()
    return lambda: _intervals(asked, [tables])


def changes(asked: Asked) -> Work:
    """Ask it behind a step that keeps the scrapes at which something changes.

    Raises:  ValueError if the oracle no longer reads samples in the two places that are replaced
    """
    tables = (ORACLE / "tables.sql").read_text()
    for before, after in (
        (ORDERED, "SELECT * FROM kept"),
        (SCRAPES, SCRAPES.replace("samples", "kept")),
    ):
        if tables.count(before) != 1:
            raise ValueError(f"the oracle has not once: {before}")
        tables = tables.replace(before, after)
    return lambda: _intervals(asked, [(HERE / "changes.sql").read_text(), tables])


def _intervals(asked: Asked, scripts: Sequence[str]) -> Found:
    macros = {
        "start_ms": asked.start_ms,
        "end_ms": asked.end_ms,
        "interval_ms": INTERVAL_MS,
        "gap_ms": GAP_MS,
        "merge_gap_ms": 0,
        "target": 0,
    }
    files = asked.folder / LAKE / "samples" / "*" / "*" / "*.parquet"
    spill = str(asked.scratch)
    with duckdb.connect(
        config={"threads": CORES, "memory_limit": MEMORY, "temp_directory": spill}
    ) as database:
        for name, value in macros.items():
            database.execute(f"CREATE MACRO {name}() AS {value}")
        stored = database.read_parquet(str(files), hive_partitioning=True)
        wanted = ", ".join(f"'{name}'" for name in METRIC_NAMES)
        within = "first_ms >= start_ms() AND first_ms < end_ms()"
        named = stored.filter(f"metric IN ({wanted}) AND {within}")
        named.project("* RENAME (first_ms AS ts)").create_view("samples")
        for script in (*scripts, _answer()):
            database.execute(script)
        return database.table("isr_intervals").project(", ".join(COMPARED)).fetchall(), 0


def _answer() -> str:
    """Return the oracle's view of the table; those beside it stand on metrics that are not read."""
    begin, answers = "CREATE VIEW isr_intervals", (ORACLE / "answers.sql").read_text()
    return answers[answers.index(begin) :].partition(";")[0]
