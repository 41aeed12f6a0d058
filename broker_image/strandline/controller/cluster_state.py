"""The partitions as they were last read, by object name.

Filled from quorum lists, quorum reads and watches; `partition_work` works on it. An object
is only ever replaced by one that is not older, judged by its partition epoch:
resourceVersions are opaque and can not be ordered. Whatever is wrong here is found by the
compare-and-swap of the next write.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.model import NO_LEADER, BrokerId, StoredPartition, TopicId, TopicPartition

from .events import IsrChangeRequested
from .reports import Written


@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """An AlterPartition that is not answered; read_since: the object was read after it came."""

    event: IsrChangeRequested
    read_since: bool = False


@dataclass(slots=True, kw_only=True)
class Slot:
    """One partition: the object as last read, and what is going on with it.

    request_id is the store call in flight, None when idle; writing is set while that call is
    a write. Nothing runs before not_before_ms.
    """

    stored: StoredPartition
    first_seen_ms: int
    request_id: int | None = None
    writing: Written | None = None
    must_read: bool = False
    state_lost: bool = False
    failures: int = 0
    not_before_ms: int = 0
    since_ms: int = 0
    requests: dict[BrokerId, PendingRequest] = field(default_factory=dict)


class PartitionTable:
    """All partitions of the cluster."""

    def __init__(self) -> None:
        self.slots: dict[str, Slot] = {}
        self._names: dict[TopicPartition, str] = {}

    def slot_of(self, tp: TopicPartition) -> tuple[str, Slot] | None:
        """Return name and slot of a partition, None if unknown."""
        name = self._names.get(tp)
        return None if name is None else (name, self.slots[name])

    def of_topic(self, topic_id: TopicId) -> list[str]:
        """Return the names of a topic's partitions."""
        return [self._names[tp] for tp in sorted(self._names) if tp.topic_id == topic_id]

    def led_by(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that a broker leads."""
        return [name for name, slot in self._sorted() if _leader(slot) == broker_id]

    def offline_count(self) -> int:
        """Count the partitions without a leader, those without a status among them."""
        return sum(1 for slot in self.slots.values() if _leader(slot) in (None, NO_LEADER))

    def with_member(self, broker_id: BrokerId) -> list[str]:
        """Return the partitions that have a broker among their replicas, stored or assigned."""
        found = []
        for name, slot in self._sorted():
            state = slot.stored.state
            replicas = slot.stored.assigned if state is None else state.replicas
            if broker_id in replicas:
                found.append(name)
        return found

    def _sorted(self) -> list[tuple[str, Slot]]:
        return sorted(self.slots.items(), key=lambda item: item[1].stored.tp)

    def adopt(self, partition: StoredPartition, now_ms: int) -> bool:
        """Take over an object that was read or shown by a watch.

        Returns: False for an older state of the same partition, which is ignored
        """
        slot = self.slots.get(partition.name)
        if slot is None or slot.stored.tp != partition.tp:
            if slot is not None:
                self._names.pop(slot.stored.tp, None)
            self.slots[partition.name] = Slot(
                stored=partition,
                first_seen_ms=now_ms,
                request_id=None if slot is None else slot.request_id,
                requests={} if slot is None else slot.requests,
            )
            self._names[partition.tp] = partition.name
            return True
        known, found = slot.stored.state, partition.state
        if known is not None and (found is None or found.partition_epoch < known.partition_epoch):
            return False
        slot.stored = partition
        return True

    def lost_status(self, partition: StoredPartition, now_ms: int) -> None:
        """Take over an object that a quorum read showed without the status it had."""
        slot = self.slots[partition.name]
        slot.stored = partition
        slot.first_seen_ms = now_ms

    def remove(self, name: str) -> Slot | None:
        """Forget a partition whose object is gone."""
        slot = self.slots.pop(name, None)
        if slot is not None:
            self._names.pop(slot.stored.tp, None)
        return slot


def _leader(slot: Slot) -> BrokerId | None:
    return None if slot.stored.state is None else slot.stored.state.leader
