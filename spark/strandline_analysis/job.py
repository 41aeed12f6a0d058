"""The job: read a range of time, analyse it, write and print the tables.

    python -m strandline_analysis.job --prometheus URL [--start T] [--end T] --out DIR

Samples come from Prometheus, a lake or blocks of Prometheus. Runs in one process (local mode).
The exit code is 0, 1 if Prometheus or a block cannot be read, 2 if there
are no two scrapes of one target, or no sample of a partition, in the range, or 3 if the samples
tell of less than --coverage-min of the partitions' time; with 3 all tables are written. Also 2 is
the code where samples of several clusters are there and --cluster names none.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.names import Metric

from . import config_map, read, run_summary
from .catalogue import TABLES
from .few_rows import FEW_ROWS, Size, gathered, plans_for, size_of, size_told
from .findings import (
    ClusterUnclear,
    ScrapedCluster,
    chosen_cluster,
    clusters_of,
    empty_window,
    findings,
)
from .html_report import page
from .html_report.words import Range
from .lake import read_lake, read_lake_runs
from .lake_slices import LakeRefused
from .observations import observations, of_cluster
from .outcome import NO_DATA, UNREADABLE, known_share, outcome
from .prometheus_http import ReadFailed
from .report import text_report
from .run_lengths import GAP_INTERVALS
from .samples import scrape_interval_ms
from .session import SHORT_MS, executors_session, local_session
from .stopwatch import Stopwatch
from .tables import ANALYSES, Analysis
from .task import PAGE_MARK, UP, SummaryPlace, Task, add_options, check_source, task_of
from .tsdb_files import BlockRefused

SUMMARY: Final = "summary.json"
REFUSALS: Final = "|".join(each.__name__ for each in (BlockRefused, LakeRefused, ReadFailed))
REFUSAL: Final = re.compile(rf"^[\w.]+\.(?:{REFUSALS}): (.+)$", re.MULTILINE)
"""The sentence of a task that could not read, in what Spark says of it."""
TABLE_MARK: Final = "table "
"""Start of a line of --print-tables; the table's name and its rows as JSON follow."""

PRINTED: Final = ("incidents", "isr_intervals", "elections")
"""Tables that the text shows."""
REPORTED: Final = (
    *PRINTED,
    *("incident_curves", "failover_quantiles", "slo", "lagtime_whatif"),
)
"""Tables that a report shows; the others are made when they are asked for."""
OF_SUMMARY: Final = ("data_at_risk",)
"""Tables that are made for a summary, too."""
STEPS_BESIDE_TABLES: Final = 7
"""Python, the source, Java, the scrape interval, the clusters, the report, and Spark's end."""
PROBED_INTERVALS: Final = 3
"""Scrape intervals in which every broker was scraped."""
CLUSTER: Final = "cluster"
"""Column that every file has first: the name of the cluster, empty if no label tells it."""
READ_METRICS: Final = frozenset(
    {UP, *(metric.name for analysis in ANALYSES.values() for metric in analysis.metrics)}
)
"""Names of all metrics that the job may read."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="strandline_analysis.job",
        description="Tell from scraped samples which brokers led and were in sync, and when.",
    )
    add_options(parser)
    try:
        return run(task_of(parser.parse_args(arguments)))
    except argparse.ArgumentError as error:
        parser.error(str(error))


def steps_of(task: Task) -> int:
    """Return how many steps a run of a task has that finds samples, with IMPORTED."""
    return len(_chosen(task)) + STEPS_BESIDE_TABLES + (task.summary is not None)


def run(task: Task, watch: Stopwatch | None = None) -> int:
    """Do what a task says and return the exit code; watch takes its steps."""
    watch = watch or Stopwatch()
    try:
        check_source(task)
    except (ReadFailed, BlockRefused) as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    watch.ended("a look at the source")
    with tempfile.TemporaryDirectory(prefix="strandline-analysis-") as folder:
        spark = session_of(task, folder=Path(folder))
        watch.ended("Java and Spark's session")
        try:
            return analyse(spark, task, watch)
        finally:
            spark.stop()
            watch.ended("Spark ends")
            sys.stderr.write(watch.text())


def session_of(task: Task, *, folder: Path) -> SparkSession:
    """Return the session in which a task's work is done; folder takes what memory does not."""
    range_ms = task.end_ms - task.start_ms
    if task.executors is None:
        return local_session(cores=task.cores, folder=folder, range_ms=range_ms)
    return executors_session(task.executors, folder=folder, range_ms=range_ms)


