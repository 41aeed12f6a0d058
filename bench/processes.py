"""The broker's process in a pod: when it was started, what it has used, when it registered.

Everything is read inside the pod from the kernel's record of that process, so neither the
kubelet's rounded times nor the way there are part of a figure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from strandline_cli.faults import NotRecovered
from strandline_cli.kubectl import Kubernetes

REGISTERED = "registered"
"""The message a broker logs once its Broker.status is written."""

# Process 1 is tini, its one child the broker; the fields are those of proc(5), from the third on.
LOOK = """
import json, os, time
child = open("/proc/1/task/1/children").read().split()[0]
fields = open(f"/proc/{child}/stat").read().rpartition(")")[2].split()
ticks = os.sysconf("SC_CLK_TCK")
at = time.clock_gettime(time.CLOCK_BOOTTIME)
print(json.dumps({
    "pid": int(child),
    "at": at,
    "started": time.time() - at + int(fields[19]) / ticks,
    "used": (int(fields[11]) + int(fields[12])) / ticks,
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSeen:
    """A broker's process: CPU seconds used at a moment of the boot clock; start in wall time."""

    pid: int
    at: float
    started: float
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a broker; seconds from exec to registered.

    own_seconds is the part after the interpreter's start and the imports, by the broker itself.
    """

    broker: int
    seconds: float
    own_seconds: float
    evidence: str


def look(kubernetes: Kubernetes, broker: int) -> ProcessSeen:
    """Return what the kernel says of a broker's process."""
    fields = json.loads(
        kubernetes.exec(f"default-{broker}", "python", "-c", LOOK, container="broker")
    )
    return ProcessSeen(**fields)


def start_of(kubernetes: Kubernetes, broker: int) -> Start:
    """Return how long the newest start of a broker took.

    Raises:  NotRecovered if it has not registered
    """
    process = look(kubernetes, broker)
    line = registration_in(kubernetes.kubectl("logs", f"default-{broker}", "-c", "broker"))
    if line is None:
        raise NotRecovered(f"broker {broker} has not registered")
    at = datetime.fromisoformat(str(line["time"])).timestamp()
    return Start(
        broker=broker,
        seconds=at - process.started,
        own_seconds=float(str(line["seconds"])),
        evidence=str(line["evidence"]),
    )


def registration_in(log: str) -> dict[str, object] | None:
    """Return the line of a broker's log that tells of its registration."""
    for text in log.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and line.get("message") == REGISTERED:
            return line
    return None


def cpu_percent(before: ProcessSeen, after: ProcessSeen) -> float:
    """Return the share of one core between two looks at the same process.

    Raises:  NotRecovered if it is another process by now
    """
    # The start is computed from two clocks: it may differ by what reading them takes.
    if before.pid != after.pid or abs(before.started - after.started) > 1:
        raise NotRecovered("a broker was started anew while its CPU was measured")
    return 100 * (after.used - before.used) / (after.at - before.at)
