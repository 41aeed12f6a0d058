"""A partition's history that is known to the millisecond, and the samples that scrapes take.

A test moves leaders and ISRs, scrapes every pod at its own phase, and compares the tables of an
analysis with this history.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from strandline import names
from strandline_analysis.remote_read import Series
from strandline_analysis.xor_chunk import STALE_BITS
from tests.analysis.xor_encoder import encode

INTERVAL_MS = 1000
CHUNK_SAMPLES = 120
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of one partition from `at_ms` on."""

    at_ms: int
    leader: int
    epoch: int
    isr: frozenset[int]
    version: int
    """The partition epoch."""
    since_ms: int
    changed_ms: int
    dead: frozenset[int] = frozenset()
    unscraped: frozenset[int] = frozenset()
    """Brokers that live and serve although their scrapes fail."""


@dataclass(slots=True)
class PartitionTimeline:
    """One partition with three replicas; callers give its methods rising times."""

    partition: int = 0
    start_ms: int = 1_790_000_000_000
    states: list[State] = field(default_factory=list)
    deaths: dict[int, int] = field(default_factory=dict)
    """Time at which a leader died, by its leader epoch."""

    def __post_init__(self) -> None:
        self.states.append(
            State(
                at_ms=self.start_ms - 60_000,
                leader=0,
                epoch=1,
                isr=frozenset({0, 1, 2}),
                version=1,
                since_ms=self.start_ms - 60_000,
                changed_ms=self.start_ms - 60_000,
            )
        )

    @property
    def now(self) -> State:
        return self.states[-1]

    def elect(self, at: int, leader: int, isr: set[int]) -> None:
        """Elect another broker; `at` is ms after the start, in all methods."""
        at_ms = self.start_ms + at
        self._add(
            at_ms=at_ms,
            leader=leader,
            epoch=self.now.epoch + 1,
            isr=frozenset(isr),
            version=self.now.version + 1,
            since_ms=at_ms,
            changed_ms=at_ms,
        )

    def change_isr(self, at: int, isr: set[int]) -> None:
        """Set the ISR, as if the controller accepted the leader's proposal."""
        at_ms = self.start_ms + at
        self._add(at_ms=at_ms, isr=frozenset(isr), version=self.now.version + 1, changed_ms=at_ms)

    def kill(self, at: int, broker: int) -> None:
        """End a broker's process."""
        if broker == self.now.leader:
            self.deaths[self.now.epoch] = self.start_ms + at
        self._add(at_ms=self.start_ms + at, dead=self.now.dead | {broker})

    def revive(self, at: int, broker: int) -> None:
        """Start a broker's process again."""
        self._add(at_ms=self.start_ms + at, dead=self.now.dead - {broker})

    def hide(self, at: int, broker: int) -> None:
        """Let a living broker's scrapes fail from now on."""
        self._add(at_ms=self.start_ms + at, unscraped=self.now.unscraped | {broker})

    def show(self, at: int, broker: int) -> None:
        """Let a broker's scrapes succeed again."""
        self._add(at_ms=self.start_ms + at, unscraped=self.now.unscraped - {broker})

    def at(self, time_ms: int) -> State:
        """Return the state at a moment."""
        return next(state for state in reversed(self.states) if state.at_ms <= time_ms)

    def between(self, first_ms: int, last_ms: int) -> list[State]:
        """Return the states between two moments, including that at the first."""
        return [self.at(first_ms), *(s for s in self.states if first_ms < s.at_ms <= last_ms)]

    def _add(self, *, at_ms: int, **changes: Any) -> None:
        if at_ms < self.now.at_ms:
            raise ValueError("times only rise")
        self.states.append(replace(self.now, at_ms=at_ms, **changes))


def scraped(
    timeline: PartitionTimeline,
    *,
    length: int,
    phases: Sequence[int] = (0, 300, 700),
    lost: frozenset[tuple[int, int]] = frozenset(),
) -> list[Series]:
    """Return the series of three pods that are scraped every second for length ms.

    Shape:   `lost` holds (broker, number of the scrape) of scrapes that leave no sample at all
    """
    series: dict[Labels, list[tuple[int, int]]] = {}
    for broker, phase in enumerate(phases):
        shown_before: set[Labels] = set()
        for number, offset in enumerate(range(phase, length, INTERVAL_MS)):
            if (broker, number) in lost:
                continue
            at_ms = timeline.start_ms + offset
            shown = dict(_exposition(timeline, timeline.at(at_ms), broker))
            for labels in shown_before - shown.keys():
                series[labels].append((at_ms, STALE_BITS))
            for labels, value in shown.items():
                series.setdefault(labels, []).append((at_ms, bits_of(value)))
            shown_before = set(shown)
    return [
        Series(dict(labels), list(_chunks(samples))) for labels, samples in sorted(series.items())
    ]


def bits_of(value: float) -> int:
    """Return the bits of a double."""
    bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    return bits


def _exposition(
    timeline: PartitionTimeline, state: State, broker: int
) -> Iterator[tuple[Labels, float]]:
    if broker in state.dead | state.unscraped:
        return

    def row(metric: names.Metric, value: float, **labels: str) -> tuple[Labels, float]:
        given = {
            "__name__": metric.name,
            "pod": f"default-{broker}",
            "instance": f"10.0.0.{broker}:8080",
            "topic": "orders",
            "partition": str(timeline.partition),
            **labels,
        }
        return tuple(sorted(given.items())), value

    leads = broker == state.leader
    yield row(names.PARTITION_LEADER_EPOCH, state.epoch)
    yield row(names.PARTITION_IS_LEADER, leads)
    if not leads:
        return
    yield row(names.PARTITION_PARTITION_EPOCH, state.version)
    yield row(names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS, state.since_ms / 1000)
    yield row(names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS, state.changed_ms / 1000)
    for replica in range(3):
        yield row(names.PARTITION_ISR_MEMBER, replica in state.isr, replica=str(replica))


def _chunks(samples: list[tuple[int, int]]) -> Iterator[bytes]:
    for start in range(0, len(samples), CHUNK_SAMPLES):
        yield encode(samples[start : start + CHUNK_SAMPLES])
