"""What one run of the job does, and how a person says so; needs no Spark."""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from .catalogue import LAG_TIME_MAX_MS
from .config_map import Account, pod_account
from .executors import Executors, driver_pod, read_executors
from .injected_faults import InjectedFault, read_faults
from .json_api import read_shown
from .lake_slices import Lake, LakeRefused, opened
from .prometheus_http import server_of
from .read_options import HOUR_MS, OptionInvalid, Piece, Transport, read_options
from .remote_read import read_series
from .tsdb_files import BlockRefused
from .tsdb_snapshot import Snapshot, snapshot_in

CORES: Final = 2
COVERAGE_MIN: Final = 0.5
"""Of less the tables tell too little for anyone to act on them."""
PAGE_MARK: Final = "page "
"""Start of the line of --print-page; the page as base64 of gzip follows."""
SPAN_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": HOUR_MS, "d": 24 * HOUR_MS}
SPAN: Final = re.compile("(?P<count>[0-9]{1,6})(?P<unit>[smhd])")
USUAL_TRANSPORT: Final = Transport.REMOTE_READ
UP: Final = "up"
"""Prometheus's own series: one sample for each scrape of each target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlace:
    """Where the summary of a run is written."""

    config_map: str
    cluster: str
    """The BrokerCluster that the samples must be of."""
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one run does."""

    start_ms: int
    end_ms: int
    out: Path
    prometheus: str = ""
    """Its URL; empty if the samples come from elsewhere."""
    lake: Lake | None = None
    snapshot: Snapshot | None = None
    faults: tuple[InjectedFault, ...] = ()
    print_tables: bool = False
    print_page: bool = False
    all_tables: bool = False
    """Whether tables are made that the report does not show."""
    cores: int = CORES
    lag_time_max_ms: int = LAG_TIME_MAX_MS
    """replica.lag.time.max.ms of the brokers."""
    cluster: str = ""
    """Its name; empty if the samples are of one alone."""
    coverage_min: float = COVERAGE_MIN
    """Share of the partitions' time, 0 to 1, that must be known for the run to count as done."""
    executors: Executors | None = None
    """Pods that do the work; without any it is done here, on so many cores."""
    bearer_token_file: str = ""
    ca_file: str = ""
    transport: Transport = USUAL_TRANSPORT
    summary: SummaryPlace | None = None
    """The ConfigMap that gets a summary, if any does."""

    @property
    def origin(self) -> str:
        """Return where the samples come from, as a person would say."""
        folder = self.lake or self.snapshot
        return self.prometheus if folder is None else str(folder.folder)

    @property
    def source(self) -> dict[str, str]:
        """Return the options of the data source that are the same for all of its reads."""
        ranged = {"start_ms": str(self.start_ms), "end_ms": str(self.end_ms)}
        requests = {
            "bearer_token_file": self.bearer_token_file,
            "ca_file": self.ca_file,
            "transport": self.transport.value,
        }
        if self.snapshot is None:
            return {"url": self.prometheus, **ranged, **requests}
        # The data source refuses whatever was asked for in vain.
        vain = {name: each for name, each in requests.items() if each not in {"", USUAL_TRANSPORT}}
        return {"blocks": str(self.snapshot.folder), **ranged, **vain}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked for."""
    samples = parser.add_mutually_exclusive_group(required=True)
    samples.add_argument("--prometheus", metavar="URL")
    samples.add_argument("--lake", type=Path, metavar="DIR", help="what the ingest has landed")
    blocks = "blocks of Prometheus, such as a snapshot"
    samples.add_argument("--blocks", type=Path, metavar="DIR", help=blocks)
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--start", metavar="TIME", help="RFC 3339 or epoch ms; an hour before end")
    begin.add_argument("--window", metavar="TIME", help="before the end, as in 30m, 6h or 7d")
    parser.add_argument("--end", metavar="TIME", help="exclusive; now, or the folder's end")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    name = "the one whose samples count; needed where there are several"
    parser.add_argument("--cluster", default="", metavar="NAME", help=name)
    parser.add_argument("--faults", type=Path, metavar="FILE", help="JSON list of injected faults")
    parser.add_argument("--print-tables", action="store_true", help="print each as JSON too")
    parser.add_argument("--print-page", action="store_true", help="print report.html, packed")
    parser.add_argument("--all-tables", action="store_true", help="also those not in the report")
    parser.add_argument("--bearer-token-file", default="", metavar="FILE", help="for Prometheus")
    parser.add_argument("--ca-file", default="", metavar="FILE", help="CA of an https URL")
    ways, usual = list(Transport), USUAL_TRANSPORT
    parser.add_argument("--transport", choices=ways, default=usual, help="json: no stale markers")
    lag, usual_lag = "--lag-time-max-ms", LAG_TIME_MAX_MS
    parser.add_argument(lag, type=int, default=usual_lag, metavar="MS", help="of the brokers")
    known, usual_share = "--coverage-min", COVERAGE_MIN
    share = "of the partitions' time, 0 to 1; exit code 3 if less is known"
    parser.add_argument(known, type=float, default=usual_share, metavar="SHARE", help=share)
    parser.add_argument("--cores", type=int, default=CORES, help=f"Spark's threads ({CORES})")
    pods = "JSON of the chart: pods do the work"
    parser.add_argument("--executors", type=Path, metavar="FILE", help=pods)
    named = "gets a summary for the status of --summary-of; in a pod of the chart alone"
    parser.add_argument("--summary-config-map", default="", metavar="NAME", help=named)
    parser.add_argument(
        "--summary-of", default="", metavar="NAME", help="BrokerCluster of the summary"
    )


def task_of(given: argparse.Namespace) -> Task:
    """Return what the options ask for.

    Raises:  argparse.ArgumentError for a time that is none, an empty range, unreadable faults,
        what the data source does not accept, what the lake lacks, or a summary outside of a pod
    """
    try:
        lake = opened(given.lake) if given.lake else None
        snapshot = snapshot_in(given.blocks) if given.blocks else None
        start_ms, end_ms = _range(given, lake or snapshot)
        faults = tuple(read_faults(given.faults)) if given.faults else ()
        executors = read_executors(given.executors) if given.executors else None
        if executors is not None:
            driver_pod()
        summary = _summary_place(given)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentError(None, str(error)) from error
    if start_ms >= end_ms:
        raise argparse.ArgumentError(None, "the range is empty: start must be before end")
    if given.lag_time_max_ms < 1:
        raise argparse.ArgumentError(None, "lag-time-max-ms must be at least 1")
    if not 0 <= given.coverage_min <= 1:
        raise argparse.ArgumentError(None, "coverage-min must be between 0 and 1")
    if given.cores < 1:
        raise argparse.ArgumentError(None, "cores must be at least 1")
    task = Task(
        prometheus=given.prometheus or "",
        lake=lake,
        snapshot=snapshot,
        start_ms=start_ms,
        end_ms=end_ms,
        out=given.out,
        faults=faults,
        print_tables=given.print_tables,
        print_page=given.print_page,
        all_tables=given.all_tables,
        cores=given.cores,
        lag_time_max_ms=given.lag_time_max_ms,
        cluster=given.cluster,
        coverage_min=given.coverage_min,
        executors=executors,
        bearer_token_file=given.bearer_token_file,
        ca_file=given.ca_file,
        transport=Transport(given.transport),
        summary=summary,
    )
    try:
        # Before Spark, whose start takes many seconds.
        if lake is None:
            read_options({**task.source, "metrics": UP})
        else:
            lake.check_landed(metrics=lake.metrics, start_ms=start_ms, end_ms=end_ms)
        if snapshot is not None:
            snapshot.check_range(start_ms=start_ms, end_ms=end_ms)
    except (OptionInvalid, LakeRefused, BlockRefused) as error:
        raise argparse.ArgumentError(None, str(error)) from error
    return task


def _summary_place(given: argparse.Namespace) -> SummaryPlace | None:
    """Return where the summary goes, None if none is asked for.

    Raises:  ValueError without a cluster, and outside of a pod
    """
    if not given.summary_config_map:
        return None
    if not given.summary_of:
        raise ValueError("summary-config-map needs summary-of: the BrokerCluster that it is about")
    return SummaryPlace(
        config_map=given.summary_config_map, cluster=given.summary_of, account=pod_account()
    )


def _range(given: argparse.Namespace, folder: Lake | Snapshot | None) -> tuple[int, int]:
    """Return begin and end; a window reaches no further back than a lake or blocks do."""
    now_ms = time.time_ns() // 1_000_000
    usual_end_ms = now_ms if folder is None else folder.end_ms
    end_ms = moment_ms(given.end) if given.end else usual_end_ms
    if given.start:
        return moment_ms(given.start), end_ms
    start_ms = end_ms - (span_ms(given.window) if given.window else HOUR_MS)
    if folder is None:
        return start_ms, end_ms
    if isinstance(folder, Lake) and folder.end_ms <= folder.start_ms:
        raise LakeRefused(f"{folder.folder} holds no complete slice yet: land one first")
    return max(start_ms, folder.start_ms), end_ms


def check_source(task: Task) -> None:
    """Try where samples come from, before Spark starts and hides a refusal in its own.

    Prometheus is asked for one ms of samples; blocks are opened. A lake was judged before.

    Raises:  ReadFailed or BlockRefused with what a person can do
    """
    if task.snapshot is not None:
        task.snapshot.check_files(start_ms=task.start_ms, end_ms=task.end_ms)
    elif task.lake is None:
        options = read_options({**task.source, "metrics": UP})
        read = read_shown if options.transport is Transport.JSON else read_series
        read(server_of(options), Piece(metric=UP, start_ms=task.end_ms - 1, end_ms=task.end_ms))


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


def span_ms(text: str) -> int:
    """Return the ms of a length of time such as 30m, 6h or 7d.

    Raises:  ValueError on anything else, and on nothing
    """
    found = SPAN.fullmatch(text)
    if found is None or int(found["count"]) == 0:
        raise ValueError(f"{text!r} is no length of time: 30m, 6h and 7d are some")
    return int(found["count"]) * SPAN_UNITS_MS[found["unit"]]
