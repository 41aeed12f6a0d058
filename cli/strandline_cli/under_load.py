"""A topic under load, the faults injected, and the verdict on every record.

The demo, the bench and the tests on real pods use it. A fault is over when a leader or an ISR has
changed, and then every replica is in sync again, every pod is ready, and every partition
acknowledges. A gap is a time without acknowledgements by the load's own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strandline.model import BrokerId
from strandline_checker.history import read_history
from strandline_checker.judge import HistoryVerdict, judge

from .cluster_view import ClusterView
from .commands import NotRecovered
from .kubectl import Kubernetes
from .load_pod import LoadPod
from .release import BROKERS
from .verdict import FaultSeen, vacuity

SILENT_MAX_MS = 300
"""A partition whose last acknowledgement is older than this counts as not served."""
RECOVERY_SECONDS = 60.0
"""Bound until a fault is over: ISRs fill up last, long after acknowledgements come back."""
WARM_UP_SECONDS = 60.0
SETTLE_SECONDS = 90.0
SCAN_LIMIT_SECONDS = 300.0

Wait = Callable[[Callable[[], bool], float], bool]
"""Wait for a condition for at most these seconds; tell whether it came true."""


@dataclass(slots=True, kw_only=True)
class UnderLoad:
    """A topic whose load runs; faults holds the faults that are over."""

    kubernetes: Kubernetes
    view: ClusterView
    load: LoadPod
    wait: Wait
    faults: list[FaultSeen] = field(default_factory=list)

    def acked(self) -> int:
        """Return the acknowledgements so far."""
        report = self.load.last()
        return 0 if report is None else sum(report.acked.values())

    def wait_healthy(self, limit_seconds: float = WARM_UP_SECONDS) -> None:
        """Wait until nothing is unhealthy; NotRecovered if that takes too long."""
        if not self.wait(lambda: not self.unhealthy(), limit_seconds):
            raise NotRecovered(f"the load never came to run well: {self.unhealthy()}")

    def wait_for_acks(self, count: int, limit_seconds: float = WARM_UP_SECONDS) -> None:
        """Wait until `count` more records are acknowledged; NotRecovered if that takes too long."""
        wanted = self.acked() + count
        if not self.wait(lambda: self.acked() >= wanted, limit_seconds):
            raise NotRecovered(f"{count} records were not acknowledged in {limit_seconds:g} s")

    def fault(
        self,
        name: str,
        inject: Callable[[], object],
        *,
        broker: int = -1,
        limit_seconds: float = RECOVERY_SECONDS,
    ) -> FaultSeen:
        """Inject a fault, wait until it is over, else NotRecovered, and return its effects."""
        view, load, acked_before = self.view, self.load, self.acked()
        view.mark()
        load.mark()
        view.say(f"FAULT {name}")
        at_ms = time.time_ns() // 1_000_000
        inject()
        over = self.wait(
            lambda: bool(view.changed_since_mark()) and not self.unhealthy(), limit_seconds
        )
        changed = tuple(view.changed_since_mark())
        if changed and not over:
            raise NotRecovered(f"{name}: not over after {limit_seconds:g} s: {self.unhealthy()}")
        seen = FaultSeen(
            name=name,
            changed=changed,
            broker=broker,
            at_ms=at_ms,
            gaps_ms=load.gaps_since_mark(),
            acked_before=acked_before,
            acked_after=self.acked(),
        )
        self.faults.append(seen)
        view.say(f"over: longest gap {seen.longest_gap_ms} ms")
        return seen

    def settle(self, limit_seconds: float = SETTLE_SECONDS) -> dict[int, frozenset[BrokerId]]:
        """End the load, wait until every ISR is full, else NotRecovered; return the replicas."""
        self.load.stop()
        if not self.wait(lambda: self.load.exit_code() is not None, limit_seconds):
            raise NotRecovered(f"the load did not end in {limit_seconds:g} s")
        if not self.wait(lambda: self.view.seen().has_full_isrs, limit_seconds):
            raise NotRecovered(f"not every ISR is full after {limit_seconds:g} s")
        return {
            number: frozenset(BrokerId(broker) for broker in each.replicas)
            for number, each in self.view.seen().partitions.items()
        }

    def judge(self, replicas: dict[int, frozenset[BrokerId]]) -> HistoryVerdict:
        """Return the verdict on every record of a load that has settled.

        Raises:  CommandFailed if a broker's log cannot be read to its end
        """
        lines = self.load.history()
        for broker in range(BROKERS):
            printed = self.kubernetes.exec(
                f"{self.view.cluster}-{broker}",
                *("python", "-m", "strandline.dump_log", "--lines"),
                *(f"--broker={broker}", f"--topic={self.view.topic}"),
                container="broker",
                limit_seconds=SCAN_LIMIT_SECONDS,
            )
            lines += printed.splitlines(keepends=True)
        return judge(read_history(lines), replicas=replicas)

    def vacuity(self, verdict: HistoryVerdict) -> list[str]:
        """Return why a run with this verdict shows nothing, empty if it shows enough."""
        return vacuity(verdict.acked, self.faults, load_exit_code=self.load.exit_code())

    def unhealthy(self) -> list[str]:
        """Return a sentence for each part that is unhealthy under load."""
        seen, report = self.view.seen(), self.load.last()
        found = [
            f"partition {each.number}: leader {each.leader}, ISR {list(each.isr)}"
            for each in seen.partitions.values()
            if not each.has_full_isr
        ]
        ready = [name for name, pod in seen.pods.items() if pod.ready]
        if len(ready) < BROKERS:
            found.append(f"only {ready} are ready")
        silent = {} if report is None else report.silent_ms
        if silent.keys() != seen.partitions.keys():
            found.append("not every partition has acknowledged anything")
        return found + [
            f"partition {number}: silent for {gap} ms"
            for number, gap in silent.items()
            if gap > SILENT_MAX_MS
        ]


def delete_pod(kubernetes: Kubernetes, broker: int, cluster: str = "default") -> None:
    """Delete a broker's pod as `kubectl delete pod` does: the broker may hand its leaders over."""
    kubernetes.kubectl("delete", "pod", f"{cluster}-{broker}", "--wait=false")


def kill_broker(kubernetes: Kubernetes, broker: int, cluster: str = "default") -> None:
    """Kill a broker's process with -9 from within its pod; process 1 is tini."""
    kill = "kill -9 $(cat /proc/1/task/1/children)"
    kubernetes.exec_end(f"{cluster}-{broker}", "sh", "-c", kill, container="broker")
