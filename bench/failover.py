"""Brokers that go, one at a time, under load: the longest gap without acknowledgements.

Each run breaks the same four things in the same order. A broker's process is killed once at
most in one pod: the kubelet would start it again the second time only after a pause of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from strandline_cli.cluster_view import ClusterSeen
from strandline_cli.faults import NotRecovered, delete_pod, kill_broker
from strandline_cli.kubectl import Kubernetes
from strandline_cli.under_load import UnderLoad

from .figures import (
    GRACEFUL_CONTROLLER,
    GRACEFUL_LEADER,
    KILLED_CONTROLLER,
    KILLED_LEADER,
    QUIET,
    START_ALONE,
    Figure,
)
from .processes import start_of
from .run import BenchRun

QUIET_ACKS = 2_000
"""Acknowledgements between two faults, about three seconds: the gap without a fault is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFault:
    """What is broken, which broker it targets, and the figure of its gap."""

    figure: Figure
    name: str
    choose_target: Callable[[ClusterSeen], int]
    inject: Callable[[Kubernetes, int], None]


def the_controller(seen: ClusterSeen) -> int:
    """Return the broker that is the controller.

    Raises:  NotRecovered if none is recorded
    """
    if seen.controller < 0:
        raise NotRecovered("no broker is the controller")
    return seen.controller


def a_leader_to_kill(seen: ClusterSeen) -> int:
    """Return a leader that is not the controller, one whose pod had the fewest restarts."""
    return min(_leaders(seen), key=lambda broker: (_restarts(seen, broker), broker))


def a_leader_to_delete(seen: ClusterSeen) -> int:
    """Return a leader that is not the controller, one whose pod had the most restarts."""
    return min(_leaders(seen), key=lambda broker: (-_restarts(seen, broker), broker))


# The controller first: on a new topic every broker leads its share, and so does the controller.
FAULTS = (
    BenchFault(
        figure=KILLED_CONTROLLER,
        name="kill -9 of the controller",
        choose_target=the_controller,
        inject=kill_broker,
    ),
    BenchFault(
        figure=KILLED_LEADER,
        name="kill -9 of a leader",
        choose_target=a_leader_to_kill,
        inject=kill_broker,
    ),
    BenchFault(
        figure=GRACEFUL_LEADER,
        name="delete a leader's pod",
        choose_target=a_leader_to_delete,
        inject=delete_pod,
    ),
    BenchFault(
        figure=GRACEFUL_CONTROLLER,
        name="delete the controller's pod",
        choose_target=the_controller,
        inject=delete_pod,
    ),
)


def break_brokers(run: BenchRun, loaded: UnderLoad) -> None:
    """Inject every fault once, each after a quiet while, and note what it did."""
    for fault in FAULTS:
        note_quiet(run, loaded)
        seen = loaded.view.seen()
        broker = fault.choose_target(seen)
        fault_seen = loaded.fault(
            f"{fault.name}, broker {broker}",
            partial(fault.inject, run.environment.kubernetes, broker),
            broker=broker,
        )
        run.note(
            fault.figure,
            fault_seen.longest_gap_ms / 1000,
            broker=broker,
            controller=seen.controller,
            led=[each.number for each in seen.partitions.values() if each.leader == broker],
            changed=list(fault_seen.changed),
            gaps_ms=fault_seen.gaps_ms,
        )
        start = start_of(run.environment.kubernetes, broker)
        run.note(
            START_ALONE,
            start.seconds,
            broker=broker,
            after=fault.figure.key,
            own_seconds=start.own_seconds,
            evidence=start.evidence,
        )


def note_quiet(run: BenchRun, loaded: UnderLoad) -> None:
    """Let the load run for a while with nothing broken, and note its longest gap."""
    loaded.load.mark()
    loaded.wait_for_acks(QUIET_ACKS)
    gaps = loaded.load.gaps_since_mark()
    run.note(QUIET, max(gaps.values()) / 1000, gaps_ms=gaps)


def _leaders(seen: ClusterSeen) -> list[int]:
    leaders = {each.leader for each in seen.partitions.values()} - {seen.controller, -1}
    if not leaders:
        raise NotRecovered(f"no broker leads but broker {seen.controller}, the controller")
    return sorted(leaders)


def _restarts(seen: ClusterSeen, broker: int) -> int:
    pod = seen.pods.get(f"default-{broker}")
    return 0 if pod is None else pod.restarts
