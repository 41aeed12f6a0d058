"""Compares the tables that Spark makes of drawn histories with those of both oracles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import Any

import pytest

from strandline_analysis import catalogue
from strandline_analysis.catalogue import Table
from tests.analysis.duckdb_oracle import Oracle
from tests.analysis.generated import (
    START_MS,
    History,
    drawn,
    frame,
    shifted,
    together,
)
from tests.analysis.reference.holding import Range
from tests.analysis.timeline import INTERVAL_MS

Row = dict[str, Any]
LENGTH_MS = 60_000
HISTORIES = 40
"""Drawn histories in one Spark run: a run costs seconds, however many there are."""
BUSY = 4.0
"""So many times as much happens in them as in others: rows cost time, and events find faults."""
FLOAT_DIGITS = 6
DAY_MS = 86_400_000


class Given:
    """Drawn histories, each of one partition, around a midnight; what is made of them is kept."""

    def __init__(self, seeds: Iterable[int], *, length: int, busy: float) -> None:
        begin_ms = (START_MS // DAY_MS + 1) * DAY_MS - length // 2
        self.of = Range(start_ms=begin_ms, end_ms=begin_ms + length, interval_ms=INTERVAL_MS)
        self.histories = [
            shifted(drawn(seed, length=length, busy=busy), begin_ms - START_MS) for seed in seeds
        ]
        self.frames: dict[tuple[Any, ...], Any] = {}

    @cached_property
    def oracle(self) -> Oracle:
        return Oracle(self.histories, self.of)

    def rows(self, reference: Callable[..., Iterable[Row]], **settings: Any) -> list[Row]:
        """Return the rows that a reference tells of each history."""
        return [row for each in self.histories for row in reference(each, self.of, **settings)]

    def made(self, spark: Any, name: str, **settings: Any) -> list[Row]:
        """Return the rows that Spark makes of what the table needs, in order."""
        from strandline_analysis.tables import ANALYSES

        analysis = ANALYSES[name]
        gap_ms = 0 if analysis.plain else self.of.gap_ms
        ranged = {"start_ms": self.of.start_ms, "end_ms": self.of.end_ms}
        metrics = frozenset(metric.name for metric in analysis.metrics)
        key = (gap_ms, metrics)
        if key not in self.frames:
            whole = together(self.histories).items()
            needed = {labels: of for labels, of in whole if dict(labels)["__name__"] in metrics}
            self.frames = {key: frame(spark, needed, gap_ms=gap_ms, **ranged)}
        found = analysis.make(self.frames[key], interval_ms=INTERVAL_MS, **ranged, **settings)
        return rows_of(found, catalogue.TABLES[name])

    def spark_table(self, spark: Any, name: str, rows: list[Row]) -> Any:
        """Return rows of a table as the frame that tables made of it take."""
        from strandline_analysis.schema import struct

        return spark.createDataFrame(rows, struct(catalogue.TABLES[name]))


@cache
def given_of(
    seed: int, *, histories: int = HISTORIES, length: int = LENGTH_MS, busy: float = BUSY
) -> Given:
    """Return drawn histories, as many as one Spark run takes."""
    return Given(range(seed, seed + histories), length=length, busy=busy)


def over(length: int = LENGTH_MS) -> Range:
    """Return the range of a history of this length."""
    return Range(start_ms=START_MS, end_ms=START_MS + length, interval_ms=INTERVAL_MS)


def made(
    spark: Any,
    analysis: Callable[..., Any],
    table: Table,
    given: Iterable[History],
    *,
    of: Range,
    gap_ms: float = 2.5 * INTERVAL_MS,
) -> list[Row]:
    """Return the rows that an analysis makes of histories, in order."""
    ranged = {"start_ms": of.start_ms, "end_ms": of.end_ms}
    samples = frame(spark, together(given), gap_ms=gap_ms, **ranged)
    return rows_of(analysis(samples, interval_ms=of.interval_ms, **ranged), table)


def rows_of(found: Any, table: Table) -> list[Row]:
    """Return the rows of a table that Spark made, in order."""
    from strandline_analysis.schema import struct

    shape = struct(table)
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in shape]
    return in_order(found.toArrow().to_pylist())


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows sorted, with floats rounded, so that equal tables are equal lists."""
    rounded = [
        {
            name: round(value, FLOAT_DIGITS) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in rows
    ]
    return sorted(
        rounded, key=lambda row: [(value is not None, str(value)) for value in row.values()]
    )


def assert_same(found: list[Row], expected: Iterable[Row], *, without: Iterable[str] = ()) -> None:
    """Assert that two tables are equal but for some columns, and tell the first difference."""
    left, right = (
        in_order({k: v for k, v in row.items() if k not in set(without)} for row in rows)
        for rows in (found, expected)
    )
    if left == right:
        return
    missing = [row for row in right if row not in left]
    surplus = [row for row in left if row not in right]
    # Where columns come in another order, equal rows do, too.
    if missing or surplus or len(left) != len(right):
        differences = {"missing": missing[:3], "surplus": surplus[:3]}
        pytest.fail(f"{len(left)} rows, {len(right)} expected: {differences}")
