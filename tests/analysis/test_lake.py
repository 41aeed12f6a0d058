"""The lake gives the samples and the tables of Prometheus, and landing twice changes nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strandline_analysis.lake_slices import Lake, LakeRefused, founded, opened
from strandline_analysis.stopwatch import Stopwatch
from tests.analysis.openmetrics import Labelled, labelled, openmetrics
from tests.analysis.timeline import INTERVAL_MS, PartitionTimeline, scraped
from tests.support.commands import run
from tests.support.prometheus_program import PrometheusProgram

pytestmark = pytest.mark.processes

SLICE_MS = 60_000
LENGTH_MS = 150_000
START_MS = PartitionTimeline().start_ms
END_MS = START_MS + LENGTH_MS
INGEST_LIMIT_SECONDS = 300
"""Bound of the command, most of which is Spark's start."""
SLICES = [START_MS - START_MS % SLICE_MS + SLICE_MS * number for number in range(3)]
UNTIL_MS = SLICES[-1] + SLICE_MS
"""The end of the third slice; START_MS lies in the first."""


def made() -> list[Labelled]:
    """Return two partitions with changes of ISR and leader, and the scrapes of their brokers."""
    found: list[Labelled] = []
    for partition in range(2):
        history = PartitionTimeline(partition=partition)
        history.change_isr(10_450, {0, 1})
        history.change_isr(65_100, {0, 1, 2})
        history.elect(100_800, 1, {0, 1, 2})
        series = scraped(history, length=LENGTH_MS)
        found += [labelled(each, start_ms=START_MS, end_ms=END_MS) for each in series]
    for broker in range(3):
        labels = {"__name__": "up", "pod": f"default-{broker}"}
        found.append((labels, [(START_MS + at, 1.0) for at in range(0, LENGTH_MS, INTERVAL_MS)]))
    return found


