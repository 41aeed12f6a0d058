"""What a bench says at its end: a table for people, a JSON file with every value for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from strandline.checker.judge import HistoryVerdict
from strandline.cli.demo_cluster import cache_folder
from strandline.cli.demo_screen import HAS_RICH

from .figures import Row, rows_of, unmeasured
from .run import BenchRun

if HAS_RICH:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
"""Of the JSON file; it rises when a field changes its meaning."""
COLUMNS = ("figure", "aim", "min", "median", "max", "n", "median/aim", "x quiet", "load", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """Where the figures were taken; load_before is the one minute's before anything was done."""

    cores: int
    processor: str
    memory_gib: int
    kernel: str
    load_before: float

    def __str__(self) -> str:
        """Return one line for the head of the table."""
        return (
            f"{self.cores} cores ({self.processor}), {self.memory_gib} GiB, "
            f"Linux {self.kernel}, load before {self.load_before:.2f}"
        )


def host_info() -> HostInfo:
    """Return what the host is, and its load as it is now."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return HostInfo(
        cores=os.cpu_count() or 0,
        processor=models[0] if models else platform.machine(),
        memory_gib=round(memory / 2**30),
        kernel=platform.release(),
        load_before=os.getloadavg()[0],
    )


def failures_of(runs: Sequence[BenchRun]) -> list[str]:
    """Return why this bench fails, empty if every run shows something and nothing was lost."""
    found = [f"run {run.number}: {failure}" for run in runs for failure in run.failures]
    samples = [sample for run in runs for sample in run.samples]
    return found + [f"never measured: {title}" for title in unmeasured(samples)]


def show(host: HostInfo, runs: Sequence[BenchRun]) -> None:
    """Print the table, drawn on a terminal and plain in a pipe, and the verdicts below it."""
    rows = [cells(row) for row in rows_of([each for run in runs for each in run.samples])]
    print(f"\n{host}")
    if HAS_RICH and sys.stdout.isatty():
        table = Table()
        for name in COLUMNS:
            table.add_column(name, justify="left" if name in {"figure", ""} else "right")
        for row in rows:
            table.add_row(*row, style="bold red" if row[-1].isupper() else "")
        Console().print(table)
    else:
        for line in plain([COLUMNS, *rows]):
            print(line)
    for run in runs:
        if run.verdict is not None:
            print(f"run {run.number}: {_said(run.verdict)}, {len(run.faults)} faults")
    for failure in failures_of(runs):
        print(f"FAILED {failure}")


def cells(row: Row) -> tuple[str, ...]:
    """Return what the table shows of a row."""
    figure = row.figure
    return (
        f"{figure.title}, {figure.unit}",
        "" if figure.aim is None else f"{figure.aim:g}",
        f"{row.least:.2f}",
        f"{row.median:.2f}",
        f"{row.most:.2f}",
        str(row.count),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.over_quiet is None else f"{row.over_quiet:.0f}",
        f"{row.loads[0]:.1f}-{row.loads[1]:.1f}",
        row.remark,
    )


def plain(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines: the first column to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in {0, len(row) - 1} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def write(host: HostInfo, settings: dict[str, object], runs: Sequence[BenchRun]) -> Path:
    """Write everything that was measured and return the file."""
    samples = [sample for run in runs for sample in run.samples]
    now = datetime.now(tz=UTC)
    document = {
        "format": FORMAT,
        "ended": now.isoformat(timespec="seconds"),
        "machine": asdict(host),
        "settings": settings,
        "figures": [asdict(row) | {"remark": row.remark} for row in rows_of(samples)],
        "failures": failures_of(runs),
        "runs": [
            {
                "number": run.number,
                "samples": [asdict(sample) for sample in run.samples],
                "faults": [asdict(fault) for fault in run.faults],
                "verdict": None if run.verdict is None else asdict(run.verdict),
                "events": [asdict(event) for event in run.events],
                "failures": run.failures,
            }
            for run in runs
        ],
    }
    path = cache_folder("bench") / f"bench-{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def _said(verdict: HistoryVerdict) -> str:
    return (
        f"acked {verdict.acked}, lost {verdict.lost}, duplicated {verdict.duplicated}, "
        f"out of order {verdict.out_of_order}, moved {verdict.moved}, "
        f"diverged {verdict.diverged}, phantom {verdict.phantom}, misread {verdict.misread}, "
        f"unknown {verdict.unknown}"
    )
