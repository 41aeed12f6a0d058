"""What `strandline watch` knows: partitions, replicas, gaps, a time line; it reads no clock.

Times are seconds since the watch began. A partition is led while its Partition names a leader and
that broker responds. A gap is the time in which it is not led; times in which the API server is
away are in no gap, because nobody could tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from prometheus_client.parser import text_string_to_metric_families

from strandline import names

from .cluster_view import (
    PartitionSeen,
    PodSeen,
    TimelineEvent,
    partition_changes,
    partition_of,
    pod_changes,
)
from .kubectl import Object

PARTITIONS_MAX = 2000
"""Partitions that are followed; others are counted."""
EVENTS_MAX = 500
"""The last events that are kept; earlier ones are counted."""
FIGURE_NAMES = {
    names.PARTITION_HIGH_WATERMARK.name: "high_watermark",
    names.PARTITION_LOG_END_OFFSET.name: "log_end_offset",
    names.PARTITION_LEADER_EPOCH.name: "leader_epoch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSeen:
    """A replica's own figures: offsets, and the leader epoch that it obeys; -1 if not told."""

    high_watermark: int = -1
    log_end_offset: int = -1
    leader_epoch: int = -1


Replicas = Mapping[tuple[str, int], ReplicaSeen]
"""A broker's replicas by topic name and partition number."""


def replicas_of(metrics: str) -> dict[tuple[str, int], ReplicaSeen]:
    """Return a broker's replicas from its metrics; ValueError if the text is not metrics."""
    found: dict[tuple[str, int], ReplicaSeen] = {}
    for family in text_string_to_metric_families(metrics):
        figure = FIGURE_NAMES.get(family.name, "")
        for sample in family.samples if figure else ():
            key = sample.labels[names.TOPIC], int(sample.labels[names.PARTITION])
            if key in found or len(found) < PARTITIONS_MAX:
                seen = found.get(key, ReplicaSeen())
                found[key] = replace(seen, **{figure: int(sample.value)})
    return found


@dataclass(slots=True, kw_only=True)
class PartitionWatched:
    """A partition and its gaps in seconds; gap_since is when the present one began, or None."""

    topic: str
    seen: PartitionSeen
    elections: int = 0
    isr_changes: int = 0
    gaps: int = 0
    longest_gap: float = 0.0
    gap_since: float | None = None

    @property
    def name(self) -> str:
        """The name that people use, as in orders-0."""
        return f"{self.topic}-{self.seen.number}"

    def gap_at(self, now: float) -> float:
        """Return the longest gap up to now, the present one included."""
        present = 0.0 if self.gap_since is None else now - self.gap_since
        return max(self.longest_gap, present)