def analyse(spark: SparkSession, task: Task, watch: Stopwatch) -> int:
    """Run every analysis over the task's range; print the report and write the tables."""
    try:
        return _analysed(spark, task, watch)
    except PySparkException as error:
        # A task's own words are among many of Spark's; those of a wrong plan are not.
        refusals = REFUSAL.findall(str(error))
        if not refusals:
            raise
        sys.stderr.write(f"{refusals[-1]}\n")
        return UNREADABLE


def _analysed(spark: SparkSession, task: Task, watch: Stopwatch) -> int:
    samples_of = _reader(spark, task)
    # In a short range every query counts, and whatever has to be counted first is planned for few.
    is_short = task.end_ms - task.start_ms <= SHORT_MS
    up = samples_of(UP, gap_ms=0).cache()
    with plans_for(spark, 0 if is_short else size_of(up).samples):
        interval_ms = scrape_interval_ms(up)
    if interval_ms is None:
        return _told_empty(task)
    watch.ended("the scrape interval")
    chosen = _chosen(task)
    gap_ms = GAP_INTERVALS * interval_ms
    of_runs = (each.metrics for each in chosen.values() if not each.plain)
    # Read once for all tables of runs, which are few; single samples are many.
    runs = samples_of(*{metric.name for each in of_runs for metric in each}, gap_ms=gap_ms).cache()
    needed = {name: analysis.metrics for name, analysis in chosen.items()}
    with plans_for(spark, 0 if is_short else size_of(runs).runs):
        told = observations(runs.where(F.col("metric") != UP).unionByName(up))
        seen = told.toArrow().to_pylist()
        size = size_told(row for row in seen if row["metric"] != UP)
        seen += _probed(samples_of, task, seen, needed, interval_ms=interval_ms)
    clusters = clusters_of(seen)
    try:
        cluster = chosen_cluster(clusters, wanted=task.cluster, origin=task.origin)
    except ClusterUnclear as unclear:
        sys.stderr.write(f"{unclear}\n")
        return NO_DATA
    mine = _only(cluster, clusters)
    if len(clusters) > 1:
        # Targets of other clusters may be scraped more often.
        interval_ms = scrape_interval_ms(mine(up)) or interval_ms
    watch.ended("clusters and clocks")
    tables: dict[str, pa.Table] = {}
    samples_for = _samples_for(samples_of, mine, chosen, runs, size)
    for name, analysis in chosen.items():
        with plans_for(spark, size.samples if analysis.plain else size.runs):
            made = {each: spark.createDataFrame(tables[each]) for each in analysis.made_of}
            lag = {"lag_time_max_ms": task.lag_time_max_ms} if analysis.of_lag_time else {}
            ranged = {"start_ms": task.start_ms, "end_ms": task.end_ms}
            samples = samples_for(analysis)
            frame = analysis.make(samples, interval_ms=interval_ms, **ranged, **made, **lag)
            tables[name] = in_order(frame.toArrow())
        watch.ended(f"table {name}")
    mine_seen = [row for row in seen if cluster is None or cluster.is_of(row)]
    lacks = findings(mine_seen, origin=task.origin, interval_ms=interval_ms, made_of=needed)
    window = Range(
        start_ms=task.start_ms,
        end_ms=task.end_ms,
        interval_ms=interval_ms,
        lag_time_max_ms=task.lag_time_max_ms,
        cluster="" if cluster is None else cluster.name,
        findings=tuple(lacks),
    )
    code = _told(task, window, tables, watch)
    if task.summary is not None and code != NO_DATA:
        write_summary(task, task.summary, tables, "" if cluster is None else cluster.prefix)
        watch.ended("summary")
    return code


