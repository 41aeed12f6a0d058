"""A topic under load, the faults injected, and the verdict on every record.

Used by the demo, the bench and the tests on real pods. A fault is over when a leader or an
ISR has changed and then every replica is in sync again, every pod ready, and every partition
acknowledges; the gap is by the load's own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strandline_checker.judge import HistoryVerdict

from .cluster_view import ClusterView
from .faults import NotRecovered
from .kubectl import Kubernetes
from .load_pod import LoadPod
from .topics import BROKERS
from .verdict import FaultSeen, judge_run, scan, vacuity

SILENT_MAX_MS = 300
"""A partition whose last acknowledgement is younger than this is served."""
RECOVERY_SECONDS = 60.0
"""Bound until every ISR is full again; acknowledgements come back much earlier."""
WARM_UP_SECONDS = 60.0
SETTLE_SECONDS = 90.0

Wait = Callable[[Callable[[], bool], float], bool]
"""Wait for a condition for at most these seconds; tell whether it came true."""


@dataclass(slots=True, kw_only=True)
class UnderLoad:
    """A topic whose load runs; faults holds the faults that are over."""

    kubernetes: Kubernetes
    topic: str
    view: ClusterView
    load: LoadPod
    wait: Wait
    faults: list[FaultSeen] = field(default_factory=list)

    def acked(self) -> int:
        """Return the acknowledgements so far."""
        report = self.load.last()
        return 0 if report is None else report.acked_total

    def wait_healthy(self, limit_seconds: float = WARM_UP_SECONDS) -> None:
        """Wait until nothing is unhealthy.

        Raises:  NotRecovered
        """
        if not self.wait(self.is_healthy, limit_seconds):
            raise NotRecovered(f"the load never came to run well: {self.unhealthy()}")

    def wait_for_acks(self, count: int, limit_seconds: float = WARM_UP_SECONDS) -> None:
        """Wait until `count` more records are acknowledged.

        Raises:  NotRecovered
        """
        wanted = self.acked() + count
        if not self.wait(lambda: self.acked() >= wanted, limit_seconds):
            raise NotRecovered(f"{count} records were not acknowledged in {limit_seconds:g} s")

    def fault(
        self,
        name: str,
        inject: Callable[[], None],
        *,
        broker: int = -1,
        wait: Wait | None = None,
        limit_seconds: float = RECOVERY_SECONDS,
    ) -> FaultSeen:
        """Inject a fault, wait until it is over, and return its effects.

        Raises:  NotRecovered
        """
        view, load, acked_before = self.view, self.load, self.acked()
        view.mark()
        load.mark()
        view.say(f"FAULT {name}")
        at_ms = time.time_ns() // 1_000_000
        inject()
        over = (wait or self.wait)(
            lambda: bool(view.changed_since_mark()) and self.is_healthy(), limit_seconds
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

    def settle(self, limit_seconds: float = SETTLE_SECONDS) -> dict[int, tuple[int, ...]]:
        """End the load and wait until every ISR is full; return the replicas by partition.

        Raises:  NotRecovered
        """
        self.load.stop()
        if not self.wait(self.load.ended, limit_seconds):
            raise NotRecovered(f"the load did not end in {limit_seconds:g} s")
        if not self.wait(lambda: self.view.seen().has_full_isrs, limit_seconds):
            raise NotRecovered(f"not every ISR is full after {limit_seconds:g} s")
        return {number: each.replicas for number, each in self.view.seen().partitions.items()}

    def judge(self, replicas: dict[int, tuple[int, ...]]) -> HistoryVerdict:
        """Return the verdict on every record of a load that has settled."""
        scanned = scan(self.kubernetes, range(BROKERS), topic=self.topic)
        return judge_run(self.load.history(), scanned, replicas)

    def vacuity(self, verdict: HistoryVerdict) -> list[str]:
        """Return why a run with this verdict shows nothing, empty if it shows enough."""
        return vacuity(verdict.acked, self.faults, load_exit_code=self.load.exit_code())

    def is_healthy(self) -> bool:
        """Tell whether nothing is unhealthy."""
        return not self.unhealthy()

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
        found += [
            f"partition {number}: silent for {gap} ms"
            for number, gap in silent.items()
            if gap > SILENT_MAX_MS
        ]
        return found
