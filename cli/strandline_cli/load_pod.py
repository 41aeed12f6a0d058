"""The load as a pod, followed from outside: its reports, and at the end its history.

The pod has two containers over one volume: `load` writes the history and ends, `keeper` stays,
so that the history can be read afterwards. All times are those of the load's own monotonic clock,
so the delay of its reports changes no figure.
"""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import dataclass

from .commands import CommandFailed, start
from .kubectl import Kubernetes, Object
from .release import PARTITIONS

HISTORY_PATH = "/history/history.jsonl"
RATE = 110.0
"""Records a second and partition: the demo promises at least a hundred acknowledgements."""
LOAD_SECONDS = 900
"""Longer than any demo or run of the bench, which end the load themselves."""
REPORT_SECONDS = 0.25
START_LIMIT_SECONDS = 120
READ_LIMIT_SECONDS = 300.0
"""Reading a history of a few hundred thousand lines takes seconds."""
IMAGE_USER = 65532

RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A line of the load: figures by partition since its start, gap_ms since the line before."""

    at_ms: int
    acked: dict[int, int]
    silent_ms: dict[int, int]
    gap_ms: dict[int, int]


def bootstrap(cluster: str = "default") -> str:
    """Return the address at which a pod of the namespace finds a BrokerCluster."""
    return f"{cluster}-bootstrap:9092"


def manifest(image: str, *, name: str = "load", topic: str, cluster: str = "default") -> Object:
    """Return the pod; it passes the restricted pod security standard."""
    load = [
        *("strandline", "load", "--consume"),
        f"--bootstrap={bootstrap(cluster)}",
        f"--topic={topic}",
        f"--partitions={PARTITIONS}",
        f"--rate={RATE:g}",
        f"--seconds={LOAD_SECONDS}",
        f"--report-seconds={REPORT_SECONDS}",
        # A library that gives a record up begins a new producer epoch, and writes what it had sent
        # by then twice. This one never does, so a record that is there twice is the brokers' fault.
        f"--delivery-timeout-ms={LOAD_SECONDS * 1000}",
        f"--history={HISTORY_PATH}",
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": "load"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 2,
            "securityContext": {"fsGroup": IMAGE_USER},
            "containers": [
                _container("load", image, load),
                _container("keeper", image, ["sleep", "infinity"]),
            ],
            "volumes": [{"name": "history", "emptyDir": {}}],
        },
    }


def _container(name: str, image: str, args: list[str]) -> Object:
    return {
        "name": name,
        "image": image,
        "args": args,
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "history", "mountPath": "/history"}],
    }


def parse_report(line: str) -> Report | None:
    """Return the report in a line of the load's output, None if it is no report."""
    try:
        fields = json.loads(line)
        by_partition = {
            key: {int(number): int(value) for number, value in fields[key].items()}
            for key in ("acked", "silent_ms", "gap_ms")
        }
        return Report(at_ms=fields["at_ms"], **by_partition)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def end_load(kubernetes: Kubernetes, pod: str) -> None:
    """Tell the load in a pod to end: it waits for outstanding records and reads the rest."""
    terminate = "import os, signal; os.kill(1, signal.SIGTERM)"
    kubernetes.exec_end(pod, "python", "-c", terminate, container="load")


def load_exit_code(kubernetes: Kubernetes, pod: str) -> int | None:
    """Return the exit code of the load in a pod, None while it runs."""
    try:
        status = kubernetes.get("pod", pod).get("status", {})
    except CommandFailed:
        return None
    for container in status.get("containerStatuses", ()):
        if container["name"] == "load" and "terminated" in container["state"]:
            return int(container["state"]["terminated"]["exitCode"])
    return None


class LoadPod:
    """A running load from a manifest; `close` ends the reading of its reports, not the load."""

    def __init__(self, kubernetes: Kubernetes, pod: Object) -> None:
        self._kubernetes = kubernetes
        self.name: str = pod["metadata"]["name"]
        self._lock = threading.Lock()
        self._last: Report | None = None
        self._per_second: dict[int, float] = {}
        self._gaps: dict[int, int] = {}
        kubernetes.apply(pod)
        kubernetes.wait_ready(f"pod/{self.name}", START_LIMIT_SECONDS)
        self._closed = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def last(self) -> Report | None:
        """Return the newest report."""
        with self._lock:
            return self._last

    def acks_per_second(self) -> dict[int, float]:
        """Return the rates over the last second or so."""
        with self._lock:
            return dict(self._per_second)

    def mark(self) -> None:
        """Forget the longest gaps so far."""
        with self._lock:
            self._gaps = {}

    def gaps_since_mark(self) -> dict[int, int]:
        """Return the longest time without an acknowledgement since the last `mark`, ms."""
        with self._lock:
            return dict(self._gaps)

    def _follow(self) -> None:
        recent: list[Report] = []
        command = self._kubernetes.command(
            *("kubectl", "logs", "--follow", "--tail=1", self.name, "-c", "load")
        )
        while not self._closed.is_set():
            with start(command) as self._process:
                for line in self._process.stdout or ():
                    report = parse_report(line)
                    if report is not None:
                        recent = [*recent[-4:], report]
                        self._take(report, recent[0])
            if self._closed.is_set() or self.exit_code() is not None:
                return

    def _take(self, report: Report, before: Report) -> None:
        passed = (report.at_ms - before.at_ms) / 1000
        with self._lock:
            self._last = report
            for partition, gap in report.gap_ms.items():
                self._gaps[partition] = max(gap, self._gaps.get(partition, 0))
            if passed > 0:
                self._per_second = {
                    partition: (count - before.acked.get(partition, 0)) / passed
                    for partition, count in report.acked.items()
                }

    def stop(self) -> None:
        """Tell the load to end: it waits for outstanding records and reads the rest."""
        end_load(self._kubernetes, self.name)

    def exit_code(self) -> int | None:
        """Return the load's exit code, None while it runs."""
        return load_exit_code(self._kubernetes, self.name)

    def history(self) -> list[str]:
        """Return the lines of the history, with their line ends."""
        text = self._kubernetes.exec(
            *(self.name, "cat", HISTORY_PATH), container="keeper", limit_seconds=READ_LIMIT_SECONDS
        )
        return text.splitlines(keepends=True)

    def close(self) -> None:
        """Stop reading reports."""
        self._closed.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join()
