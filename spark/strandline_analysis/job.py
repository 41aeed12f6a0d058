"""The job: read a range of time from Prometheus, analyse it, write and print the tables.

    python -m strandline_analysis.job --prometheus URL [--start T] [--end T] --out DIR

Runs in one process (local mode). The exit code is 0, or 2 if Prometheus holds no two scrapes of
one target, or no sample of a partition, in the range.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from . import failovers, isr_intervals
from .read import read_samples
from .report import text_report
from .run_lengths import GAP_INTERVALS
from .samples import scrape_interval_ms
from .session import local_session
from .task import Task, add_options, task_of
from .write import summary_of, write_tables

UP: Final = "up"
"""Prometheus's own series: one sample for each scrape of each target."""
OK, NO_DATA = 0, 2
TABLE_MARK: Final = "table "
"""Start of a line of --print-tables; the table's name and its rows as JSON follow."""

Analysis = Callable[..., DataFrame]
ANALYSES: Final[dict[str, tuple[Analysis, tuple[str, ...]]]] = {
    "isr_intervals": (isr_intervals.isr_intervals, isr_intervals.METRICS),
    "elections": (failovers.elections, failovers.METRICS),
}
"""By table: the function that makes it and the metrics that it reads."""


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


def run(task: Task) -> int:
    """Do what a task says and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="strandline-analysis-") as folder:
        spark = local_session(cores=task.cores, folder=Path(folder))
        try:
            return analyse(spark, task)
        finally:
            spark.stop()


def analyse(spark: SparkSession, task: Task) -> int:
    """Run every analysis over the task's range; print the report and write the tables."""

    def read(metrics: Sequence[str], *, gap_ms: float) -> DataFrame:
        return read_samples(
            spark,
            task.prometheus,
            metrics,
            start_ms=task.start_ms,
            end_ms=task.end_ms,
            gap_ms=gap_ms,
        )

    interval_ms = scrape_interval_ms(read([UP], gap_ms=0))
    if interval_ms is None:
        sys.stderr.write(f"{task.prometheus} holds no two scrapes of one target in this range\n")
        return NO_DATA
    tables = {}
    for name, (analysis, metrics) in ANALYSES.items():
        samples = read(metrics, gap_ms=GAP_INTERVALS * interval_ms)
        tables[name] = analysis(
            samples, interval_ms=interval_ms, start_ms=task.start_ms, end_ms=task.end_ms
        ).toArrow()
    sys.stdout.write(
        text_report(
            interval_ms=interval_ms,
            isr_intervals=tables["isr_intervals"].to_pylist(),
            elections=tables["elections"].to_pylist(),
            faults=task.faults,
            start_ms=task.start_ms,
            end_ms=task.end_ms,
        )
    )
    if task.print_tables:
        for name, rows in tables.items():
            sys.stdout.write(f"{TABLE_MARK}{name} {json.dumps(rows.to_pylist())}\n")
    summary = summary_of(
        tables, startMs=task.start_ms, endMs=task.end_ms, scrapeIntervalMs=interval_ms
    )
    write_tables(task.out, tables, summary)
    if tables["isr_intervals"].num_rows == 0:
        sys.stderr.write(f"{task.prometheus} holds no sample of a partition in this range\n")
        return NO_DATA
    return OK


if __name__ == "__main__":
    sys.exit(main())
