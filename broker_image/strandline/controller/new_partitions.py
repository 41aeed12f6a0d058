"""Metadata of new partitions, held back until clients can be told of their whole topic.

A topic comes into being by one write for each partition. A producer that saw some of them would
spread its keys over too few, and a client refuses a partition that it was not told of (ADR 0077).
"""

from __future__ import annotations

from collections import Counter

from strandline.model import TopicId, TopicPartition


class NewPartitions:
    """The partitions that have a state, by topic, and those of which no client knows yet."""

    def __init__(self, *, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._counts: Counter[TopicId] = Counter()
        self._held: dict[TopicId, set[TopicPartition]] = {}
        self._due_ms: dict[TopicId, int] = {}
        """When a topic is told of at the latest, whole or not."""

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `take_due` has something to return."""
        return min(self._due_ms.values(), default=None)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Tell whether a partition is held back."""
        return tp in self._held.get(tp.topic_id, ())

    def learn(
        self, tp: TopicPartition, partition_count: int, *, is_new: bool, now_ms: int
    ) -> set[TopicPartition]:
        """Take a partition that has its first state; partition_count is how many its topic has.

        Returns: the partitions to tell of now; one that is not new is among them
        """
        self._counts[tp.topic_id] += 1
        if is_new:
            self._held.setdefault(tp.topic_id, set()).add(tp)
            self._due_ms.setdefault(tp.topic_id, now_ms + self._wait_ms)
        told = set() if is_new else {tp}
        is_whole = self._counts[tp.topic_id] >= partition_count
        return told | self._take(tp.topic_id) if is_whole else told

    def take_due(self, now_ms: int) -> set[TopicPartition]:
        """Return the partitions that were held back for long enough."""
        due = [topic_id for topic_id, due_ms in self._due_ms.items() if due_ms <= now_ms]
        return {tp for topic_id in due for tp in self._take(topic_id)}

    def forget(self, tp: TopicPartition) -> None:
        """Take a partition that went."""
        self._counts[tp.topic_id] -= 1
        if self._counts[tp.topic_id] <= 0:
            del self._counts[tp.topic_id]
        held = self._held.get(tp.topic_id, set())
        held.discard(tp)
        if not held:
            self._take(tp.topic_id)

    def _take(self, topic_id: TopicId) -> set[TopicPartition]:
        self._due_ms.pop(topic_id, None)
        return self._held.pop(topic_id, set())