def _reader(spark: SparkSession, task: Task) -> Callable[..., DataFrame]:
    """Return what reads the samples of metrics of a task, from its range or a part of it."""
    whole = {"start_ms": task.start_ms, "end_ms": task.end_ms}

    def samples_of(*metrics: str, gap_ms: float, **part: int) -> DataFrame:
        ranged = whole | part
        if task.lake is not None and gap_ms:
            return read_lake_runs(
                spark,
                task.lake,
                metrics=metrics,
                start_ms=ranged["start_ms"],
                end_ms=ranged["end_ms"],
                gap_ms=gap_ms,
            )
        if task.lake is not None:
            return read_lake(spark, task.lake, metrics=metrics, **ranged)
        source = spark.read.format(read.FORMAT).options(**task.source).options(**ranged)
        return source.options(metrics=",".join(metrics), gap_ms=gap_ms).load()

    return samples_of


def _samples_for(
    samples_of: Callable[..., DataFrame],
    mine: Callable[[DataFrame], DataFrame],
    chosen: Mapping[str, Analysis],
    runs: DataFrame,
    size: Size,
) -> Callable[[Analysis], DataFrame]:
    """Return what gives an analysis its samples, where possible the same frame for several.

    What tables make of the same frame they share. Few samples are read once for all of them.
    """
    if size.samples <= FEW_ROWS:
        metrics = {metric.name for each in chosen.values() for metric in each.metrics}
        single = mine(gathered(samples_of(*metrics, gap_ms=0), size.samples).cache())
        return lambda _: single
    of_runs = mine(gathered(runs, size.runs))

    def samples_for(analysis: Analysis) -> DataFrame:
        if not analysis.plain:
            return of_runs
        return mine(samples_of(*(metric.name for metric in analysis.metrics), gap_ms=0))

    return samples_for


def _probed(
    samples_of: Callable[..., DataFrame],
    task: Task,
    seen: Sequence[Mapping[str, Any]],
    needed: Mapping[str, Sequence[Metric]],
    *,
    interval_ms: int,
) -> list[dict[str, Any]]:
    """Return who showed metrics that were not read yet, in the last scrapes that saw a leader.

    A scrape shows all that a leader has, so a few scrapes tell what is never there.
    """
    last_ms = max((row["leading_ms"] or 0 for row in seen), default=0)
    wanted = {metric.name for metrics in needed.values() for metric in metrics}
    others = wanted - {row["metric"] for row in seen}
    if not last_ms or not others:
        return []
    start_ms = max(last_ms - PROBED_INTERVALS * interval_ms, task.start_ms)
    samples = samples_of(*others, gap_ms=0, start_ms=start_ms, end_ms=last_ms + 1)
    found: list[dict[str, Any]] = observations(samples).toArrow().to_pylist()
    return found


def _only(
    cluster: ScrapedCluster | None, clusters: Sequence[ScrapedCluster]
) -> Callable[[DataFrame], DataFrame]:
    """Return what leaves the samples of one cluster; where there is one alone, all are its."""
    if cluster is None or len(clusters) <= 1:
        return lambda samples: samples
    return lambda samples: of_cluster(samples, **asdict(cluster))


def _told_empty(task: Task) -> int:
    """Tell in words, on the page and in the summary that nothing was scraped."""
    said = empty_window(task.origin, start_ms=task.start_ms, end_ms=task.end_ms)
    window = Range(
        start_ms=task.start_ms,
        end_ms=task.end_ms,
        interval_ms=0,
        lag_time_max_ms=task.lag_time_max_ms,
        known=0.0,
        findings=(said,),
    )
    write_tables(task.out, {}, report=page.html_report({}, window), facts=facts_of(window))
    sys.stderr.write(f"{said}\n")
    return NO_DATA


