"""The ingest: land what Prometheus has scraped since the last time in a lake.

    python -m strandline_analysis.ingest --prometheus URL --lake DIR [--start T] [--end T]

Run it again and again: it goes on where it was, lands whole slices alone, and waits while another
one lands in the same lake. The exit code is 0, or 1 if that one does not end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from .job import READ_METRICS
from .lake import ingest
from .lake_slices import Lake, LakeRefused, founded
from .read_options import HOUR_MS, MINUTE_MS, read_options
from .session import local_session
from .task import CORES, moment_ms, span_ms

LAG_MS: Final = MINUTE_MS
"""Age at which samples are taken to have arrived: several scrapes, and a slow one."""
KEEP: Final = "30d"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTask:
    """What one run lands, and where."""

    lake: Lake
    source: dict[str, str]
    """Options of the data source beside range, metrics and slices."""
    end_ms: int
    keep_ms: int
    """What is older than so much before the newest slice's end goes."""
    cores: int = CORES


def main(arguments: Sequence[str] | None = None) -> int:
    """Land what is missing and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="strandline_analysis.ingest",
        description="Land what Prometheus has scraped since the last time in a lake.",
    )
    add_options(parser)
    try:
        task = task_of(parser.parse_args(arguments))
    except argparse.ArgumentError as error:
        parser.error(str(error))
    try:
        with task.lake.locked() as before:
            lake = _landed(replace(task, lake=before))
    except LakeRefused as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    landed = (lake.end_ms - before.end_ms) // lake.slice_ms
    sys.stdout.write(f"{lake.folder}: {landed} slices of {lake.slice_ms} ms landed\n")
    return 0


def _landed(task: IngestTask) -> Lake:
    """Land what is missing, let go what is old, and return the lake then."""
    with tempfile.TemporaryDirectory(prefix="strandline-ingest-") as folder:
        spark = local_session(cores=task.cores, folder=Path(folder))
        try:
            lake = ingest(spark, task.lake, task.source, end_ms=task.end_ms)
        finally:
            spark.stop()
    return lake.trimmed(task.keep_ms)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked for."""
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--lake", required=True, type=Path, metavar="DIR")
    parser.add_argument("--start", metavar="TIME", help="of a new lake; two hours before end")
    parser.add_argument("--end", metavar="TIME", help="exclusive; a minute ago")
    parser.add_argument("--slice-ms", type=int, default=2 * HOUR_MS, help="length of a slice")
    parser.add_argument("--keep", default=KEEP, metavar="TIME", help=f"of the lake ({KEEP})")
    parser.add_argument("--bearer-token-file", default="", metavar="FILE", help="for Prometheus")
    parser.add_argument("--ca-file", default="", metavar="FILE", help="CA of an https URL")
    parser.add_argument("--cores", type=int, default=CORES, help=f"Spark's threads ({CORES})")


def task_of(given: argparse.Namespace) -> IngestTask:
    """Return what the options ask for; a new lake is made.

    Raises:  argparse.ArgumentError for what the data source does not accept, a time that is none,
        or a lake that was made for something else
    """
    source = {
        "url": given.prometheus,
        "bearer_token_file": given.bearer_token_file,
        "ca_file": given.ca_file,
    }
    try:
        end_ms = moment_ms(given.end) if given.end else time.time_ns() // 1_000_000 - LAG_MS
        start_ms = moment_ms(given.start) if given.start else end_ms - 2 * HOUR_MS
        ranged = {"start_ms": str(start_ms), "end_ms": str(end_ms), "slice_ms": str(given.slice_ms)}
        keep_ms = span_ms(given.keep)
        # Before a folder is made, and before Spark, whose start takes many seconds.
        read_options({**source, **ranged, "metrics": ",".join(READ_METRICS)})
        lake = founded(given.lake, metrics=READ_METRICS, start_ms=start_ms, slice_ms=given.slice_ms)
    # OptionInvalid and LakeRefused are among them.
    except ValueError as error:
        raise argparse.ArgumentError(None, str(error)) from error
    return IngestTask(lake=lake, source=source, end_ms=end_ms, keep_ms=keep_ms, cores=given.cores)


if __name__ == "__main__":
    sys.exit(main())
