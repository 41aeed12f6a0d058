"""Tables are planned for as many rows as they are made of, however few scrapes there were."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, get_ident
from typing import Any

import pytest

from bench.histories.plan import FaultKind, Plan, planned
from strandline_analysis.catalogue import TABLES
from strandline_analysis.lake_slices import opened
from strandline_analysis.stopwatch import Stopwatch
from strandline_analysis.task import UP, Task

pytestmark = pytest.mark.processes

SETTING = "spark.sql.shuffle.partitions"
OF_MANY = "3"
INTERVAL_MS = 5_000
LENGTH_MS = 600_000
LIMIT_SECONDS = 60
SCRAPES_MAX = 600
"""More than there are of all targets, and less than the runs of the brokers' series."""


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """Provide the session with a setting for many rows."""
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, OF_MANY)
    yield spark
    spark.conf.set(SETTING, before)


@pytest.fixture(scope="module")
def task(packages: str, tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Return a task over a lake of ten minutes."""
    from bench.histories.written import write

    assert packages
    plan = planned(
        Plan(cluster="blue", seed=3, length_ms=LENGTH_MS, topics=3, partitions=4),
        [FaultKind.KILL],
    )
    folder = tmp_path_factory.mktemp("few")
    write([plan], folder, interval_ms=INTERVAL_MS, slice_ms=LENGTH_MS, text=False)
    lake = opened(folder / "lake")
    return Task(start_ms=plan.start_ms, end_ms=plan.end_ms, out=folder / "out", lake=lake)


def settings_of_tables(session: Any, task: Task, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run the job with tables that tell how they are planned; return the setting of each."""
    from strandline_analysis import job
    from strandline_analysis.outcome import NO_DATA
    from strandline_analysis.schema import struct
    from strandline_analysis.tables import ANALYSES, Analysis

    found = {}

    def spied(name: str) -> Analysis:
        def make(samples: Any, **_: Any) -> Any:
            found[name] = samples.sparkSession.conf.get(SETTING)
            return samples.sparkSession.createDataFrame([], struct(TABLES[name]))

        given = ANALYSES[name]
        return Analysis(make=make, metrics=given.metrics, plain=given.plain)

    monkeypatch.setattr(job, "ANALYSES", {name: spied(name) for name in job.REPORTED})
    assert job.analyse(session, task, Stopwatch()) == NO_DATA
    assert session.conf.get(SETTING) == OF_MANY
    return found


def let_few_be_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the samples of the task be too many to be read at once."""
    from strandline_analysis import few_rows, job, task_samples

    for module in (few_rows, job, task_samples):
        monkeypatch.setattr(module, "FEW_ROWS", SCRAPES_MAX)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return the metrics of each time that a task's samples are read."""
    from strandline_analysis import task_samples

    found: list[tuple[str, ...]] = []
    reader = task_samples._reader

    def noted(*given: Any) -> Any:
        read = reader(*given)

        def samples_of(*metrics: str, **ranged: Any) -> Any:
            found.append(metrics)
            return read(*metrics, **ranged)

        return samples_of

    monkeypatch.setattr(task_samples, "_reader", noted)
    return found


def test_rows_are_counted_not_scrapes_and_few_are_read_at_once(
    session: Any, task: Task, reads: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(settings_of_tables(session, task, monkeypatch).values()) == {"1"}
    assert len(reads) == 1
    let_few_be_many(monkeypatch)
    assert set(settings_of_tables(session, task, monkeypatch).values()) == {OF_MANY}
    assert (UP,) in reads


@pytest.mark.long
def test_few_and_many_samples_make_the_same_tables(
    session: Any, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strandline_analysis import job

    def tables() -> dict[str, bytes]:
        assert job.analyse(session, task, Stopwatch()) == 0
        return {each.name: each.read_bytes() for each in task.out.glob("*.csv")}

    few = tables()
    assert len(few["incidents.csv"].splitlines()) > 1
    let_few_be_many(monkeypatch)
    assert tables() == few


def test_many_rows_are_parted_so_that_a_task_can_sort_its_own(session: Any) -> None:
    from strandline_analysis import few_rows

    for rows, parts in ((few_rows.FEW_ROWS + 1, OF_MANY), (7 * few_rows.ROWS_OF_A_PARTITION, "7")):
        with few_rows.plans_for(session, rows):
            assert session.conf.get(SETTING) == parts
        assert session.conf.get(SETTING) == OF_MANY


def test_works_of_few_rows_are_done_side_by_side_and_others_in_order(spark: Any) -> None:
    from strandline_analysis import few_rows

    together = Barrier(few_rows.THREADS, timeout=LIMIT_SECONDS)

    def at_once() -> int:
        return together.wait()

    with few_rows.plans_for(spark, 1):
        places = few_rows.side_by_side(spark, *[at_once] * few_rows.THREADS)
    assert sorted(places) == list(range(few_rows.THREADS))
    with few_rows.plans_for(spark, few_rows.FEW_ROWS + 1):
        assert set(few_rows.side_by_side(spark, get_ident, get_ident)) == {get_ident()}
