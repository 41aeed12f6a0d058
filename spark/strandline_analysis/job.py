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
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from . import config_map, run_summary
from .catalogue import TABLES
from .few_rows import FEW_ROWS, Size, plans_for, side_by_side
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
from .lake_slices import LakeRefused
from .observations import of_cluster
from .outcome import NO_DATA, UNREADABLE, known_share, outcome
from .prometheus_http import ReadFailed
from .report import text_report
from .session import executors_session, local_session
from .stopwatch import Stopwatch
from .tables import ANALYSES, Analysis
from .task import PAGE_MARK, UP, SummaryPlace, Task, add_options, check_source, task_of
from .task_samples import TaskSamples
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
    chosen = _chosen(task)
    samples = TaskSamples(spark, task, chosen)
    interval_ms = samples.interval_ms()
    if interval_ms is None:
        return _told_empty(task)
    watch.ended("the scrape interval")
    seen = samples.observed(interval_ms)
    clusters = clusters_of(seen)
    try:
        cluster = chosen_cluster(clusters, wanted=task.cluster, origin=task.origin)
    except ClusterUnclear as unclear:
        sys.stderr.write(f"{unclear}\n")
        return NO_DATA
    mine = _only(cluster, clusters)
    if len(clusters) > 1:
        # Targets of other clusters may be scraped more often.
        interval_ms = samples.interval_ms(mine) or interval_ms
    watch.ended("clusters and clocks")
    samples_for = samples.for_tables(mine)

    def make(name: str, made_before: Mapping[str, pa.Table]) -> pa.Table:
        analysis = chosen[name]
        made = {each: spark.createDataFrame(made_before[each]) for each in analysis.made_of}
        lag = {"lag_time_max_ms": task.lag_time_max_ms} if analysis.of_lag_time else {}
        ranged = {"start_ms": task.start_ms, "end_ms": task.end_ms}
        frame = analysis.make(
            samples_for(analysis), interval_ms=interval_ms, **ranged, **made, **lag
        )
        return in_order(frame.toArrow())

    tables = _tables(spark, chosen, samples.counted, make, watch)
    needed = {name: analysis.metrics for name, analysis in chosen.items()}
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


def _tables(
    spark: SparkSession,
    chosen: Mapping[str, Analysis],
    size: Size,
    make: Callable[[str, Mapping[str, pa.Table]], pa.Table],
    watch: Stopwatch,
) -> dict[str, pa.Table]:
    """Make the tables, those of few samples side by side; make gets what was made before."""
    tables: dict[str, pa.Table] = {}

    def work(name: str) -> None:
        tables[name] = make(name, tables)
        watch.ended(f"table {name}")

    if size.samples <= FEW_ROWS:
        with plans_for(spark, size.samples):
            for is_made_of_tables in (False, True):
                names = [each for each in chosen if bool(chosen[each].made_of) is is_made_of_tables]
                side_by_side(spark, *(partial(work, name) for name in names))
    else:
        for name, analysis in chosen.items():
            with plans_for(spark, size.samples if analysis.plain else size.runs):
                work(name)
    # Files and the text keep the order of what was chosen.
    return {name: tables[name] for name in chosen}


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
