"""What processes used of the processors and of memory, and what others used meanwhile.

From `/proc`, whose times have a resolution of 10 ms. Threads of the kernel count for nobody: they
write what the clusters wrote. A process that began and ended in between is not seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
COUNTERS: Final = Path("/proc/vmstat")
RECLAIMED_BY: Final = tuple(
    f"pgsteal_{each}" for each in ("kswapd", "direct", "khugepaged", "proactive")
)
KERNEL_THREADS: Final = 2
"""Process id of kthreadd, the parent of the kernel's threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a process has used since its start: CPU seconds in all and in the kernel, page faults.

    The faults are those that the kernel served without a disk, each one page used anew.
    """

    cpu: float
    system: float = 0.0
    faults: int = 0


NOTHING: Final = Spent(cpu=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Between two looks: seconds by the clock, CPU seconds of the brokers and of other programs.

    system and faults are the brokers': CPU seconds in the kernel, and page faults without a disk.
    reclaimed are the bytes of pages that the kernel took back from whoever had them, None if it
    does not tell.
    """

    seconds: float
    brokers: float
    foreign: float
    system: float
    faults: int
    reclaimed: int | None = None


class Usage:
    """Looks at all processes when it is made, and again in `since`."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._before = _spent()
        self._reclaimed = _reclaimed_bytes()

    def since(self, *, brokers: Iterable[int], known: Iterable[int]) -> Used:
        """Return what was used since; known are all processes that belong to the bench."""
        used = used_of(
            self._before,
            _spent(),
            seconds=time.monotonic() - self._at,
            brokers={*brokers},
            known={os.getpid(), *known},
        )
        now = _reclaimed_bytes()
        if now is None or self._reclaimed is None:
            return used
        return replace(used, reclaimed=now - self._reclaimed)


def used_of(
    before: Mapping[int, Spent],
    now: Mapping[int, Spent],
    *,
    seconds: float,
    brokers: Collection[int],
    known: Collection[int],
) -> Used:
    """Return what was used between two looks at all processes."""
    looks = {pid: (spent, before.get(pid, NOTHING)) for pid, spent in now.items()}
    own = [looks[pid] for pid in brokers if pid in looks]
    foreign = [both for pid, both in looks.items() if pid not in brokers and pid not in known]
    return Used(
        seconds=seconds,
        brokers=sum(spent.cpu - earlier.cpu for spent, earlier in own),
        foreign=sum(spent.cpu - earlier.cpu for spent, earlier in foreign),
        system=sum(spent.system - earlier.system for spent, earlier in own),
        faults=sum(spent.faults - earlier.faults for spent, earlier in own),
    )


def reclaimed_pages(vmstat: str) -> int | None:
    """Return the pages that a kernel took back, of the text of its counters; None without one.

    It counts them by who took them and, again, by what was in them.
    """
    counters = dict(line.split() for line in vmstat.splitlines())
    found = [int(counters[each]) for each in RECLAIMED_BY if each in counters]
    return sum(found) if found else None


def _reclaimed_bytes() -> int | None:
    try:
        pages = reclaimed_pages(COUNTERS.read_text())
    except OSError:
        return None
    return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")


def _spent() -> dict[int, Spent]:
    """Return what every process has used that is no thread of the kernel."""
    found: dict[int, Spent] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) != KERNEL_THREADS:
            user, system = int(fields[11]) / TICKS, int(fields[12]) / TICKS
            faults = int(fields[7])
            found[int(path.parent.name)] = Spent(cpu=user + system, system=system, faults=faults)
    return found


def pids_of(folder: Path) -> list[int]:
    """Return the processes whose command line names a folder, but for this one."""
    word, found = str(folder).encode(), []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if word in words and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def resident_mib(pids: Iterable[int]) -> float:
    """Return the resident memory of processes together, MiB."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
