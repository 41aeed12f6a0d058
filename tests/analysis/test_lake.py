"""Lake and blocks give the samples and tables of Prometheus; landing twice changes nothing."""

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
from strandline_analysis.tsdb_snapshot import snapshot_in
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
OVERLAP = (START_MS + 60_000, START_MS + 90_000)
"""Two blocks hold the samples between these times."""
DELETED = (START_MS + 70_000, START_MS + 100_000)
"""Some samples between these times were deleted."""


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
def program(
    prometheus_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusProgram]:
    """Provide a Prometheus with two blocks that overlap, and tombstones in both."""
    found = PrometheusProgram(prometheus_programs, tmp_path_factory.mktemp("prometheus"))
    series = made()
    for begin, end in ((START_MS, OVERLAP[1]), (OVERLAP[0], END_MS)):
        part = [(names, [s for s in each if begin <= s[0] < end]) for names, each in series]
        found.load(openmetrics(part))
    found.start()
    found.delete('{pod="default-2",partition="1"}', start_ms=DELETED[0], end_ms=DELETED[1])
    yield found
    found.stop()


@pytest.fixture(scope="module")
def blocks(program: PrometheusProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a snapshot with one of its blocks twice.

    Prometheus joins blocks that overlap after its first minute; those two overlap in any case.
    """
    folder = tmp_path_factory.mktemp("snapshot") / "blocks"
    shutil.copytree(program.snapshot(), folder)
    first = snapshot_in(folder).blocks[0].folder
    shutil.copytree(first, folder / f"{first.name[:-4]}0000")
    return folder


@pytest.fixture(scope="module")
def url(program: PrometheusProgram, blocks: Path) -> str:
    """Return the URL of the Prometheus, of which there is a snapshot."""
    assert blocks.exists()
    return program.url


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


def read(spark: Any, lake: Lake, *, start_ms: int, end_ms: int, **options: Any) -> Any:
    """Return the samples of the lake's metrics as the data source gives them."""
    source = spark.read.format("prometheus").options(metrics=",".join(lake.metrics))
    return source.options(start_ms=start_ms, end_ms=end_ms).options(**options).load()


@pytest.mark.parametrize(
    ("start_ms", "end_ms"), [(START_MS, END_MS), (START_MS + 1000, SLICES[1] + 7)]
)
def test_lake_and_blocks_give_the_samples_of_prometheus(
    spark: Any, url: str, lake: Lake, blocks: Path, start_ms: int, end_ms: int
) -> None:
    ranged = {"start_ms": start_ms, "end_ms": end_ms}
    found = samples(spark, lake, **ranged)
    shown = read(spark, lake, url=url, **ranged)
    stored = read(spark, lake, blocks=str(blocks), **ranged)
    assert found.schema.fieldNames() == shown.schema.fieldNames() == stored.schema.fieldNames()
    assert rows(found) == rows(shown) == rows(stored) != []


def test_a_lake_gives_the_runs_of_prometheus(spark: Any, url: str, lake: Lake) -> None:
    from strandline_analysis.lake import read_lake_runs

    metrics, ranged = lake.metrics, {"start_ms": START_MS + 1000, "end_ms": SLICES[2] + 7}
    gap_ms = 2.5 * INTERVAL_MS
    shown = read(spark, lake, url=url, **ranged, gap_ms=gap_ms, slice_ms=SLICE_MS)
    begin, end = ranged.values()
    found = read_lake_runs(spark, lake, metrics=metrics, start_ms=begin, end_ms=end, gap_ms=gap_ms)
    assert rows(found) == rows(shown)
    assert 0 < found.count() < samples(spark, lake, **ranged).count() / 4
    few = read_lake_runs(
        spark,
        lake,
        metrics=metrics[:1],
        start_ms=begin,
        end_ms=end,
        gap_ms=gap_ms,
        columns=["metric", "sample_count"],
    )
    assert few.schema.fieldNames() == ["metric", "sample_count"]


@pytest.mark.parametrize(
    "options",
    [
        {"gap_ms": 2.5 * INTERVAL_MS, "slice_ms": SLICE_MS, "shards": 2, "concurrent_reads": 3},
        {"reduction": "minutes"},
    ],
)
def test_blocks_give_the_rows_of_prometheus_however_they_are_read(
    spark: Any, url: str, lake: Lake, blocks: Path, options: dict[str, Any]
) -> None:
    ranged = {"start_ms": START_MS + 1000, "end_ms": END_MS}
    chosen = "pod in ('default-1', 'default-2') and (topic is null or partition = 1)"
    shown = read(spark, lake, url=url, **ranged, **options).where(chosen)
    stored = read(spark, lake, blocks=str(blocks), **ranged, **options).where(chosen)
    assert rows(stored) == rows(shown) != []


def test_blocks_that_cannot_be_read_are_told_in_a_session_too(
    spark: Any, blocks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from strandline_analysis.job import analyse
    from strandline_analysis.outcome import UNREADABLE
    from strandline_analysis.task import Task

    def load(**options: Any) -> Any:
        given = {"metrics": "up", "blocks": str(blocks), "start_ms": START_MS, "end_ms": END_MS}
        return spark.read.format("prometheus").options(**{**given, **options}).load()

    with pytest.raises(Exception, match=f"{blocks} holds nothing of .*; its blocks hold 2026"):
        load(start_ms=START_MS - 1000, end_ms=START_MS).collect()
    with pytest.raises(Exception, match="option url is 'http://p'; it accepts nothing beside"):
        load(url="http://p").collect()
    # A time at which there is no sample is no reason to refuse a query of the whole range.
    assert load().where(f"first_ms >= {END_MS}").collect() == []

    copy = tmp_path / "blocks"
    shutil.copytree(blocks, copy)
    for path in copy.glob("*/chunks/*"):
        data = bytearray(path.read_bytes())
        data[9:] = bytes(byte ^ 1 for byte in data[9:])
        path.write_bytes(data)
    snapshot = snapshot_in(copy)
    task = Task(start_ms=START_MS, end_ms=END_MS, out=tmp_path / "out", snapshot=snapshot)
    assert analyse(spark, task, Stopwatch()) == UNREADABLE
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(str(copy))
    assert "chunks/000001 is damaged: the checksum of a chunk at byte" in told


def test_lake_and_blocks_give_the_tables_of_prometheus(
    spark: Any, url: str, lake: Lake, blocks: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet

    from strandline_analysis.job import REPORTED, analyse
    from strandline_analysis.outcome import OK
    from strandline_analysis.task import Task

    task = Task(
        start_ms=START_MS, end_ms=END_MS, out=tmp_path / "lake", lake=lake, coverage_min=0.0
    )
    direct = replace(task, out=tmp_path / "direct", lake=None, prometheus=url)
    stored = replace(task, out=tmp_path / "stored", lake=None, snapshot=snapshot_in(blocks))
    tasks = (task, direct, stored)
    assert [analyse(spark, each, Stopwatch()) for each in tasks] == [OK, OK, OK]
    tables = [
        {
            name: pyarrow.parquet.read_table(each.out / f"{name}.parquet").to_pylist()
            for name in REPORTED
        }
        for each in tasks
    ]
    assert tables[0] == tables[1] == tables[2]
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