class WatchState:
    """The newest picture and what was counted since the watch began."""

    def __init__(self, topic: str = "") -> None:
        self.topic = topic
        self.partitions: dict[str, PartitionWatched] = {}
        self.left_out: set[str] = set()
        self.brokers: tuple[int, ...] = ()
        self.replicas: dict[int, Replicas] = {}
        self.silent: dict[int, str] = {}
        self.controller = -1
        self.controller_epoch = -1
        self.events: deque[TimelineEvent] = deque(maxlen=EVENTS_MAX)
        self.events_total = 0
        self.api_away_since: float | None = None
        self.api_away_seconds = 0.0
        self.api_outages = 0
        self._pods: dict[str, PodSeen] | None = None

    def say(self, text: str, now: float) -> None:
        """Add a sentence to the time line."""
        self.events_total += 1
        self.events.append(TimelineEvent(at_seconds=now, text=text))

    # --- the API server --------------------------------------------------------------------

    def partitions_listed(self, items: Iterable[Object], now: float) -> None:
        """Take a complete list of the cluster's Partitions."""
        listed = {each["metadata"]["name"]: each for each in items}
        for name in self.partitions.keys() - listed.keys():
            self._partition_gone(name, now)
        self.left_out &= listed.keys()
        for each in listed.values():
            self.partition_changed(each, now)

    def partition_changed(self, found: Object, now: float) -> None:
        """Take a Partition as it is now."""
        name, topic = found["metadata"]["name"], found["spec"]["topicName"]
        if self.topic not in {"", topic}:
            return
        seen = partition_of(found)
        known = self.partitions.get(name)
        if known is None:
            if len(self.partitions) >= PARTITIONS_MAX:
                if len(self.left_out) < PARTITIONS_MAX:
                    self.left_out.add(name)
                return
            self.left_out.discard(name)
            known = self.partitions[name] = PartitionWatched(topic=topic, seen=seen)
        # The first leader of a new partition is no election that somebody waited for.
        elif known.seen.leader_epoch >= 0:
            for text in partition_changes(known.name, known.seen, seen):
                self.say(text, now)
            known.elections += seen.leader >= 0 and seen.leader_epoch != known.seen.leader_epoch
            known.isr_changes += set(seen.isr) != set(known.seen.isr)
        known.seen = seen
        self._judge(known, now)

    def partition_deleted(self, found: Object, now: float) -> None:
        """Forget a Partition that is deleted."""
        name = found["metadata"]["name"]
        self.left_out.discard(name)
        if name in self.partitions:
            self._partition_gone(name, now)

    def brokers_listed(self, brokers: Iterable[int]) -> None:
        """Take the ids of the cluster's brokers."""
        self.brokers = tuple(sorted(brokers))
        for known in (self.replicas, self.silent):
            for broker in known.keys() - set(self.brokers):
                del known[broker]

    def controller_seen(self, broker: int, epoch: int, now: float) -> None:
        """Take the recorded controller, -1 for none."""
        if broker >= 0 and epoch != self.controller_epoch:
            if self.controller_epoch >= 0:
                self.say(f"broker {broker} is controller, epoch {epoch}", now)
            self.controller, self.controller_epoch = broker, epoch

    def pods_seen(self, pods: dict[str, PodSeen], now: float) -> None:
        """Take all pods of the cluster's brokers."""
        before, self._pods = self._pods, pods
        if before is None:
            return
        for name in sorted(before.keys() | pods.keys()):
            for text in pod_changes(name, before.get(name), pods.get(name)):
                self.say(text, now)

    def api_away(self, why: str, now: float) -> None:
        """Note that the API server does not respond; gaps cannot be told until it does."""
        if self.api_away_since is not None:
            return
        self.say(f"the API server does not respond ({why}); brokers go on meanwhile", now)
        self.api_away_since = now
        self.api_outages += 1
        for each in self.partitions.values():
            self._end_gap(each, now, told=False)

    def api_responds(self, now: float) -> None:
        """Note that the API server responds."""
        if self.api_away_since is None:
            return
        away = now - self.api_away_since
        self.say(f"the API server responds again, after {away:.1f} s", now)
        self.api_away_since = None
        self.api_away_seconds += away
        for each in self.partitions.values():
            self._judge(each, now)

    # --- brokers ---------------------------------------------------------------------------

    def broker_responds(self, broker: int, replicas: Replicas, now: float) -> None:
        """Take a broker's own figures."""
        if self.silent.pop(broker, None) is not None and broker in self.replicas:
            self.say(f"broker {broker} responds again", now)
        self.replicas[broker] = replicas
        self._judge_led_by(broker, now)

    def broker_silent(self, broker: int, why: str, since: float, now: float) -> None:
        """Note that a broker did not respond to a request that was sent at `since`."""
        if broker in self.silent:
            return
        self.silent[broker] = why
        self.say(f"broker {broker} does not respond ({why})", now)
        self._judge_led_by(broker, since)

    def is_led(self, partition: PartitionSeen) -> bool:
        """Tell whether a partition has a leader that responds, or never did to us."""
        # A broker whose metrics may not be read at all says nothing about its partitions.
        never = partition.leader not in self.replicas
        return partition.leader >= 0 and (never or partition.leader not in self.silent)

    # --- gaps ------------------------------------------------------------------------------

    def _judge_led_by(self, broker: int, now: float) -> None:
        for each in self.partitions.values():
            if each.seen.leader == broker:
                self._judge(each, now)

    def _judge(self, each: PartitionWatched, now: float) -> None:
        if self.api_away_since is not None:
            return
        if self.is_led(each.seen):
            self._end_gap(each, now, told=True)
        elif each.gap_since is None and each.seen.leader_epoch >= 0:
            each.gap_since = now
            each.gaps += 1

    def _end_gap(self, each: PartitionWatched, now: float, *, told: bool) -> None:
        if each.gap_since is None:
            return
        seconds = max(0.0, now - each.gap_since)
        each.longest_gap, each.gap_since = max(each.longest_gap, seconds), None
        if told:
            self.say(f"{each.name}: led again by {each.seen.leader} after {seconds:.1f} s", now)

    def _partition_gone(self, name: str, now: float) -> None:
        self.say(f"{self.partitions.pop(name).name} is deleted", now)
