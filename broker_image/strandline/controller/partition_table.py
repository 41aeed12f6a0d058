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
    BrokerId,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
)

from .broker_entry import InSession
from .partition_entry import PartitionEntry
from .partition_index import PartitionIndex


class PartitionTable:
    """All partitions of the cluster."""

    def __init__(self) -> None:
        self.entries: dict[str, PartitionEntry] = {}
        self._names: dict[TopicPartition, str] = {}
        self._aside: dict[str, StoredPartition] = {}
        self._index = PartitionIndex()

    def entry_of(self, tp: TopicPartition) -> PartitionEntry | None:
        """Return the entry of a partition, None if unknown."""
        name = self._names.get(tp)
        return None if name is None else self.entries[name]

    def of_topic(self, topic_id: TopicId) -> list[str]:
        """Return the names of a topic's partitions."""
        return self._index.of_topic(topic_id)

    def led_by(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that a broker leads."""
        return self._index.led_by(broker_id)

    def offline_count(self) -> int:
        """Count the partitions without a leader, those without a status among them."""
        return self._index.without_leader()

    def with_member(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that have a broker among their replicas, stored or assigned."""
        return self._index.with_member(broker_id)

    def concerned_by(self, session: InSession) -> list[str]:
        """Return the partitions that a broker's report may change, though it is no replica.

        Those that wait for all brokers, and those that it has a log of.
        """
        strangers: dict[str, TopicPartition] = {}
        for tp in session.hosted:
            entry = self.entry_of(tp)
            state = None if entry is None else entry.stored.state
            if entry is not None and state and session.broker_id not in state.replicas:
                strangers[entry.stored.name] = tp
        return self._index.waiting_with(strangers)

    def waiting_for_all(self) -> list[str]:
        """Return the partitions that wait for all brokers of the cluster."""
        return self._index.waiting()

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

    def adopt(self, partition: StoredPartition, now_ms: int) -> bool:
        """Adopt an object that a read or a watch showed. False: it is older, and is ignored."""
        self._aside.pop(partition.name, None)
        entry = self.entries.get(partition.name)
        if entry is not None and entry.stored.tp == partition.tp:
            return entry.adopt(partition)
        if entry is None:
            on_stored = self._index.replace
            entry = PartitionEntry(stored=partition, first_seen_ms=now_ms, on_stored=on_stored)
        else:
            self._names.pop(entry.stored.tp, None)
            self._index.remove(entry.stored)
            entry = entry.replaced_by(partition, now_ms)
        self.entries[partition.name] = entry
        self._names[partition.tp] = partition.name
        self._index.add(partition)
        return True

    def remove(self, name: str) -> PartitionEntry | None:
        """Forget a partition whose object is gone."""
        entry = self.entries.pop(name, None)
        if entry is not None:
            self._names.pop(entry.stored.tp, None)
            self._index.remove(entry.stored)
        return entry
