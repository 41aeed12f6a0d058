"""The job: read a range of time from Prometheus or a lake, analyse it, write and print the tables.

    python -m strandline_analysis.job --prometheus URL [--start T] [--end T] --out DIR

Runs in one process (local mode). The exit code is 0, 1 if Prometheus cannot be read, 2 if there
are no two scrapes of one target, or no sample of a partition, in the range, or 3 if the samples
tell of less than --coverage-min of the partitions' time; with 3 all tables are written.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from . import config_map, read, run_summary
from .html_report import page
from .html_report.words import Range
from .lake import read_lake
from .outcome import NO_DATA, UNREADABLE, known_share, outcome
from .prometheus_http import ReadFailed
from .report import text_report
from .run_lengths import GAP_INTERVALS
from .samples import scrape_interval_ms
from .session import executors_session, local_session
from .stopwatch import Stopwatch
from .tables import ANALYSES, Analysis
from .task import PAGE_MARK, UP, SummaryPlace, Task, add_options, check_prometheus, task_of

SUMMARY: Final = "summary.json"
FEW_SCRAPES: Final = 20_000
"""Of fewer scrapes Spark's plans take longer than the rows: three brokers each second for hours."""
PLANS_OF_FEW: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for few rows, which change no result."""
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
STEPS_BESIDE_TABLES: Final = 6
"""Python, Prometheus, Java, the scrape interval, the report, and Spark's end."""
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
        check_prometheus(task)
    except ReadFailed as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    watch.ended("Prometheus answers")
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
    before = {name: spark.conf.get(name) for name in PLANS_OF_FEW}
    try:
        return _analysed(spark, task, watch)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _analysed(spark: SparkSession, task: Task, watch: Stopwatch) -> int:
    ranged: dict[str, Any] = {"start_ms": task.start_ms, "end_ms": task.end_ms}

    def samples_of(*metrics: str, gap_ms: float) -> DataFrame:
        if task.lake is not None:
            return read_lake(spark, task.lake, metrics=metrics, **ranged)
        source = spark.read.format(read.FORMAT).options(**task.source)
        return source.options(metrics=",".join(metrics), gap_ms=gap_ms).load()

    up = samples_of(UP, gap_ms=0).cache()
    interval_ms = scrape_interval_ms(up)
    if interval_ms is None:
        sys.stderr.write(f"{task.origin} holds no two scrapes of one target in this range\n")
        return NO_DATA
    watch.ended("the scrape interval")
    if up.count() < FEW_SCRAPES:
        for name, value in PLANS_OF_FEW.items():
            spark.conf.set(name, value)
    gap_ms = GAP_INTERVALS * interval_ms
    chosen = _chosen(task)
    of_runs = (each.metrics for each in chosen.values() if not each.plain)
    # Read once for all tables of runs, which are few; single samples are many.
    runs = samples_of(*{metric.name for each in of_runs for metric in each}, gap_ms=gap_ms).cache()
    tables: dict[str, pa.Table] = {}
    for name, analysis in chosen.items():
        metrics = [metric.name for metric in analysis.metrics]
        samples = (
            samples_of(*metrics, gap_ms=0)
            if analysis.plain
            else runs.where(F.col("metric").isin(*metrics))
        )
        made = {each: spark.createDataFrame(tables[each]) for each in analysis.made_of}
        lag = {"lag_time_max_ms": task.lag_time_max_ms} if analysis.of_lag_time else {}
        frame = analysis.make(samples, interval_ms=interval_ms, **ranged, **made, **lag)
        tables[name] = in_order(frame.toArrow())
        watch.ended(f"table {name}")
    code = _told(task, tables, interval_ms)
    watch.ended("report and files")
    if task.summary is not None and code != NO_DATA:
        of_partitions = runs.where(F.col("partition").isNotNull()).select("pod").distinct()
        found = run_summary.clusters_of(row.pod for row in of_partitions.collect())
        write_summary(task, task.summary, tables, found)
        watch.ended("summary")
    return code


def _told(task: Task, tables: Mapping[str, pa.Table], interval_ms: int) -> int:
    """Print the report, write all files, and return the exit code."""
    ranged: dict[str, Any] = {"start_ms": task.start_ms, "end_ms": task.end_ms}
    rows = {name: table.to_pylist() for name, table in tables.items()}
    shown = {name: rows[name] for name in PRINTED}
    sys.stdout.write(text_report(**shown, **ranged, interval_ms=interval_ms, faults=task.faults))
    if task.print_tables:
        for name, table in rows.items():
            sys.stdout.write(f"{TABLE_MARK}{name} {json.dumps(table)}\n")
    window = Range(**ranged, interval_ms=interval_ms, lag_time_max_ms=task.lag_time_max_ms)
    report = page.html_report(rows, window)
    if task.print_page:
        packed = gzip.compress(report.encode(), mtime=0)
        sys.stdout.write(f"{PAGE_MARK}{base64.b64encode(packed).decode()}\n")
    facts = {
        "startMs": task.start_ms,
        "endMs": task.end_ms,
        "scrapeIntervalMs": interval_ms,
        "coverage": known_share(rows["slo"]),
    }
    write_tables(task.out, tables, report=report, facts=facts)
    sys.stdout.write(f"The report for a browser is {task.out / page.NAME}\n")
    code, sentence = outcome(task, isr_intervals=rows["isr_intervals"], slo=rows["slo"])
    if sentence:
        sys.stderr.write(f"{sentence}\n")
    return code


def write_summary(
    task: Task, place: SummaryPlace, tables: Mapping[str, pa.Table], clusters: Sequence[str]
) -> None:
    """Write the summary of a run; a run without one is no worse, and says so in one sentence."""
    sentence = run_summary.mixed_sentence(clusters, place.cluster)
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
    out: Path, tables: Mapping[str, pa.Table], *, report: str, facts: Mapping[str, float]
) -> None:
    """Write each table as Parquet and CSV, and the page, replacing earlier ones; then the summary.

    The tables are small, however much was read. A folder with a summary.json, which holds the
    given facts and each table's number of rows, is complete.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).unlink(missing_ok=True)
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
