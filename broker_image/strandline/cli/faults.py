"""Faults for brokers in pods, and what each of them did to a load.

Called by the demo, the bench and the tests on real pods. A fault is over when a leader or an
ISR has changed and then every replica is in sync again, every pod ready, and every partition
acknowledges; the gap is by the load's own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from strandline.errors import StrandlineError

from .cluster_view import ClusterView
from .kubectl import CommandFailed, Kubernetes
from .load_pod import LoadPod
from .verdict import FaultSeen

SILENT_MAX_MS = 300
"""A partition whose last acknowledgement is younger than this is served."""
RECOVERY_SECONDS = 60.0
"""Bound until every ISR is full again; acknowledgements come back much earlier."""
WARM_UP_SECONDS = 60.0
SETTLE_SECONDS = 90.0
BROKERS = 3

Wait = Callable[[Callable[[], bool], float], bool]
"""Wait for a condition for so many seconds at most; tells whether it came true."""


class NotRecovered(StrandlineError):
    """A cluster did not come back from a fault in time; names the fault and what is missing."""


def delete_pod(kubernetes: Kubernetes, broker: int) -> None:
    """Delete a broker's pod as `kubectl delete pod` does: it may hand its leaders over."""
    kubernetes.kubectl("delete", "pod", f"default-{broker}", "--wait=false")


def kill_broker(kubernetes: Kubernetes, broker: int) -> None:
    """Kill a broker's process with -9 from within its pod; process 1 is tini."""
    try:
        kubernetes.exec(
            f"default-{broker}",
            *("sh", "-c", "kill -9 $(cat /proc/1/task/1/children)"),
            container="broker",
        )
    except CommandFailed as error:
        # The shell may go down with the container before it has ended by itself.
        if "137" not in str(error):
            raise


def run_fault(
    name: str,
    inject: Callable[[], None],
    *,
    broker: int = -1,
    view: ClusterView,
    load: LoadPod,
    wait: Wait,
    limit_seconds: float = RECOVERY_SECONDS,
) -> FaultSeen:
    """Inject a fault under load, wait until it is over, and return what it did.

    Raises:  NotRecovered
    """
    before = load.last()
    view.mark()
    load.mark()
    view.say(f"FAULT {name}")
    at_ms = time.time_ns() // 1_000_000
    inject()
    over = wait(lambda: bool(view.changed_since_mark()) and is_healthy(view, load), limit_seconds)
    changed = tuple(view.changed_since_mark())
    if changed and not over:
        raise NotRecovered(f"{name}: not over after {limit_seconds:g} s: {unhealthy(view, load)}")
    after = load.last()
    seen = FaultSeen(
        name=name,
        changed=changed,
        broker=broker,
        at_ms=at_ms,
        gaps_ms=load.gaps_since_mark(),
        acked_before=0 if before is None else before.acked_total,
        acked_after=0 if after is None else after.acked_total,
    )
    view.say(f"over: longest gap {seen.longest_gap_ms} ms")
    return seen


def wait_for_acks(load: LoadPod, count: int, *, wait: Wait) -> None:
    """Wait until so many more records are acknowledged.

    Raises:  NotRecovered
    """
    begun = load.last()
    wanted = count + (0 if begun is None else begun.acked_total)

    def enough() -> bool:
        report = load.last()
        return report is not None and report.acked_total >= wanted

    if not wait(enough, WARM_UP_SECONDS):
        raise NotRecovered(f"{count} records were not acknowledged in {WARM_UP_SECONDS:g} s")


def settle(view: ClusterView, load: LoadPod, *, wait: Wait) -> dict[int, tuple[int, ...]]:
    """End the load and wait until every ISR is full; return the replicas by partition.

    Raises:  NotRecovered
    """
    load.stop()
    if not wait(load.ended, SETTLE_SECONDS):
        raise NotRecovered(f"the load did not end in {SETTLE_SECONDS:g} s")
    if not wait(lambda: view.seen().has_full_isrs, SETTLE_SECONDS):
        raise NotRecovered(f"not every ISR is full after {SETTLE_SECONDS:g} s")
    return {number: each.replicas for number, each in view.seen().partitions.items()}


def is_healthy(view: ClusterView, load: LoadPod) -> bool:
    """Tell whether nothing is unhealthy."""
    return not unhealthy(view, load)


def unhealthy(view: ClusterView, load: LoadPod) -> list[str]:
    """Return what is not as it should be under load."""
    seen, report = view.seen(), load.last()
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
