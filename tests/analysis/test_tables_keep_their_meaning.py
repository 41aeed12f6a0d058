"""What may happen to samples without changing what tables say of them, for every table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from strandline_analysis import catalogue
from tests.analysis.agreement import LENGTH_MS, Row, in_order, over
from tests.analysis.generated import START_MS, History, drawn, frame, shifted, together
from tests.analysis.reference import incidents as incidents_reference
from tests.analysis.reference.holding import Range
from tests.analysis.reference.slo import slo
from tests.analysis.timeline import INTERVAL_MS

pytestmark = pytest.mark.long

SEEDS = range(900, 908)
END_MS = START_MS + 7 * 24 * 3_600_000
"""Begin of the range of later samples: whole days, so that minutes, windows and days stay whole."""
OTHER_NAMES = {0: 2, 1: 0, 2: 1}
GAP_MS = 2.5 * INTERVAL_MS
BROKER_COLUMNS = {
    *("replica", "broker", "leader", "old_leader", "new_leader", "newer_leader", "culprit"),
    *("old_controller", "new_controller", "root_broker"),
}
LOST_SHARE = 0.01


@pytest.fixture(autouse=True)
def small(planned_small: None) -> None:
    """Plan every query for few rows."""


@pytest.fixture(scope="module")
def history() -> History:
    return together(drawn(seed, length=LENGTH_MS) for seed in SEEDS)


def tables() -> list[str]:
    """Return the names of the tables that are made."""
    return [name for name in catalogue.TABLES if name not in NOT_MADE]


NOT_MADE = {"incidents", "incident_curves", "slo"}
"""Tables of many tables: Spark takes so long for them that they are made once, not twice."""
INCIDENT_SEEDS = (68, 69)
INCIDENTS_MS = 5 * LENGTH_MS
TARGET = 0.999


class Made:
    """The table of one analysis over the samples as they are, and over others."""

    def __init__(
        self, spark: Any, name: str, history: History, *, rows: list[Row] | None = None
    ) -> None:
        from strandline_analysis.tables import ANALYSES

        self.spark, self.table, self.history = spark, catalogue.TABLES[name], history
        self.analysis = ANALYSES[name]
        self.gap_ms = 0 if self.analysis.plain else GAP_MS
        self.rows = self.of(history) if rows is None else rows

    def of(
        self,
        history: History,
        *,
        read: Range | None = None,
        change: Callable[[Any], Any] = lambda samples: samples,
        gap_ms: float | None = None,
        **made_of: Any,
    ) -> list[Row]:
        """Return the rows that other samples give, and tables that it is made of."""
        read = read or over()
        ranged = {"start_ms": read.start_ms, "end_ms": read.end_ms}
        gap_ms = self.gap_ms if gap_ms is None else gap_ms
        samples = change(frame(self.spark, history, gap_ms=gap_ms, **ranged))
        found = self.analysis.make(samples, interval_ms=read.interval_ms, **ranged, **made_of)
        return in_order(found.toArrow().to_pylist())


@pytest.fixture(params=tables())
def table(request: pytest.FixtureRequest, spark: Any, history: History) -> Made:
    return Made(spark, request.param, history)


def test_a_table_keeps_its_meaning(table: Made) -> None:
    assert table.rows or table.table.name in EMPTY
    other, later = changed(table.history, LENGTH_MS)
    found = table.of(other, read=later, change=twice, gap_ms=0)
    expected = in_order(map(changed_row, table.rows))
    assert _about(map(_sorted, found)) == _about(expected)
    if "sample_count" in table.table.names and not table.analysis.plain:
        # Runs tell how many samples they had, which parts of them know only about.
        whole = table.of(other, read=later, change=twice)
        assert in_order(map(_sorted, whole)) == expected


def test_slo_keeps_its_meaning(spark: Any, history: History) -> None:
    drawn_ones = [drawn(seed, length=LENGTH_MS) for seed in SEEDS]
    rows = [row for each in drawn_ones for row in slo(each, over(), target=TARGET)]
    other, later = changed(history, LENGTH_MS)
    found = Made(spark, "slo", history, rows=rows).of(
        other, read=later, change=twice, target=TARGET
    )
    assert found == in_order(map(changed_row, rows))


def test_incidents_and_their_curves_keep_their_meaning(spark: Any) -> None:
    # Of two brokers that are equally to blame since the same moment the one with the smaller id is
    # named, and of more than fifty pieces of evidence those of smaller ids: no such case is here.
    drawn_ones = [drawn(seed, length=INCIDENTS_MS, busy=0.1) for seed in INCIDENT_SEEDS]
    history, of = together(drawn_ones), over(INCIDENTS_MS)
    rows = list(incidents_reference.incidents(drawn_ones, of))
    assert len(rows) > 2
    assert max(len(row["evidence"]) for row in rows) < 50
    other, later = changed(history, INCIDENTS_MS)
    found = Made(spark, "incidents", history, rows=rows).of(other, read=later, change=twice)
    expected = in_order(map(changed_row, rows))
    assert in_order(map(_sorted, found)) == expected
    table = spark.createDataFrame(found, struct_of("incidents"))
    curves = list(incidents_reference.incident_curves(drawn_ones, of, rows))
    shown = Made(spark, "incident_curves", history, rows=curves).of(
        other, read=later, change=twice, incidents=table
    )
    assert shown
    assert shown == in_order(map(changed_row, curves))


def changed(history: History, length: int) -> tuple[History, Range]:
    """Return the samples later and with other names, and the range that they are in."""
    later = Range(start_ms=END_MS, end_ms=END_MS + length, interval_ms=INTERVAL_MS)
    return relabel(shifted(history, END_MS - START_MS)), later


def twice(samples: Any) -> Any:
    """Return samples in any order and twice: a run of Spark costs seconds, and has all of it."""
    return samples.unionByName(samples).orderBy("value")


def changed_row(row: Row) -> Row:
    """Return a row as `changed` samples give it."""
    return relabel_row(moved(row, END_MS - START_MS))


def struct_of(name: str) -> Any:
    """Return the schema of a table."""
    from strandline_analysis.schema import struct

    return struct(catalogue.TABLES[name])


@pytest.mark.parametrize("name", ["isr_intervals", "ur_episodes", "hw_lag", "coverage"])
def test_one_lost_sample_in_a_hundred_changes_little(
    spark: Any, history: History, name: str
) -> None:
    table = Made(spark, name, history)
    fewer = table.of(thinned(history))
    assert abs(total(fewer) - total(table.rows)) <= 0.1 * total(table.rows)


EMPTY = {"flapping", "controller_elections", "hw_stalls"}
"""Tables of which the drawn histories have no row; cases made by hand have."""


def _about(rows: Iterable[Row]) -> list[Row]:
    return in_order({k: v for k, v in row.items() if k != "sample_count"} for row in rows)


def moved(row: Row, by: int) -> Row:
    """Return a row as it is at another time."""
    found = {
        name: value + by if value is not None and UNITS[name].startswith("ms since 1970") else value
        for name, value in row.items()
    }
    for name in ID_COLUMNS & row.keys():
        start, kind, root = row[name].split("-")
        found[name] = f"{int(start) + by}-{kind}-{root}"
    if "evidence" in row:
        found["evidence"] = [moved(proof, by) for proof in row["evidence"]]
    return found


ID_COLUMNS = {"id", "incident"}
UNITS = {
    column.name: column.unit
    for columns in (*(t.columns for t in catalogue.TABLES.values()), *catalogue.RECORDS.values())
    for column in columns
}


def _sorted(row: Row) -> Row:
    return {k: sorted(v, key=str) if isinstance(v, list) else v for k, v in row.items()}


def relabel(history: History) -> History:
    """Give every broker another id."""
    return {
        tuple(sorted((key, _other(key, value)) for key, value in labels)): samples
        for labels, samples in history.items()
    }


def _other(key: str, value: str) -> str:
    if key == "replica":
        return str(OTHER_NAMES[int(value)])
    if key == "pod":
        stem, ordinal = value.rsplit("-", 1)
        return f"{stem}-{OTHER_NAMES[int(ordinal)]}"
    return value


def relabel_row(row: Row) -> Row:
    """Return a row as it is when brokers have other ids."""
    found = dict(row)
    for name, value in row.items():
        if name in BROKER_COLUMNS and value is not None:
            found[name] = OTHER_NAMES[value]
        elif name == "pod":
            found[name] = _other("pod", value)
        elif name == "missing_replicas":
            # Equal absences are listed by id, which has changed.
            found[name] = sorted(OTHER_NAMES[each] for each in value)
        elif name == "evidence":
            found[name] = sorted(map(relabel_row, value), key=str)
        elif name in ID_COLUMNS:
            start, kind, root = value.split("-")
            root = root if root == "none" else OTHER_NAMES[int(root)]
            found[name] = f"{start}-{kind}-{root}"
    return found


def thinned(history: History) -> History:
    """Return the samples without one in a hundred, drawn."""
    chance = random.Random(7)
    return {
        labels: [each for each in samples if each[1] is None or chance.random() > LOST_SHARE]
        for labels, samples in history.items()
    }


def total(rows: list[Row]) -> int:
    """Return the time or the samples that a table tells of."""
    return sum(row.get("sample_count") or row["end_ms"] - row["start_ms"] for row in rows)
