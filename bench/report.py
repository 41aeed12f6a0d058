"""The report of a bench: a table for people, a JSON file with every value for programs."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from strandline_cli import tables, verdict
from strandline_cli.clusters import cache_folder

from .figures import Row, Sample, rows_of, unmeasured
from .run import BenchRun

FORMAT = 1
"""Version of the JSON file; it rises when a field changes its meaning."""
COLUMNS = ("figure", "aim", "min", "median", "max", "n", "median/aim", "x quiet", "load", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """The machine of the figures; load_before is its one-minute load before the bench."""

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
    """Return the host, with its present load."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return HostInfo(
        cores=os.cpu_count() or 0,
        processor=model[1].strip() if model else platform.machine(),
        memory_gib=round(memory / 2**30),
        kernel=platform.release(),
        load_before=os.getloadavg()[0],
    )


def failures_of(runs: Sequence[BenchRun]) -> list[str]:
    """Return why this bench fails, empty if every run shows something and no record was lost."""
    found = [f"run {run.number}: {failure}" for run in runs for failure in run.failures]
    return found + [f"never measured: {title}" for title in unmeasured(_samples(runs))]


def show(host: HostInfo, runs: Sequence[BenchRun]) -> None:
    """Print the table, drawn on a terminal and plain in a pipe, and the verdicts below it."""
    rows = [_cells(row) for row in rows_of(_samples(runs))]
    print(f"\n{host}")
    styles = ["bold red" if row[-1].isupper() else "" for row in rows]
    tables.show(COLUMNS, rows, left=("figure", ""), styles=styles)
    for run in runs:
        if run.verdict is not None:
            counts = ", ".join(verdict.sentences(run.verdict))
            print(f"run {run.number}: {counts}, {len(run.faults)} faults")
    for failure in failures_of(runs):
        print(f"FAILED {failure}")


def _cells(row: Row) -> tuple[str, ...]:
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


def write(host: HostInfo, settings: dict[str, object], runs: Sequence[BenchRun]) -> Path:
    """Write every value and return the file."""
    now = datetime.now(tz=UTC)
    document = {
        "format": FORMAT,
        "ended": now.isoformat(timespec="seconds"),
        "machine": asdict(host),
        "settings": settings,
        "figures": [asdict(row) | {"remark": row.remark} for row in rows_of(_samples(runs))],
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


def _samples(runs: Sequence[BenchRun]) -> list[Sample]:
    return [sample for run in runs for sample in run.samples]
