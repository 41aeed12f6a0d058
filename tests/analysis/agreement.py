"""Compares a table that Spark made of drawn histories with that of plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from strandline_analysis.catalogue import Table
from tests.analysis.generated import START_MS, History, drawn, frame, together
from tests.analysis.reference.holding import Range
from tests.analysis.timeline import INTERVAL_MS

Row = dict[str, Any]
LENGTH_MS = 60_000
HISTORIES = 80
"""Drawn histories in one Spark run: a run costs seconds, however many there are."""
FLOAT_DIGITS = 6


def over(length: int = LENGTH_MS) -> Range:
    """Return the range of a history of this length."""
    return Range(start_ms=START_MS, end_ms=START_MS + length, interval_ms=INTERVAL_MS)


def histories(seed: int, *, length: int = LENGTH_MS, busy: float = 1.0) -> list[History]:
    """Return as many histories as one Spark run takes."""
    return [drawn(seed + each, length=length, busy=busy) for each in range(HISTORIES)]


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
    from strandline_analysis.schema import struct

    ranged = {"start_ms": of.start_ms, "end_ms": of.end_ms}
    samples = frame(spark, together(given), gap_ms=gap_ms, **ranged)
    found = analysis(samples, interval_ms=of.interval_ms, **ranged)
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