@pytest.fixture(scope="module")
def url(prometheus_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = PrometheusProgram(prometheus_programs, tmp_path_factory.mktemp("prometheus"))
    program.load(openmetrics(made()))
    program.start()
    yield program.url
    program.stop()


def landed(spark: Any, folder: Path, url: str, *, end_ms: int = UNTIL_MS) -> tuple[Lake, int]:
    """Land what is missing until a time; return the lake and the number of new slices."""
    from strandline_analysis.job import READ_METRICS
    from strandline_analysis.lake import ingest

    lake = founded(folder, metrics=READ_METRICS, start_ms=START_MS, slice_ms=SLICE_MS)
    grown = ingest(spark, lake, {"url": url}, end_ms=end_ms)
    assert grown == opened(folder)
    return grown, (grown.end_ms - lake.end_ms) // SLICE_MS


@pytest.fixture(scope="module")
def lake(spark: Any, url: str, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake that the command has landed; tests leave it as it is."""
    # Spark's fixture sets the paths of a process of its own.
    assert spark is not None
    folder = tmp_path_factory.mktemp("lake")
    command = [sys.executable, "-m", "strandline_analysis.ingest", "--prometheus", url]
    ranged = ["--start", str(START_MS), "--end", str(UNTIL_MS), "--slice-ms", str(SLICE_MS)]
    printed = run([*command, "--lake", str(folder), *ranged], limit_seconds=INGEST_LIMIT_SECONDS)
    assert printed == f"{folder}: 3 slices of {SLICE_MS} ms landed\n"
    found = opened(folder)
    assert (found.start_ms, found.end_ms) == (SLICES[0], UNTIL_MS)
    return found


def samples(spark: Any, lake: Lake, *, start_ms: int = START_MS, end_ms: int = END_MS) -> Any:
    from strandline_analysis.lake import read_lake

    return read_lake(spark, lake, metrics=lake.metrics, start_ms=start_ms, end_ms=end_ms)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    found = frame.toArrow().to_pylist()
    plain = [{**row, "labels": sorted(dict(row["labels"]).items())} for row in found]
    return sorted((tuple(row.values()) for row in plain), key=repr)


def read(spark: Any, url: str, lake: Lake, *, start_ms: int, end_ms: int) -> Any:
    """Return the samples as Prometheus shows them."""
    given = {"url": url, "metrics": ",".join(lake.metrics)}
    source = spark.read.format("prometheus").options(**given)
    return source.options(start_ms=start_ms, end_ms=end_ms).load()


@pytest.mark.parametrize(
    ("start_ms", "end_ms"), [(START_MS, END_MS), (START_MS + 1000, SLICES[1] + 7)]
)
def test_the_lake_gives_the_samples_of_prometheus(
    spark: Any, url: str, lake: Lake, start_ms: int, end_ms: int
) -> None:
    ranged = {"start_ms": start_ms, "end_ms": end_ms}
    found = samples(spark, lake, **ranged)
    shown = read(spark, url, lake, **ranged)
    assert found.schema.fieldNames() == shown.schema.fieldNames()
    assert rows(found) == rows(shown) != []


def test_the_lake_gives_the_tables_of_prometheus(
    spark: Any, url: str, lake: Lake, tmp_path: Path
) -> None:
    import pyarrow.parquet

    from strandline_analysis.job import REPORTED, analyse
    from strandline_analysis.outcome import OK
    from strandline_analysis.task import Task

    task = Task(
        start_ms=START_MS, end_ms=END_MS, out=tmp_path / "lake", lake=lake, coverage_min=0.0
    )
    direct = replace(task, out=tmp_path / "direct", lake=None, prometheus=url)
    assert [analyse(spark, each, Stopwatch()) for each in (task, direct)] == [OK, OK]
    tables = [
        {
            name: pyarrow.parquet.read_table(each.out / f"{name}.parquet").to_pylist()
            for name in REPORTED
        }
        for each in (task, direct)
    ]
    assert tables[0] == tables[1]
    assert all(tables[0][name] for name in ("isr_intervals", "elections"))


def test_an_ingest_goes_on_where_the_last_one_ended(
    spark: Any, url: str, lake: Lake, tmp_path: Path
) -> None:
    # A slice that has not ended is not landed.
    ends = (SLICES[1] - 1, SLICES[1], UNTIL_MS - 1, UNTIL_MS, UNTIL_MS)
    counts = [landed(spark, tmp_path, url, end_ms=end)[1] for end in ends]
    assert counts == [0, 1, 1, 1, 0]
    (found, _) = landed(spark, tmp_path, url)
    assert rows(samples(spark, found)) == rows(samples(spark, lake))


def test_an_ingest_forgets_what_is_old_and_goes_on(
    spark: Any, url: str, lake: Lake, tmp_path: Path
) -> None:
    found, _ = landed(spark, tmp_path, url, end_ms=SLICES[1])
    found, _ = landed(spark, tmp_path, url, end_ms=SLICES[2])
    assert found.trimmed(SLICE_MS).start_ms == SLICES[1]
    found, count = landed(spark, tmp_path, url)
    assert (found.start_ms, count) == (SLICES[1], 1)
    with pytest.raises(LakeRefused, match="lacks a part"):
        samples(spark, found, start_ms=SLICES[1] - 1, end_ms=UNTIL_MS)
    kept = {"start_ms": SLICES[1], "end_ms": UNTIL_MS}
    assert rows(samples(spark, found, **kept)) == rows(samples(spark, lake, **kept)) != []


def test_a_slice_that_is_landed_again_changes_nothing(
    spark: Any, url: str, lake: Lake, tmp_path: Path
) -> None:
    found, _ = landed(spark, tmp_path, url)
    files = {path: path.stat().st_mtime_ns for path in found.samples.rglob("*.parquet")}

    def lose_last_commit() -> None:
        for path in found.checkpoint.glob("commits/*2*"):
            path.unlink()

    # Spark has not noted the last slice, or nothing at all.
    for lose in (lose_last_commit, lambda: shutil.rmtree(found.checkpoint)):
        lose()
        assert landed(spark, tmp_path, url)[1] == 0
        now = {path: path.stat().st_mtime_ns for path in found.samples.rglob("*.parquet")}
        assert now == files

    # The ingest was interrupted after the last slice was written: it is written in its own place.
    replace(found, end_ms=SLICES[2]).write()
    with pytest.raises(LakeRefused, match="lacks a part"):
        samples(spark, opened(tmp_path))
    lose_last_commit()
    assert landed(spark, tmp_path, url)[1] == 1
    assert rows(samples(spark, found)) == rows(samples(spark, lake))


def test_the_commands_name_what_they_refuse(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from strandline_analysis import ingest, job

    def refused(main: Any, *arguments: str) -> str:
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        return capsys.readouterr().err

    into = ("--lake", str(tmp_path / "new"), "--prometheus", "http://127.0.0.1:9")
    assert "option slice_ms is '1'; it accepts" in refused(ingest.main, *into, "--slice-ms", "1")
    assert not (tmp_path / "new").exists()
    there = ("--lake", str(lake.folder), "--prometheus", "http://127.0.0.1:9")
    assert "need a folder of their own" in refused(ingest.main, *there)
    out = ("--out", str(tmp_path), "--start", str(START_MS), "--end", str(UNTIL_MS + 1))
    assert "lacks a part" in refused(job.main, "--lake", str(lake.folder), *out)
    assert "is no lake" in refused(job.main, "--lake", str(tmp_path), *out)
