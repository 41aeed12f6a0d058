"""Partitions by what they have in common, so that an event costs by the partitions it concerns.

`PartitionTable` alone fills it, with each object as last read. Names come back in the order of
partitions, as a walk through all of them would find them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerId,
    StoredPartition,
    TopicId,
    TopicPartition,
)

Key = TypeVar("Key")


class PartitionIndex:
    """The names of partitions by leader, by member and by topic, and of those that wait."""

    def __init__(self) -> None:
        self._by_leader: _Groups[BrokerId | None] = _Groups()
        self._by_member: _Groups[BrokerId] = _Groups()
        self._by_topic: _Groups[TopicId] = _Groups()
        self._waiting: dict[str, TopicPartition] = {}

    def add(self, stored: StoredPartition) -> None:
        """Take a version of an object."""
        name, tp = stored.name, stored.tp
        self._by_leader.add(name, tp, [_leader(stored)])
        self._by_member.add(name, tp, members(stored))
        self._by_topic.add(name, tp, [tp.topic_id])
        if waits(stored):
            self._waiting[name] = tp

    def remove(self, stored: StoredPartition) -> None:
        """Forget the version of an object that was added."""
        self._by_leader.remove(stored.name, [_leader(stored)])
        self._by_member.remove(stored.name, members(stored))
        self._by_topic.remove(stored.name, [stored.tp.topic_id])
        self._waiting.pop(stored.name, None)

    def replace(self, before: StoredPartition, after: StoredPartition) -> None:
        """Take a version of an object in place of another one."""
        self.remove(before)
        self.add(after)

    def led_by(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that a broker leads."""
        return _ordered(self._by_leader.of(broker_id))

    def with_member(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that have a broker among their replicas, stored or assigned."""
        return _ordered(self._by_member.of(broker_id))

    def of_topic(self, topic_id: TopicId) -> list[str]:
        """Return a topic's partitions."""
        return _ordered(self._by_topic.of(topic_id))

    def waiting(self) -> list[str]:
        """Return the partitions that wait for all brokers of the cluster."""
        return _ordered(self._waiting)

    def waiting_with(self, others: dict[str, TopicPartition]) -> list[str]:
        """Return the partitions that wait for all brokers, and others."""
        return _ordered({**self._waiting, **others})

    def without_leader(self) -> int:
        """Count the partitions without a leader, those without a status among them."""
        return len(self._by_leader.of(None)) + len(self._by_leader.of(NO_LEADER))


class _Groups(Generic[Key]):
    """Partitions by key; one may have several. A group without partitions takes no memory."""

    def __init__(self) -> None:
        self._groups: dict[Key, dict[str, TopicPartition]] = {}

    def of(self, key: Key) -> dict[str, TopicPartition]:
        return self._groups.get(key, {})

    def add(self, name: str, tp: TopicPartition, keys: Iterable[Key]) -> None:
        for key in keys:
            self._groups.setdefault(key, {})[name] = tp

    def remove(self, name: str, keys: Iterable[Key]) -> None:
        for key in keys:
            group = self._groups[key]
            del group[name]
            if not group:
                del self._groups[key]


def members(stored: StoredPartition) -> set[BrokerId]:
    """Return the brokers that are replicas of a partition, or shall be."""
    state = stored.state
    return {*stored.assigned, *(() if state is None else state.replicas)}


def waits(stored: StoredPartition) -> bool:
    """Tell whether a partition waits for the logs of all brokers."""
    return stored.state is None or stored.state.reason == STATE_LOST


def _leader(stored: StoredPartition) -> BrokerId | None:
    return None if stored.state is None else stored.state.leader


def _ordered(found: dict[str, TopicPartition]) -> list[str]:
    return sorted(found, key=found.__getitem__)
