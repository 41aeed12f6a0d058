"""Brokers that end, one at a time, under load: the longest gap without acknowledgements.

Each run injects the same four faults in the same order. It kills a broker's process at most once
per pod: after a second kill the kubelet would pause before it starts the process again.
"""

from __future__ import annotations

from functools import partial

from strandline_cli.cluster_view import ClusterSeen
from strandline_cli.commands import NotRecovered
from strandline_cli.under_load import UnderLoad, delete_pod, kill_broker

from .figures import (
    GRACEFUL_CONTROLLER,
    GRACEFUL_LEADER,
    KILLED_CONTROLLER,
    KILLED_LEADER,
    QUIET,
    START_ALONE,
)
from .run import BenchRun

QUIET_ACKS = 2_000
"""Acknowledgements between two faults, about three seconds; they give the gap without a fault."""


def the_controller(seen: ClusterSeen) -> int:
    """Return the broker that is the controller; NotRecovered if none is recorded."""
    if seen.controller < 0:
        raise NotRecovered("no broker is the controller")
    return seen.controller


def a_leader_to_kill(seen: ClusterSeen) -> int:
    """Return a leader that is not the controller; its pod had the fewest restarts."""
    return min(_leaders(seen), key=partial(_restarts, seen))


def a_leader_to_delete(seen: ClusterSeen) -> int:
    """Return a leader that is not the controller; its pod had the most restarts."""
    return max(_leaders(seen), key=partial(_restarts, seen))


# The controller's kill comes first: on a new topic the controller leads partitions, as all do.
FAULTS = (
    (KILLED_CONTROLLER, "kill -9 of the controller", the_controller, kill_broker),
    (KILLED_LEADER, "kill -9 of a leader", a_leader_to_kill, kill_broker),
    (GRACEFUL_LEADER, "delete a leader's pod", a_leader_to_delete, delete_pod),
    (GRACEFUL_CONTROLLER, "delete the controller's pod", the_controller, delete_pod),
)
"""The figure of a fault's gap, the fault's name, the choice of its target, and its injection."""


def break_brokers(run: BenchRun, loaded: UnderLoad) -> None:
    """Inject every fault once, each after a quiet while, and note its gap."""
    for figure, name, choose_target, inject in FAULTS:
        note_quiet(run, loaded)
        seen = loaded.view.seen()
        broker = choose_target(seen)
        fault_seen = loaded.fault(
            f"{name}, broker {broker}", partial(inject, run.kubernetes, broker), broker=broker
        )
        run.note(
            figure,
            fault_seen.longest_gap_ms / 1000,
            broker=broker,
            controller=seen.controller,
            led=[each.number for each in seen.partitions.values() if each.leader == broker],
            changed=list(fault_seen.changed),
            gaps_ms=fault_seen.gaps_ms,
        )
        run.note_start(START_ALONE, broker, after=figure)


def note_quiet(run: BenchRun, loaded: UnderLoad) -> None:
    """Let the load run for a while without a fault, and note its longest gap."""
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
