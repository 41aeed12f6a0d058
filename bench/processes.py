"""The broker's process in a pod: when it started, the CPU it has used, when it registered.

The bench reads the kernel's record of the process inside the pod, so neither the kubelet's rounded
times nor the time of the call are part of a figure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from strandline_cli.commands import NotRecovered
from strandline_cli.kubectl import Kubernetes

REGISTERED = "registered"
"""The message that a broker logs once its Broker.status is written."""

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


def look(kubernetes: Kubernetes, broker: int) -> ProcessSeen:
    """Return the kernel's record of a broker's process."""
    printed = kubernetes.exec(f"default-{broker}", "python", "-c", LOOK, container="broker")
    return ProcessSeen(**json.loads(printed))


def registration_in(log: str) -> dict[str, Any] | None:
    """Return the line of a broker's log about its registration."""
    for text in log.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and line.get("message") == REGISTERED:
            return line
    return None


def cpu_percent(before: ProcessSeen, after: ProcessSeen) -> float:
    """Return the share of one core used between two records; NotRecovered for two processes."""
    # The start is computed from two clocks: it may differ by the time of reading them.
    if before.pid != after.pid or abs(before.started - after.started) > 1:
        raise NotRecovered("a broker was started anew while its CPU was measured")
    return 100 * (after.used - before.used) / (after.at - before.at)
