"""Drawn histories of small clusters, as the samples that scrapes of them give.

Each history is one topic with one partition on three brokers of its own, so that Spark analyses
many at once. What happens is drawn, and need not be what healthy brokers do: references and
analyses read the same samples, and must agree on any.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline import names
from strandline.names import Metric
from strandline_analysis.xor_chunk import STALE_BITS
from tests.analysis.timeline import INTERVAL_MS, bits_of

START_MS = 1_790_000_040_000
"""The begin of a minute, so that tables of minutes begin with a whole one."""
UP = "up"
COUNTERS = ("shrinks", "expands", "records", "bytes", "in", "out", "diverged", "outrun")
Labels = tuple[tuple[str, str], ...]
History = dict[Labels, list[tuple[int, float | None]]]
"""By labels: (time in ms, value) in order of time; None is a stale marker."""


@dataclass(slots=True)
class Replica:
    """What one broker knows of the partition, and of itself."""

    began_ms: int
    alive: bool = True
    scraped: bool = True
    leads: bool = False
    epoch: int = 1
    since_ms: int = 0
    changed_ms: int = 0
    version: int = 1
    isr: frozenset[int] = frozenset({0, 1, 2})
    end: int = 0
    high: int = 0
    unclean: bool = False
    counted: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))


class DrawnCluster:
    """Three brokers with one partition, to which things happen by chance."""

    def __init__(self, seed: int, *, busy: float = 1.0) -> None:
        self.chance = random.Random(seed)
        self.topic = f"drawn-{seed}"
        self.pods = [f"c{seed}-{broker}" for broker in range(3)]
        self.replicas = [Replica(began_ms=START_MS - 60_000 - broker) for broker in range(3)]
        self.caught_up = [START_MS] * 3
        self.min_isr = self.chance.choice([1, 2, 2, 3])
        self.assigned = 3
        self.leader = 0
        self.epoch = 1
        self.busy = busy
        self.tells_bytes = seed % 10 > 0
        first = self.replicas[0]
        first.leads, first.since_ms, first.changed_ms = True, START_MS - 60_000, START_MS - 60_000

    def happen(self, now_ms: int) -> None:
        """Let one drawn thing happen."""
        what = self.chance.choice(
            [
                *("kill", "restart", "elect", "hide", "show", "cut", "zombie", "settings"),
                *("shrink", "shrink", "shrink", "expand", "expand", "expand"),
            ]
        )
        brokers = [broker for broker in range(3) if self.replicas[broker].alive]
        leader = self.replicas[self.leader]
        one = self.chance.choice(brokers) if brokers else self.leader
        match what:
            case "kill" if len(brokers) > 1:
                self.replicas[one].alive = False
            case "restart":
                self._restart(self.chance.randrange(3), now_ms)
            case "elect" if brokers:
                self._elect(one, now_ms, zombie=False)
            case "zombie" if brokers:
                self._elect(one, now_ms, zombie=True)
            case "shrink" if len(leader.isr) > 1:
                self._change(leader.isr - {self.chance.choice(sorted(leader.isr))}, now_ms)
            case "expand" if len(leader.isr) < 3:
                self._change(leader.isr | {self.chance.choice([0, 1, 2])}, now_ms)
            case "hide":
                self.replicas[one].scraped = False
            case "show":
                for replica in self.replicas:
                    replica.scraped = True
            case "cut":
                self._cut(self.replicas[self.chance.randrange(3)])
            case "settings":
                self.min_isr = self.chance.choice([1, 2, 3])
            case _:
                pass

    def run(self, span_ms: int) -> None:
        """Write and replicate for a while."""
        leader = self.replicas[self.leader]
        if not leader.alive:
            return
        written = self.chance.choice([0, 0, 1, 5, 20]) * span_ms // 1000
        leader.end += written
        leader.counted["records"] += written
        leader.counted["bytes"] += written * 100
        for broker, replica in enumerate(self.replicas):
            if replica is not leader and replica.alive and self.chance.random() < 0.7:
                leader.counted["out"] += max(0, leader.end - replica.end) * 100
                replica.counted["in"] += max(0, leader.end - replica.end) * 100
                replica.end, replica.high = leader.end, leader.high
                self.caught_up[broker] = -1
        if self.chance.random() < 0.8:
            ends = [self.replicas[broker].end for broker in leader.isr]
            leader.high = max(leader.high, min(ends, default=0))

    def shown(self, broker: int, now_ms: int) -> Iterator[tuple[Labels, float]]:
        """Yield what a scrape of a broker gives."""
        replica = self.replicas[broker]

        def row(metric: Metric | str, value: float, **labels: str) -> tuple[Labels, float]:
            name = metric if isinstance(metric, str) else metric.name
            given = {"__name__": name, "pod": self.pods[broker], "instance": f"10.{broker}:1"}
            return tuple(sorted((given | labels).items())), float(value)

        answers = replica.alive and replica.scraped
        yield row(UP, answers)
        if not answers:
            return
        counted, of_topic = replica.counted, {"topic": self.topic}
        of = {**of_topic, "partition": "0"}
        yield row(names.BROKER_START_TIMESTAMP_SECONDS, replica.began_ms / 1000)
        yield row(names.UNCLEAN_STARTS_TOTAL, replica.unclean)
        yield row(names.REPLICATION_BYTES_TOTAL, counted["in"], direction="in")
        yield row(names.REPLICATION_BYTES_TOTAL, counted["out"], direction="out")
        yield row(names.PARTITION_LEADER_EPOCH, replica.epoch, **of)
        yield row(names.PARTITION_IS_LEADER, replica.leads, **of)
        yield row(names.PARTITION_LOG_END_OFFSET, replica.end, **of)
        yield row(names.PARTITION_HIGH_WATERMARK, replica.high, **of)
        if self.tells_bytes:
            begin = replica.end // 20 * 10
            size = (replica.end - begin) * (60 + broker) + replica.end % 3
            yield row(names.PARTITION_LOG_START_OFFSET, begin, **of)
            yield row(names.PARTITION_LOG_SIZE_BYTES, size, **of)
        for reason in ("diverged", "outrun"):
            if counted[reason]:
                yield row(names.TRUNCATED_RECORDS_TOTAL, counted[reason], **of, reason=reason)
        if not replica.leads:
            return
        yield row(names.PRODUCED_RECORDS_TOTAL, counted["records"], **of_topic)
        yield row(names.PRODUCED_BYTES_TOTAL, counted["bytes"], **of_topic)
        yield row(names.PARTITION_PARTITION_EPOCH, replica.version, **of)
        yield row(names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS, replica.since_ms / 1000, **of)
        changed = names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS
        yield row(changed, replica.changed_ms / 1000, **of)
        yield row(names.PARTITION_ISR_SIZE, len(replica.isr), **of)
        yield row(names.PARTITION_REPLICAS, self.assigned, **of)
        yield row(names.PARTITION_MIN_INSYNC_REPLICAS, self.min_isr, **of)
        yield row(names.ISR_SHRINKS_TOTAL, counted["shrinks"], **of)
        yield row(names.ISR_EXPANDS_TOTAL, counted["expands"], **of)
        for other in range(3):
            of_other = {**of, "replica": str(other)}
            yield row(names.PARTITION_ISR_MEMBER, other in replica.isr, **of_other)
            yield row(names.REPLICA_LOG_END_OFFSET, self.replicas[other].end, **of_other)
            if self.caught_up[other] < 0:
                self.caught_up[other] = now_ms
            caught_up = names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS
            yield row(caught_up, self.caught_up[other] / 1000, **of_other)

    def _cut(self, replica: Replica) -> None:
        lost = min(self.chance.randrange(1, 30), replica.end)
        replica.end -= lost
        replica.high = min(replica.high, replica.end)
        # Some logs fall without a word.
        if lost % 3:
            replica.counted["diverged" if lost % 2 else "outrun"] += lost

    def _restart(self, broker: int, now_ms: int) -> None:
        self.replicas[broker] = Replica(
            began_ms=now_ms,
            epoch=self.epoch,
            end=self.replicas[broker].end,
            high=self.replicas[broker].high,
            unclean=self.chance.random() < 0.3,
        )
        if broker == self.leader:
            self._elect(broker, now_ms, zombie=False)

    def _elect(self, broker: int, now_ms: int, *, zombie: bool) -> None:
        before = self.replicas[self.leader]
        self.epoch += self.chance.choice([1, 1, 1, 2])
        if not zombie:
            for replica in self.replicas:
                replica.leads, replica.epoch = False, self.epoch
        self.leader = broker
        new = self.replicas[broker]
        new.leads, new.epoch, new.since_ms, new.changed_ms = True, self.epoch, now_ms, now_ms
        gone = frozenset(each for each in range(3) if not self.replicas[each].alive)
        new.isr, new.version = before.isr - gone | {broker}, before.version + 1

    def _change(self, isr: frozenset[int], now_ms: int) -> None:
        leader = self.replicas[self.leader]
        leader.counted["shrinks"] += len(isr) < len(leader.isr)
        leader.counted["expands"] += len(isr) > len(leader.isr)
        if isr != leader.isr:
            leader.isr, leader.changed_ms = isr, now_ms
            leader.version += 1


def drawn(seed: int, *, length: int, busy: float = 1.0) -> History:
    """Return the samples of a cluster over length ms, scraped every INTERVAL_MS.

    busy scales how often things happen; scrapes are late by some ms, and some are lost.
    """
    cluster = DrawnCluster(seed, busy=busy)
    chance = cluster.chance
    scrapes = []
    for broker in range(3):
        phase = chance.randrange(INTERVAL_MS)
        for due in range(phase, length - 20, INTERVAL_MS):
            lost = chance.random() < 0.02
            longer = chance.random() < 0.01
            scrapes.append((due + chance.randrange(20), broker, lost, longer))
    scrapes.sort()
    history: History = {}
    before: list[set[Labels]] = [set(), set(), set()]
    silent_until = [0, 0, 0]
    last, next_event = 0, chance.randrange(500, 6000)
    for at, broker, lost, longer in scrapes:
        while next_event <= at:
            cluster.run(next_event - last)
            last = next_event
            cluster.happen(START_MS + next_event)
            next_event += 1 + int(chance.randrange(100, 8000) / busy)
        cluster.run(at - last)
        last = at
        if longer:
            silent_until[broker] = at + chance.randrange(1000, 8000)
        if lost or at < silent_until[broker]:
            continue
        shown = dict(cluster.shown(broker, START_MS + at))
        for labels in before[broker] - shown.keys():
            history[labels].append((START_MS + at, None))
        for labels, value in shown.items():
            history.setdefault(labels, []).append((START_MS + at, value))
        before[broker] = set(shown)
    return history


def together(histories: Iterable[History]) -> History:
    """Return the series of several histories as one."""
    return {labels: samples for history in histories for labels, samples in history.items()}


def frame(spark: Any, history: History, *, gap_ms: float, start_ms: int, end_ms: int) -> Any:
    """Return a history as a DataFrame of schema.SAMPLES: with gap_ms 0 each sample by itself."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from strandline_analysis import columns, schema

    listed = list(history.items())
    counts = [len(samples) for _, samples in listed]
    flat = [sample for _, samples in listed for sample in samples]
    bits = [STALE_BITS if value is None else bits_of(value) for _, value in flat]
    samples = columns.ordered(
        [dict(labels) for labels, _ in listed],
        np.repeat(np.arange(len(listed)), counts),
        np.array([at for at, _ in flat], np.int64),
        np.array(bits, np.uint64),
        start_ms=start_ms,
        end_ms=end_ms,
    )
    rows = columns.runs(samples, gap_ms=gap_ms)
    batch = columns.record_batch(rows, to_arrow_schema(schema.SAMPLES, timezone="UTC"))
    return spark.createDataFrame(pa.Table.from_batches([batch]), schema.SAMPLES)


def of_metric(history: History, metric: Metric | str) -> Mapping[Labels, Sequence[Any]]:
    """Return the series of one metric."""
    name = metric if isinstance(metric, str) else metric.name
    return {labels: found for labels, found in history.items() if ("__name__", name) in labels}


def shifted(history: History, by: int) -> History:
    """Return the samples at other times, and the times that they tell."""
    return {
        labels: [
            (at + by, value if value is None or not _tells_time(labels) else value + by / 1000)
            for at, value in samples
        ]
        for labels, samples in history.items()
    }


def _tells_time(labels: Labels) -> bool:
    return str(dict(labels)["__name__"]).endswith("_timestamp_seconds")
