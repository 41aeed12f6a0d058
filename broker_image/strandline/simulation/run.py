"""Runs one plan to its end and says what became of it.

First the safety phase with faults, then calm: the cluster must heal within a bound. The
result of a plan is the same on every machine and in every process.
"""

from __future__ import annotations

import traceback
import zlib
from dataclasses import dataclass

from strandline.errors import InvariantViolation

from .happenings import Happened
from .plan import Plan
from .promises import CORE_HOLDS, EVERYTHING_HEALS, PromiseBroken
from .timeline import Timeline
from .world import World

SETTLED_LOOK_MS = 50
EVENTS_MAX = 200_000
"""A schedule that needs more than this goes in circles."""
TRACE_LINE_MAX = 700
VACUOUS_BELOW = 20
"""Records acknowledged after an election that was not the first: fewer prove nothing."""

_SIGNS_OF_A_BUG = (InvariantViolation, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a schedule; promise is "" if everything held."""

    seed: int
    promise: str
    detail: str
    trace: tuple[str, ...]
    events: int
    virtual_ms: int
    healed_after_ms: int
    elections: int
    controllers: int
    deciders: int
    """Different brokers that committed something as controller."""
    losses: int
    not_back_max: int
    """How many replicas of one partition had lost data and not joined again, at the most."""
    happened: Happened
    acknowledged: int
    acknowledged_after_election: int
    offline: int
    digest: str

    @property
    def is_vacuous(self) -> bool:
        """Whether too little happened to prove anything about elections."""
        return self.acknowledged_after_election < VACUOUS_BELOW


def run(plan: Plan) -> Outcome:
    """Run a plan."""
    world = World(plan)
    promise, detail = "", ""
    try:
        _run_to_the_end(world)
    except PromiseBroken as broken:
        promise, detail = broken.promise, str(broken)
    except _SIGNS_OF_A_BUG as error:
        promise, detail = CORE_HOLDS, f"{type(error).__name__}: {error}\n{_place(error)}"
    return _outcome(world, promise, detail)


def _run_to_the_end(world: World) -> None:
    timeline, plan = world.timeline, world.plan
    while timeline.now_ms < plan.calm_ms:
        _run_next(timeline)
    end_ms, look_ms = plan.calm_ms + plan.settle_max_ms, timeline.now_ms
    missing = "nothing was looked at"
    while timeline.now_ms <= end_ms:
        _run_next(timeline)
        if timeline.now_ms >= look_ms:
            look_ms = timeline.now_ms + SETTLED_LOOK_MS
            missing = world.unsettled()
            if not missing:
                break
    else:
        raise PromiseBroken(EVERYTHING_HEALS, missing=missing)
    for tp in world.promises.committed:
        world.promises.check_survival(tp)


def _run_next(timeline: Timeline) -> None:
    if not timeline.run_next() or timeline.count > EVENTS_MAX:
        raise PromiseBroken(EVERYTHING_HEALS, missing="an end", events=timeline.count)


def _place(error: BaseException) -> str:
    """Return the last lines of the stack, from where the error comes."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()


def _outcome(world: World, promise: str, detail: str) -> Outcome:
    promises, plan = world.promises, world.plan
    states = [found.state for found in world.store.partitions.values()]
    logs = [
        (broker_id, str(tp), log.values)
        for broker_id, machine in world.machines.items()
        for tp, log in sorted(machine.disk.logs.items())
    ]
    last = zlib.crc32(f"{states} {logs} {world.timeline.count}".encode(), world.digest)
    shown = world.trace if promise else ()
    return Outcome(
        seed=plan.seed,
        promise=promise,
        detail=detail,
        trace=tuple(f"{ms:>6} {who}: {what}"[:TRACE_LINE_MAX] for ms, who, what in shown),
        events=world.timeline.count,
        virtual_ms=world.timeline.now_ms,
        healed_after_ms=world.timeline.now_ms - plan.calm_ms,
        elections=sum(promises.elections.values()),
        controllers=world.controllers_elected,
        deciders=len(world.deciders),
        losses=world.losses,
        not_back_max=world.not_back_max,
        happened=world.happened,
        acknowledged=sum(map(len, promises.acknowledged.values())),
        acknowledged_after_election=max(promises.acknowledged_after.values()),
        offline=sum(1 for state in states if state is None or state.leader < 0),
        digest=f"{last:08x}",
    )
