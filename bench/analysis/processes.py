"""What this process and those below it have used, from /proc: Spark's Java is one of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
PARENT: Final = 1
CPU_FIELDS: Final = slice(11, 15)
"""utime, stime, cutime and cstime, counted behind the name of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """cpu_seconds of all processes so far; peak_bytes is the sum of each one's peak."""

    cpu_seconds: float
    peak_bytes: int


def used() -> Used:
    """Return what this process and its living descendants have used.

    Those that ended and were waited for count with the processor alone.
    """
    fields = {int(stat.parent.name): fields_of(stat) for stat in Path("/proc").glob("[0-9]*/stat")}
    family, grown = {os.getpid()}, True
    while grown:
        below = {pid for pid, found in fields.items() if found and int(found[PARENT]) in family}
        grown = not below <= family
        family |= below
    ticks = sum(int(tick) for pid in family for tick in fields.get(pid, [])[CPU_FIELDS])
    return Used(cpu_seconds=ticks / TICKS, peak_bytes=sum(map(_peak_bytes, family)))


def fields_of(stat: Path) -> list[str]:
    """Return the fields behind the name of the program, none if the process has ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _peak_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
