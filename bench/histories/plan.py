"""Which faults hit which cluster when, from a seed.

A plan is the whole input of a history: the same plan gives the same history, byte for byte. Faults
come one after the other, each with time to heal, so that every effect has one cause.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

TOPICS_MAX: Final = 500
BROKERS_MAX: Final = 50
LENGTH_MS_MAX: Final = 31 * 24 * 3_600_000
START_MS: Final = 1_790_000_000_000
CHECKS_PER_LAG: Final = 2
"""A leader looks for replicas that fell behind twice in replica.lag.time.max.ms, as Kafka does."""


class FaultKind(StrEnum):
    """What may befall a cluster."""

    KILL = "kill"
    """A process ends without a word and is started again later."""
    SLOW_DISK = "slow_disk"
    """A broker's followers fall behind, leave after replica.lag.time.max.ms, and return."""
    CUT = "cut"
    """Nobody reaches a broker, Prometheus neither; it goes on taking itself for a leader."""
    CONTROLLER_LOSS = "controller_loss"
    """The controller loses its Lease; another broker is the controller."""
    ROLLING_RESTART = "rolling_restart"
    """Each broker hands its leaderships over, stops and starts, one after the other."""
    FLAP = "flap"
    """One topic's replicas on a broker leave the ISR and return, several times."""
    SCRAPE_GAP = "scrape_gap"
    """Prometheus takes no sample, or cannot scrape one broker; the cluster is well."""
    COUNTER_RESET = "counter_reset"
    """A process ends and is back within less than a second, its counters at 0."""
    ZOMBIE = "zombie"
    """A broker is cut off from the others, not from Prometheus, which sees two leaders."""
    UNCLEAN = "unclean"
    """A leader dies that was alone in its ISR; a replica from outside leads."""
    TRUNCATION = "truncation"
    """A leader dies with records that no follower has, and cuts them off when it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault; it has ended, but for what must heal, at until_ms."""

    kind: FaultKind
    at_ms: int
    until_ms: int
    broker: int | None = None
    """The broker that is hit; None if it is none, or each in turn."""
    topic: str | None = None
    """The topic that is hit; None if all are."""
    partition: int | None = None
    records: int = 0
    """Records that only the leader has when it dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A cluster, a range of time, and its faults in order."""

    cluster: str = "blue"
    seed: int = 0
    start_ms: int = START_MS
    length_ms: int = 600_000
    brokers: int = 3
    topics: int = 4
    partitions: int = 3
    """Of each topic."""
    replicas: int = 3
    rate: int = 200
    """Records that clients append to a partition in a second."""
    lag_time_max_ms: int = 10_000
    """replica.lag.time.max.ms."""
    rest_ms: int = 0
    """Time without a fault after one has healed."""
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("length_ms", self.length_ms, 1000, LENGTH_MS_MAX),
            ("brokers", self.brokers, 1, BROKERS_MAX),
            ("topics", self.topics, 1, TOPICS_MAX),
            ("partitions", self.partitions, 1, 1000),
            ("replicas", self.replicas, 1, self.brokers),
            ("rate", self.rate, 1, 1_000_000),
            ("lag_time_max_ms", self.lag_time_max_ms, 1000, 3_600_000),
            ("rest_ms", self.rest_ms, 0, 3_600_000),
        ):
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}; it accepts {least} to {most}")

    @property
    def end_ms(self) -> int:
        """Return the end of the range, exclusive."""
        return self.start_ms + self.length_ms

    @property
    def settle_ms(self) -> int:
        """Return the time after a fault within which all of its effects heal."""
        return self.lag_time_max_ms + 15_000

    def topic_names(self) -> list[str]:
        """Return the topics; clusters have the same ones."""
        return [f"topic-{number:03}" for number in range(self.topics)]

    def assignment(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return the brokers with a replica; the first one leads at the begin."""
        first = (int(topic.rpartition("-")[2]) + partition) % self.brokers
        return tuple((first + place) % self.brokers for place in range(self.replicas))

    def min_isr(self, topic: str) -> int:
        """Return min.insync.replicas: 1 for every other topic, so that data may be at risk."""
        return 1 if int(topic.rpartition("-")[2]) % 2 else min(2, self.replicas)

    def chance(self, *what: object) -> random.Random:
        """Return a source of chance of its own for each thing."""
        return random.Random("/".join(map(str, (self.seed, self.cluster, *what))))

    def subjects(self) -> Iterator[tuple[str, int]]:
        """Yield each topic and partition."""
        for topic in self.topic_names():
            for partition in range(self.partitions):
                yield topic, partition


LENGTHS_MS: Final[dict[FaultKind, tuple[int, int]]] = {
    FaultKind.KILL: (5_000, 40_000),
    FaultKind.CUT: (15_000, 40_000),
    FaultKind.CONTROLLER_LOSS: (2_000, 6_000),
    FaultKind.SCRAPE_GAP: (20_000, 60_000),
    FaultKind.COUNTER_RESET: (400, 900),
    FaultKind.ZOMBIE: (15_000, 40_000),
    FaultKind.TRUNCATION: (5_000, 20_000),
}
"""Least and greatest length; of the other kinds it follows from what they do."""
RESTART_MS: Final = 4_000
FLAPS: Final = 4
UNCLEAN_WAIT_MS: Final = 5_000
"""Time without a leader before an unclean election."""


def planned(plan: Plan, kinds: Sequence[FaultKind] = tuple(FaultKind)) -> Plan:
    """Return the plan with faults of these kinds, each kind once before any comes again.

    Faults that do not fit into the range with their healing are left out.
    """
    if not kinds:
        raise ValueError("kinds is empty; it accepts at least one kind of fault")
    chance = plan.chance("faults")
    faults: list[Fault] = []
    at_ms = plan.start_ms + plan.settle_ms
    while True:
        for kind in chance.sample(list(kinds), len(kinds)):
            fault = _fault(plan, kind, at_ms + chance.randrange(5_000), chance)
            at_ms = fault.until_ms + plan.settle_ms + plan.rest_ms
            if fault.until_ms + plan.settle_ms > plan.end_ms:
                return replace(plan, faults=tuple(faults))
            faults.append(fault)


def _fault(plan: Plan, kind: FaultKind, at_ms: int, chance: random.Random) -> Fault:
    broker: int | None = chance.randrange(plan.brokers)
    topic = partition = None
    lag_ms, records = plan.lag_time_max_ms, 0
    match kind:
        case FaultKind.SLOW_DISK:
            length = 2 * lag_ms + chance.randrange(20_000)
        case FaultKind.FLAP:
            length = FLAPS * flap_ms(plan)
            topic = chance.choice(plan.topic_names())
            broker = _follower(plan, topic, chance_of=broker)
        case FaultKind.ROLLING_RESTART:
            length, broker = plan.brokers * (RESTART_MS + plan.settle_ms), None
        case FaultKind.UNCLEAN:
            length = 2 * lag_ms + 3 * UNCLEAN_WAIT_MS + chance.randrange(10_000)
            names = plan.topic_names()
            # Mostly one whose leader may commit alone, so that the election loses data.
            topic = chance.choice(names[1::2] or names if chance.random() < 0.7 else names)
            partition = chance.randrange(plan.partitions)
            broker = plan.assignment(topic, partition)[0]
        case _:
            length = chance.randrange(*LENGTHS_MS[kind])
            if kind == FaultKind.TRUNCATION:
                records = chance.randrange(1, 500)
            if kind == FaultKind.CONTROLLER_LOSS or (
                kind == FaultKind.SCRAPE_GAP and chance.random() < 0.5
            ):
                broker = None
    return Fault(
        kind=kind,
        at_ms=at_ms,
        until_ms=at_ms + length,
        broker=broker,
        topic=topic,
        partition=partition,
        records=records,
    )


def _follower(plan: Plan, topic: str, *, chance_of: int | None) -> int | None:
    """Return the broker, or the next one that follows in the topic: others cannot fall behind."""
    followers = {
        each for number in range(plan.partitions) for each in plan.assignment(topic, number)[1:]
    }
    order = [((chance_of or 0) + step) % plan.brokers for step in range(plan.brokers)]
    return next((each for each in order if each in followers), chance_of)


def flap_ms(plan: Plan) -> int:
    """Return the time from one departure of a flapping replica to the next."""
    return 2 * plan.lag_time_max_ms + 4_000
