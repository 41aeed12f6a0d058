"""Runs one plan to its end and says what became of it.

First the safety phase with faults; then they end, and the cluster must heal within a bound. The
result of a plan is the same on every machine and in every process.
"""

from __future__ import annotations

import traceback
import zlib
from dataclasses import dataclass

from strandline.errors import InvariantViolation

from .clients import SimulatedClients
from .environment import SimulatedEnvironment
from .fault_counts import FaultCounts
from .healing import Healing
from .hosts import Hosts
from .invariants import Invariant, InvariantBroken
from .nemesis import Nemesis
from .plan import Plan
from .simulated_operator import SimulatedOperator
from .virtual_time import VirtualTime

SETTLED_CHECK_INTERVAL_MS = 50
EVENTS_MAX = 200_000
"""A schedule that needs more than this goes in circles."""
VACUOUS_BELOW = 20
"""Records acknowledged after an election that was not the first: fewer prove nothing."""

_UNDECLARED = (LookupError, TypeError, ValueError, AttributeError)


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
    eligible_elections: int
    """Elections of a leader that was eligible, and not in the ISR."""
    controllers: int
    deciding_brokers: int
    """Different brokers that committed something as controller."""
    moves_finished: int
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


class World:
    """Everything of one schedule, made from a plan and connected, from below upward."""

    def __init__(self, plan: Plan) -> None:
        self.environment = SimulatedEnvironment(plan)
        hosts = Hosts(self.environment)
        clients = SimulatedClients(self.environment)
        hosts.wake_all()
        Nemesis(self.environment, hosts)
        SimulatedOperator(self.environment)
        self.healing = Healing(self.environment, hosts, clients)


def run(plan: Plan) -> ScheduleResult:
    """Run a plan."""
    world = World(plan)
    invariant, detail = "", ""
    try:
        _run_to_end(world)
    except InvariantBroken as broken:
        invariant, detail = broken.invariant, str(broken)
    except InvariantViolation as error:
        invariant, detail = Invariant.CORE_HOLDS, _describe(error)
    except _UNDECLARED as error:
        invariant, detail = Invariant.NOTHING_ELSE_RAISES, _describe(error)
    return _result(world, invariant, detail)


def _run_to_end(world: World) -> None:
    virtual_time, plan = world.environment.virtual_time, world.environment.plan
    while virtual_time.now_ms < plan.heal_at_ms:
        _run_next(virtual_time)
    end_ms, check_ms = plan.heal_at_ms + plan.settle_max_ms, virtual_time.now_ms
    missing = "nothing was checked"
    while virtual_time.now_ms <= end_ms:
        _run_next(virtual_time)
        if virtual_time.now_ms >= check_ms:
            check_ms = virtual_time.now_ms + SETTLED_CHECK_INTERVAL_MS
            missing = world.healing.unsettled()
            if not missing:
                break
    else:
        raise InvariantBroken(Invariant.EVERYTHING_HEALS, missing=missing)
    for tp in world.environment.invariants.committed:
        world.environment.invariants.check_survival(tp)


def _run_next(virtual_time: VirtualTime) -> None:
    if not virtual_time.run_next() or virtual_time.count > EVENTS_MAX:
        raise InvariantBroken(
            Invariant.EVERYTHING_HEALS, missing="an end", events=virtual_time.count
        )


def _describe(error: BaseException) -> str:
    """Return the error and the last lines of the stack, from where it comes."""
    frames = "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()
    return f"{type(error).__name__}: {error}\n{frames}"


def _result(world: World, invariant: str, detail: str) -> ScheduleResult:
    environment = world.environment
    invariants, virtual_time = environment.invariants, environment.virtual_time
    states = [found.state for found in environment.api.store.partitions.values()]
    logs = [
        (broker_id, str(tp), log.values)
        for broker_id, disk in environment.disks.items()
        for tp, log in sorted(disk.logs.items())
    ]
    text = f"{states} {logs} {virtual_time.count}"
    digest = zlib.crc32(text.encode(), environment.trace.digest)
    return ScheduleResult(
        seed=environment.plan.seed,
        broken_invariant=invariant,
        detail=detail,
        trace=environment.trace.lines() if invariant else (),
        events=virtual_time.count,
        virtual_ms=virtual_time.now_ms,
        healed_after_ms=virtual_time.now_ms - environment.plan.heal_at_ms,
        elections=sum(invariants.elections.values()),
        eligible_elections=invariants.eligible_elections,
        controllers=invariants.controllers_elected,
        deciding_brokers=len(invariants.deciding_brokers),
        moves_finished=invariants.moves_finished,
        data_losses=environment.loss_budget.losses,
        awaiting_rejoin_max=environment.loss_budget.awaiting_rejoin_max,
        fault_counts=environment.fault_counts,
        acknowledged=sum(map(len, invariants.acknowledged.values())),
        acknowledged_after_election=max(invariants.acknowledged_after.values()),
        offline=sum(1 for state in states if state is None or state.leader < 0),
        digest=f"{digest:08x}",
    )
