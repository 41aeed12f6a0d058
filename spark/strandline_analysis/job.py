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
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from . import failovers, isr_intervals
from .injected_faults import FaultsMalformed, InjectedFault, read_faults
from .read import read_samples
from .report import text_report
from .run_lengths import GAP_INTERVALS
from .samples import scrape_interval_ms
from .session import local_session
from .write import summary_of, write_tables

UP: Final = "up"
"""Prometheus's own series: one sample for each scrape of each target."""
HOUR_MS: Final = 3_600_000
CORES: Final = 2
OK, NO_DATA = 0, 2
TABLE_MARK: Final = "table "
"""Start of a line of --print-tables; the table's name and its rows as JSON follow."""

Analysis = Callable[..., DataFrame]
ANALYSES: Final[dict[str, tuple[Analysis, tuple[str, ...]]]] = {
    "isr_intervals": (isr_intervals.isr_intervals, isr_intervals.METRICS),
    "elections": (failovers.elections, failovers.METRICS),
}
"""By table: the function that makes it and the metrics that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one run does."""

    prometheus: str
    start_ms: int
    end_ms: int
    out: Path
    faults: tuple[InjectedFault, ...] = ()
    print_tables: bool = False
    cores: int = CORES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code."""
    task = _task(arguments)
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


def moment_ms(text: str) -> int:
    """Return epoch ms of an RFC 3339 time, or of a number of epoch ms.

    Raises:  ValueError on anything else, and on a time without a zone
    """
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return round(moment.astimezone(UTC).timestamp() * 1000)


def _task(arguments: Sequence[str] | None) -> Task:
    parser = argparse.ArgumentParser(
        prog="strandline_analysis.job",
        description="Tell from scraped samples which brokers led and were in sync, and when.",
    )
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--start", metavar="TIME", help="RFC 3339 or epoch ms; an hour before end")
    parser.add_argument("--end", metavar="TIME", help="exclusive; now")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="JSON list of injected faults")
    parser.add_argument("--print-tables", action="store_true", help="print each as JSON too")
    parser.add_argument("--cores", type=int, default=CORES, help="Spark's threads")
    given = parser.parse_args(arguments)
    try:
        end_ms = moment_ms(given.end) if given.end else time.time_ns() // 1_000_000
        start_ms = moment_ms(given.start) if given.start else end_ms - HOUR_MS
        faults = tuple(read_faults(given.faults)) if given.faults else ()
    except (ValueError, FaultsMalformed, OSError) as error:
        parser.error(str(error))
    if start_ms >= end_ms:
        parser.error("the range is empty: start must be before end")
    if given.cores < 1:
        parser.error("cores must be at least 1")
    return Task(
        prometheus=given.prometheus,
        start_ms=start_ms,
        end_ms=end_ms,
        out=given.out,
        faults=faults,
        print_tables=given.print_tables,
        cores=given.cores,
    )


if __name__ == "__main__":
    sys.exit(main())
