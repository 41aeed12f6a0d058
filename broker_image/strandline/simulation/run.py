"""Runs one plan to its end and says what became of it.

First the safety phase with faults; then they end, and the cluster must heal within a bound. The
result of a plan is the same on every machine and in every process.
"""

from __future__ import annotations

import traceback
import zlib
from dataclasses import dataclass

from strandline.errors import InvariantViolation

from .fault_counts import FaultCounts
from .invariants import CORE_HOLDS, EVERYTHING_HEALS, InvariantBroken
from .plan import Plan
from .virtual_time import VirtualTime
from .world import World

SETTLED_CHECK_INTERVAL_MS = 50
EVENTS_MAX = 200_000
"""A schedule that needs more than this goes in circles."""
TRACE_LINE_MAX = 700
VACUOUS_BELOW = 20
"""Records acknowledged after an election that was not the first: fewer prove nothing."""

_SIGNS_OF_A_BUG = (InvariantViolation, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """What became of a schedule; broken_invariant is "" if every one held."""

    seed: int
    broken_invariant: str
    detail: str
    trace: tuple[str, ...]
    events: int
    virtual_ms: int
    healed_after_ms: int
    elections: int
    controllers: int
    deciding_brokers: int
    """Different brokers that committed something as controller."""
    data_losses: int
    awaiting_rejoin_max: int
    """How many replicas of one partition had lost data and not joined again, at the most."""
    fault_counts: FaultCounts
    acknowledged: int
    acknowledged_after_election: int
    offline: int
    digest: str

    @property
    def is_vacuous(self) -> bool:
        """Whether too few records were acknowledged to prove anything about elections."""
        return self.acknowledged_after_election < VACUOUS_BELOW


def run(plan: Plan) -> ScheduleResult:
    """Run a plan."""
    world = World(plan)
    invariant, detail = "", ""
    try:
        _run_to_end(world)
    except InvariantBroken as broken:
        invariant, detail = broken.invariant, str(broken)
    except _SIGNS_OF_A_BUG as error:
        invariant, detail = CORE_HOLDS, f"{type(error).__name__}: {error}\n{_last_frames(error)}"
    return _result(world, invariant, detail)


def _run_to_end(world: World) -> None:
    virtual_time, plan = world.virtual_time, world.plan
    while virtual_time.now_ms < plan.heal_at_ms:
        _run_next(virtual_time)
    end_ms, check_ms = plan.heal_at_ms + plan.settle_max_ms, virtual_time.now_ms
    missing = "nothing was checked"
    while virtual_time.now_ms <= end_ms:
        _run_next(virtual_time)
        if virtual_time.now_ms >= check_ms:
            check_ms = virtual_time.now_ms + SETTLED_CHECK_INTERVAL_MS
            missing = world.unsettled()
            if not missing:
                break
    else:
        raise InvariantBroken(EVERYTHING_HEALS, missing=missing)
    for tp in world.invariants.committed:
        world.invariants.check_survival(tp)


def _run_next(virtual_time: VirtualTime) -> None:
    if not virtual_time.run_next() or virtual_time.count > EVENTS_MAX:
        raise InvariantBroken(EVERYTHING_HEALS, missing="an end", events=virtual_time.count)


def _last_frames(error: BaseException) -> str:
    """Return the last lines of the stack, from where the error comes."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()


def _result(world: World, invariant: str, detail: str) -> ScheduleResult:
    invariants, plan = world.invariants, world.plan
    states = [found.state for found in world.store.partitions.values()]
    logs = [
        (broker_id, str(tp), log.values)
        for broker_id, host in world.hosts.items()
        for tp, log in sorted(host.disk.logs.items())
    ]
    last = zlib.crc32(f"{states} {logs} {world.virtual_time.count}".encode(), world.digest)
    shown = world.trace if invariant else ()
    return ScheduleResult(
        seed=plan.seed,
        broken_invariant=invariant,
        detail=detail,
        trace=tuple(f"{ms:>6} {who}: {what}"[:TRACE_LINE_MAX] for ms, who, what in shown),
        events=world.virtual_time.count,
        virtual_ms=world.virtual_time.now_ms,
        healed_after_ms=world.virtual_time.now_ms - plan.heal_at_ms,
        elections=sum(invariants.elections.values()),
        controllers=world.controllers_elected,
        deciding_brokers=len(world.deciding_brokers),
        data_losses=world.data_losses,
        awaiting_rejoin_max=world.awaiting_rejoin_max,
        fault_counts=world.fault_counts,
        acknowledged=sum(map(len, invariants.acknowledged.values())),
        acknowledged_after_election=max(invariants.acknowledged_after.values()),
        offline=sum(1 for state in states if state is None or state.leader < 0),
        digest=f"{last:08x}",
    )
