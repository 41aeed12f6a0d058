"""What tables go on from is computed once, and many rows of it stay out of the driver."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.processes

ROWS = 50
MANY_OF = 40
"""More than so many rows are many in these tests."""


@pytest.fixture
def of_driver(spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let few rows be many, and return the numbers of rows that pass through the driver."""
    from strandline_analysis import samples

    found: list[int] = []
    passed = samples._passed

    def noted(rows: Any) -> Any:
        found.append(rows.count())
        return passed(rows)

    monkeypatch.setattr(samples, "SMALL_ROWS", MANY_OF)
    monkeypatch.setattr(samples, "_passed", noted)
    assert spark is not None
    return found


def drawn(spark: Any) -> Any:
    """Return rows that differ each time they are computed."""
    return spark.range(ROWS).selectExpr("id", "uuid() AS drawn", "array(id, NULL) AS listed")


def told(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame in order."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(rows, key=lambda row: int(row["id"]))


def test_many_rows_are_computed_once_and_stay_where_they_are(
    spark: Any, of_driver: list[int]
) -> None:
    from strandline_analysis.samples import settled

    plan = drawn(spark).repartition(3, "id")
    made = settled(plan)
    assert made.schema == plan.schema
    assert told(made) == told(made)
    assert [row["id"] for row in told(made)] == [*range(ROWS)]
    assert of_driver == []
    # Else each table's plan would hold the plans of all before it.
    assert "Range" not in made._jdf.queryExecution().analyzed().toString()


def test_few_rows_pass_through_the_driver_into_one_place(spark: Any, of_driver: list[int]) -> None:
    from strandline_analysis.samples import settled

    plan = drawn(spark).where(f"id < {MANY_OF}")
    made = settled(plan)
    assert made.schema == plan.schema
    assert told(made) == told(made)
    assert [row["id"] for row in told(made)] == [*range(MANY_OF)]
    assert of_driver == [MANY_OF]


def test_many_and_few_give_the_same_intervals(spark: Any, of_driver: list[int]) -> None:
    from strandline_analysis import few_rows
    from strandline_analysis.samples import settled

    plan = spark.range(ROWS).selectExpr("id", "id % 7 AS of", "string(id) AS name")
    with few_rows.plans_for(spark, 0):
        few = told(settled(plan))
    assert of_driver == [ROWS]
    assert told(settled(plan)) == few
    assert of_driver == [ROWS]
