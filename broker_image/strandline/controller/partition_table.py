"""The partitions as they were last read, by object name.

One object of a partition counts: the one named `<topic object>-<number>`. While its topic is
unknown it is the first that was seen. Every other one is set aside (ADR 0036).

Quorum lists, quorum reads and watches fill the table; `partition_reconciler` works on it. Only an
object with the same or a higher partition epoch replaces another: resourceVersions are opaque and
have no order. The compare-and-swap of the next write finds a mistake in the table.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerId,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
)

from .broker_entry import InSession
from .partition_entry import PartitionEntry


class PartitionTable:
    """All partitions of the cluster."""

    def __init__(self) -> None:
        self.entries: dict[str, PartitionEntry] = {}
        self._names: dict[TopicPartition, str] = {}
        self._aside: dict[str, StoredPartition] = {}

    def entry_of(self, tp: TopicPartition) -> PartitionEntry | None:
        """Return the entry of a partition, None if unknown."""
        name = self._names.get(tp)
        return None if name is None else self.entries[name]

    def of_topic(self, topic_id: TopicId) -> list[str]:
        """Return the names of a topic's partitions."""
        return [self._names[tp] for tp in sorted(self._names) if tp.topic_id == topic_id]

    def led_by(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that a broker leads."""
        return [name for name, entry in self._sorted() if _leader(entry) == broker_id]

    def offline_count(self) -> int:
        """Count the partitions without a leader, those without a status among them."""
        return sum(1 for entry in self.entries.values() if _leader(entry) in (None, NO_LEADER))

    def with_member(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that have a broker among their replicas, stored or assigned."""
        found = []
        for name, entry in self._sorted():
            state = entry.stored.state
            stored = () if state is None else state.replicas
            if broker_id in stored or broker_id in entry.stored.assigned:
                found.append(name)
        return found

    def concerned_by(self, session: InSession) -> list[str]:
        """Return the partitions that a broker's report may change, though it is no replica.

        Those that wait for all brokers, and those that it has a log of.
        """
        found = []
        for name, entry in self._sorted():
            state, has_log = entry.stored.state, entry.stored.tp in session.hosted
            if _waits(entry) or (has_log and state and session.broker_id not in state.replicas):
                found.append(name)
        return found

    def waiting_for_all(self) -> list[str]:
        """Return the partitions that wait for all brokers of the cluster."""
        return [name for name, entry in self._sorted() if _waits(entry)]

    def counts(self, partition: StoredPartition, topic: StoredTopic | None) -> bool:
        """Tell whether this object is the one that counts of its partition."""
        if topic is not None:
            return partition.name == f"{topic.name}-{partition.tp.partition}"
        known = self.entry_of(partition.tp)
        return known is None or known.stored.name == partition.name

    def set_aside(self, partition: StoredPartition) -> bool:
        """Keep an object that does not count; it has no entry. False: it was set aside before."""
        known = self._aside.get(partition.name)
        self._aside[partition.name] = partition
        return known is None or known.tp != partition.tp

    def aside_of(self, topic_id: TopicId) -> list[StoredPartition]:
        """Return the objects that are set aside of a topic."""
        return [found for _, found in sorted(self._aside.items()) if found.tp.topic_id == topic_id]

    def forget_aside(self, names: Iterable[str]) -> None:
        """Forget objects that are set aside, if these are."""
        for name in names:
            self._aside.pop(name, None)

    def names_aside(self) -> set[str]:
        """Return the names of the objects that are set aside."""
        return set(self._aside)

    def has_state_aside(self, tp: TopicPartition) -> bool:
        """Tell whether an object of this partition that does not count has a state."""
        return any(found.tp == tp and found.state for found in self._aside.values())

    def _sorted(self) -> list[tuple[str, PartitionEntry]]:
        return sorted(self.entries.items(), key=lambda item: item[1].stored.tp)

    def adopt(self, partition: StoredPartition, now_ms: int) -> bool:
        """Adopt an object that a read or a watch showed. False: it is older, and is ignored."""
        self._aside.pop(partition.name, None)
        entry = self.entries.get(partition.name)
        if entry is not None and entry.stored.tp == partition.tp:
            return entry.adopt(partition)
        if entry is None:
            entry = PartitionEntry(stored=partition, first_seen_ms=now_ms)
        else:
            self._names.pop(entry.stored.tp, None)
            entry = entry.replaced_by(partition, now_ms)
        self.entries[partition.name] = entry
        self._names[partition.tp] = partition.name
        return True

    def remove(self, name: str) -> PartitionEntry | None:
        """Forget a partition whose object is gone."""
        entry = self.entries.pop(name, None)
        if entry is not None:
            self._names.pop(entry.stored.tp, None)
        return entry


def _leader(entry: PartitionEntry) -> BrokerId | None:
    return None if entry.stored.state is None else entry.stored.state.leader


def _waits(entry: PartitionEntry) -> bool:
    state = entry.stored.state
    return state is None or state.reason == STATE_LOST
