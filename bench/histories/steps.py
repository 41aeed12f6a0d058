"""What each fault does to brokers, as steps in order of time.

Called by `brokers` and `partition`: the first keeps what all partitions share, the second lets each
partition feel the steps of its own replicas.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .plan import FLAPS, RESTART_MS, UNCLEAN_WAIT_MS, Fault, FaultKind, Plan, flap_ms

DETECT_MS: Final = (100, 900)
"""From the end of a process until the controller counts it as dead."""
SESSION_MS: Final = (2_000, 4_000)
"""The same of a broker that is only cut off."""
LEASE_MS: Final = (3_000, 5_000)
"""From the end of a controller until there is another one."""
HANDOVER_MS: Final = 400
"""From the handover of leaderships to the end of the process."""
PREFER_BEFORE_MS: Final = 2_000
"""From the election of preferred leaders to the earliest next fault."""
FLAP_REST_MS: Final = 3_000
"""Of each turn of a flapping replica: the time in which it fetches."""


class Action(StrEnum):
    """What happens to a broker."""

    DIE = "die"
    LOST = "lost"
    """The controller counts it as dead."""
    START = "start"
    CUT = "cut"
    HEAL = "heal"
    BEHIND = "behind"
    """It no longer fetches."""
    AHEAD = "ahead"
    HAND_OVER = "hand_over"
    PREFER = "prefer"
    """It leads where it is the first in the assignment and in sync."""
    UNCLEAN = "unclean"
    """A replica from outside the ISR may lead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens to a broker, or, if topic is given, to one of its topics."""

    at_ms: int
    action: Action
    broker: int | None
    """None only of UNCLEAN: whoever may."""
    topic: str | None = None
    partition: int | None = None
    records: int = 0
    """Of DIE: records that only this log has."""
    hidden: bool = False
    """Of CUT: Prometheus does not reach the broker either."""

    def concerns(self, topic: str, partition: int) -> bool:
        """Tell whether a partition may feel the step."""
        return self.topic in {None, topic} and self.partition in {None, partition}


def steps_of(
    plan: Plan, fault: Fault, chance: random.Random, *, hits_controller: bool
) -> Iterator[Step]:
    """Yield the steps of a fault in order of time; at last preferred leaders lead again.

    Shape:   hits_controller: the broker was the controller, so that its Lease must run out first
    """
    yield from _steps_of(plan, fault, chance, hits_controller=hits_controller)
    healed_ms = fault.until_ms + plan.settle_ms - PREFER_BEFORE_MS
    for broker in range(plan.brokers):
        yield Step(at_ms=healed_ms, action=Action.PREFER, broker=broker)


def _steps_of(
    plan: Plan, fault: Fault, chance: random.Random, *, hits_controller: bool
) -> Iterator[Step]:
    at, until, broker = fault.at_ms, fault.until_ms, fault.broker
    lost = min(at + chance.randrange(*(LEASE_MS if hits_controller else DETECT_MS)), until - 1)
    match fault.kind:
        case FaultKind.KILL | FaultKind.TRUNCATION:
            yield Step(at_ms=at, action=Action.DIE, broker=broker, records=fault.records)
            yield Step(at_ms=lost, action=Action.LOST, broker=broker)
            yield Step(at_ms=until, action=Action.START, broker=broker)
        case FaultKind.COUNTER_RESET:
            yield Step(at_ms=at, action=Action.DIE, broker=broker)
            yield Step(at_ms=at + (until - at) // 2, action=Action.LOST, broker=broker)
            yield Step(at_ms=until, action=Action.START, broker=broker)
        case FaultKind.CUT | FaultKind.ZOMBIE:
            lost = at + chance.randrange(*(LEASE_MS if hits_controller else SESSION_MS))
            hidden = fault.kind == FaultKind.CUT
            yield Step(at_ms=at, action=Action.CUT, broker=broker, hidden=hidden)
            yield Step(at_ms=lost, action=Action.LOST, broker=broker)
            yield Step(at_ms=until, action=Action.HEAL, broker=broker, hidden=hidden)
        case FaultKind.SLOW_DISK:
            yield Step(at_ms=at, action=Action.BEHIND, broker=broker)
            yield Step(at_ms=until, action=Action.AHEAD, broker=broker)
        case FaultKind.FLAP:
            for number in range(FLAPS):
                begin = at + number * flap_ms(plan)
                end = begin + flap_ms(plan) - FLAP_REST_MS
                for time_ms, action in ((begin, Action.BEHIND), (end, Action.AHEAD)):
                    yield Step(at_ms=time_ms, action=action, broker=broker, topic=fault.topic)
        case FaultKind.ROLLING_RESTART:
            yield from _rolling(plan, at)
        case FaultKind.UNCLEAN:
            yield from _unclean(plan, fault, lost - at)
        case FaultKind.CONTROLLER_LOSS | FaultKind.SCRAPE_GAP:
            pass  # no replica feels it


def _rolling(plan: Plan, at_ms: int) -> Iterator[Step]:
    for broker in range(plan.brokers):
        begin = at_ms + broker * (RESTART_MS + plan.settle_ms)
        end = begin + HANDOVER_MS
        yield Step(at_ms=begin, action=Action.HAND_OVER, broker=broker)
        yield Step(at_ms=end, action=Action.DIE, broker=broker)
        yield Step(at_ms=end + 1, action=Action.LOST, broker=broker)
        yield Step(at_ms=begin + RESTART_MS, action=Action.START, broker=broker)


def _unclean(plan: Plan, fault: Fault, lost_after_ms: int) -> Iterator[Step]:
    """Yield: a broker leads, its followers fall behind and leave, it dies, one of them leads."""
    topic, partition, leader = fault.topic, fault.partition, fault.broker
    if topic is None or partition is None:
        raise ValueError("topic and partition of an unclean election are None")
    others = [each for each in plan.assignment(topic, partition) if each != leader]
    begin = fault.at_ms
    die = begin + 2 * plan.lag_time_max_ms + UNCLEAN_WAIT_MS

    def step(at_ms: int, action: Action, broker: int | None) -> Step:
        return Step(at_ms=at_ms, action=action, broker=broker, topic=topic, partition=partition)

    yield step(begin, Action.PREFER, leader)
    for each in others:
        yield step(begin + HANDOVER_MS, Action.BEHIND, each)
    yield Step(at_ms=die, action=Action.DIE, broker=leader)
    yield Step(at_ms=die + lost_after_ms, action=Action.LOST, broker=leader)
    for each in others:
        yield step(die + UNCLEAN_WAIT_MS, Action.AHEAD, each)
    yield step(die + UNCLEAN_WAIT_MS, Action.UNCLEAN, None)
    yield Step(at_ms=fault.until_ms, action=Action.START, broker=leader)