def _told(task: Task, window: Range, tables: Mapping[str, pa.Table], watch: Stopwatch) -> int:
    """Print and write what a run found, and return its exit code."""
    named = {name: of_one_cluster(table, window.cluster) for name, table in tables.items()}
    rows = {name: table.to_pylist() for name, table in named.items()}
    code, sentence = outcome(task, isr_intervals=rows["isr_intervals"], slo=rows["slo"])
    said = (*window.findings, *([sentence] if sentence else []))
    window = replace(window, known=known_share(rows["slo"]), findings=said)
    shown = {name: rows[name] for name in PRINTED}
    sys.stdout.write(text_report(window, **shown, faults=task.faults))
    if task.print_tables:
        for name, table in rows.items():
            sys.stdout.write(f"{TABLE_MARK}{name} {json.dumps(table)}\n")
    report = page.html_report(rows, window)
    if task.print_page:
        packed = gzip.compress(report.encode(), mtime=0)
        sys.stdout.write(f"{PAGE_MARK}{base64.b64encode(packed).decode()}\n")
    write_tables(task.out, named, report=report, facts=facts_of(window))
    watch.ended("report and files")
    sys.stdout.write(f"The report for a browser is {task.out / page.NAME}\n")
    if sentence:
        sys.stderr.write(f"{sentence}\n")
    return code


def facts_of(window: Range) -> dict[str, Any]:
    """Return what summary.json tells beside the numbers of rows."""
    return {
        "cluster": window.cluster,
        "startMs": window.start_ms,
        "endMs": window.end_ms,
        "scrapeIntervalMs": window.interval_ms,
        "coverage": window.known,
        "findings": [*window.findings],
    }


def of_one_cluster(rows: pa.Table, name: str) -> pa.Table:
    """Return a table with the cluster that all of its rows are of, as its first column."""
    return rows.add_column(0, CLUSTER, pa.array([name] * rows.num_rows, pa.string()))


def write_summary(
    task: Task, place: SummaryPlace, tables: Mapping[str, pa.Table], found: str
) -> None:
    """Write the summary of a run; a run without one is no worse, and says so in one sentence."""
    sentence = run_summary.unfit_sentence(found, place.cluster)
    if not sentence:
        rows = {name: tables[name].to_pylist() for name in run_summary.ROWS}
        text = run_summary.summary_text(
            rows,
            cluster=place.cluster,
            start_ms=task.start_ms,
            end_ms=task.end_ms,
            ended_ms=time.time_ns() // 1_000_000,
            coverage=known_share(tables["slo"].to_pylist()),
        )
        sentence = config_map.write(place.account, place.config_map, text)
    if sentence:
        sys.stderr.write(f"{sentence}\n")


def _chosen(task: Task) -> dict[str, Analysis]:
    """Return the analyses whose tables a task makes, in the order in which they are made."""
    reported = (*REPORTED, *(OF_SUMMARY if task.summary is not None else ()))
    return {name: ANALYSES[name] for name in (ANALYSES if task.all_tables else reported)}


def in_order(rows: pa.Table) -> pa.Table:
    """Return a table sorted by its columns, so that how Spark planned it changes no file."""
    keys = [each.name for each in rows.schema if not pa.types.is_list(each.type)]
    return rows.sort_by([(key, "ascending") for key in keys])


def flat(rows: pa.Table) -> pa.Table:
    """Return a table whose lists are JSON texts, as CSV has none."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_list(field.type):
            texts = pa.array([json.dumps(each) for each in rows[field.name].to_pylist()])
            rows = rows.set_column(index, field.name, texts)
    return rows


def write_tables(
    out: Path, tables: Mapping[str, pa.Table], *, report: str, facts: Mapping[str, Any]
) -> None:
    """Write each table as Parquet and CSV, and the page, replacing earlier ones; then the summary.

    The tables are small, however much was read. A folder with a summary.json, which holds the
    given facts and each table's number of rows, is complete.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).unlink(missing_ok=True)
    for name in TABLES.keys() - tables.keys():
        # What a run before has left here is of another range.
        for kind in ("parquet", "csv"):
            (out / f"{name}.{kind}").unlink(missing_ok=True)
    for name, rows in tables.items():
        pyarrow.parquet.write_table(rows, out / f"{name}.parquet", compression="zstd")
        pyarrow.csv.write_csv(flat(rows), out / f"{name}.csv")
    (out / page.NAME).write_text(report, encoding="utf-8")
    summary = {**facts, "rows": {name: rows.num_rows for name, rows in tables.items()}}
    part = out / f"{SUMMARY}.part"
    part.write_text(json.dumps(summary, indent=2, sort_keys=True) + "\n")
    part.replace(out / SUMMARY)


if __name__ == "__main__":
    sys.exit(main())
