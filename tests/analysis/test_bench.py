"""The bench of the analysis asks DuckDB with the oracle's own SQL, in both of its forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.analysis import on_duckdb
from bench.analysis.asked import COMPARED, METRIC_NAMES, Asked, Work
from bench.analysis.made import LAKE, copy_topics

START_MS = 1_790_000_000_000
INTERVAL_MS = 5_000
SCRAPES = 12
COPIES = 3
LEFT_AT = 6
"""Scrape from which the follower is out of the ISR."""


def write_lake(folder: Path) -> None:
    """Write a minute of one leader, whose follower leaves the ISR half-way."""
    values = {
        METRIC_NAMES[0]: f"CASE WHEN n < {LEFT_AT} THEN 1 ELSE 0 END",
        METRIC_NAMES[1]: "4",
        METRIC_NAMES[2]: f"CASE WHEN n < {LEFT_AT} THEN 7 ELSE 8 END",
        METRIC_NAMES[3]: f"({START_MS} + {LEFT_AT - 1} * 5000 + 2000) / 1000",
        METRIC_NAMES[4]: f"{START_MS} / 1000 - 60",
    }
    for number, (metric, value) in enumerate(values.items()):
        path = folder / LAKE / "samples" / f"metric={metric}" / "slice_ms=0"
        path.mkdir(parents=True)
        replica = 1 if metric == METRIC_NAMES[0] else "NULL"
        rows = duckdb.sql(f"""
            SELECT {number}::BIGINT AS series_id, 'blue-0' AS pod, 'blue-0:8080' AS instance,
                'orders' AS topic, 0::INTEGER AS partition, {replica}::INTEGER AS replica,
                MAP {{}}::MAP(VARCHAR, VARCHAR) AS labels,
                ({START_MS} + n * {INTERVAL_MS})::BIGINT AS first_ms, first_ms AS last_ms,
                1::BIGINT AS sample_count, ({value})::DOUBLE AS value, false AS stale
            FROM range({SCRAPES}) AS scrapes(n)""")
        assert rows is not None
        rows.write_parquet(str(path / "part-0.parquet"))


@pytest.mark.parametrize("form", [on_duckdb.plain, on_duckdb.changes])
def test_both_forms_find_when_a_follower_left(
    form: Callable[[Asked], Work], tmp_path: Path
) -> None:
    write_lake(tmp_path)
    end_ms = START_MS + SCRAPES * INTERVAL_MS
    rows, through_python = form(
        Asked(folder=tmp_path, start_ms=START_MS, end_ms=end_ms, scratch=tmp_path)
    )()
    assert through_python == 0
    assert not isinstance(rows, int)
    found = [dict(zip(COMPARED, row, strict=True)) for row in rows]
    told = sorted((row["start_ms"], row["end_ms"], row["in_isr"]) for row in found)
    left_ms = START_MS + (LEFT_AT - 1) * INTERVAL_MS + 2_000
    assert told == [(START_MS, left_ms, True), (left_ms, end_ms, False)]


@pytest.mark.processes
def test_copied_topics_have_the_same_samples_under_other_names_and_numbers(
    packages: str, tmp_path: Path
) -> None:
    assert packages
    write_lake(tmp_path)
    files = sorted((tmp_path / LAKE / "samples").glob("*/*/*.parquet"))
    for path in files:
        copy_topics(path, 1)
    assert sorted((tmp_path / LAKE / "samples").glob("*/*/*.parquet")) == files
    for path in files:
        copy_topics(path, COPIES)
    end_ms = START_MS + SCRAPES * INTERVAL_MS
    rows, _ = on_duckdb.changes(
        Asked(folder=tmp_path, start_ms=START_MS, end_ms=end_ms, scratch=tmp_path)
    )()
    assert not isinstance(rows, int)
    told: dict[str, list[tuple[Any, ...]]] = {}
    for topic, *others in rows:
        told.setdefault(topic, []).append(tuple(others))
    assert {*told} == {"orders", "orders-copy1", "orders-copy2"}
    assert all(sorted(each, key=repr) == sorted(told["orders"], key=repr) for each in told.values())
    ids = duckdb.sql(f"SELECT count(DISTINCT series_id) FROM '{files[0].parent}/*.parquet'")
    assert ids is not None
    assert ids.fetchall() == [(COPIES,)]
