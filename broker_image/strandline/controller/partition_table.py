"""The partitions as they were last read, by object name.

Filled from quorum lists, quorum reads and watches; `partition_reconciler` works on it. An
object is only ever replaced by one that is not older, judged by its partition epoch:
resourceVersions are opaque and can not be ordered. The compare-and-swap of the next write
finds any mistake here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.model import NO_LEADER, BrokerId, StoredPartition, TopicId, TopicPartition

from .events import IsrChangeRequested
from .write_notices import StatusWrite


@dataclass(slots=True, kw_only=True)
class PendingRequest:
    """An AlterPartition that is not answered; read_since: the object was read after it came."""

    event: IsrChangeRequested
    read_since: bool = False


@dataclass(slots=True, kw_only=True)
class PartitionEntry:
    """One partition: the object as last read, and the store call or requests that are open.

    request_id is the store call in flight, None when idle; writing is set while that call is
    a write. Nothing runs before not_before_ms.
    """

    stored: StoredPartition
    first_seen_ms: int
    request_id: int | None = None
    writing: StatusWrite | None = None
    must_read: bool = False
    state_lost: bool = False
    failures: int = 0
    not_before_ms: int = 0
    since_ms: int = 0
    requests: dict[BrokerId, PendingRequest] = field(default_factory=dict)


class PartitionTable:
    """All partitions of the cluster."""

    def __init__(self) -> None:
        self.entries: dict[str, PartitionEntry] = {}
        self._names: dict[TopicPartition, str] = {}

    def entry_of(self, tp: TopicPartition) -> tuple[str, PartitionEntry] | None:
        """Return name and entry of a partition, None if unknown."""
        name = self._names.get(tp)
        return None if name is None else (name, self.entries[name])

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
            replicas = entry.stored.assigned if state is None else state.replicas
            if broker_id in replicas:
                found.append(name)
        return found

    def _sorted(self) -> list[tuple[str, PartitionEntry]]:
        return sorted(self.entries.items(), key=lambda item: item[1].stored.tp)

    def adopt(self, partition: StoredPartition, now_ms: int) -> bool:
        """Adopt an object that was read or shown by a watch.

        Returns: False for an older state of the same partition, which is ignored
        """
        entry = self.entries.get(partition.name)
        if entry is None or entry.stored.tp != partition.tp:
            if entry is not None:
                self._names.pop(entry.stored.tp, None)
            self.entries[partition.name] = PartitionEntry(
                stored=partition,
                first_seen_ms=now_ms,
                request_id=None if entry is None else entry.request_id,
                requests={} if entry is None else entry.requests,
            )
            self._names[partition.tp] = partition.name
            return True
        known, found = entry.stored.state, partition.state
        if known is not None and (found is None or found.partition_epoch < known.partition_epoch):
            return False
        entry.stored = partition
        return True

    def lost_status(self, partition: StoredPartition, now_ms: int) -> None:
        """Adopt an object that a quorum read showed without the status it had."""
        entry = self.entries[partition.name]
        entry.stored = partition
        entry.first_seen_ms = now_ms

    def remove(self, name: str) -> PartitionEntry | None:
        """Forget a partition whose object is gone."""
        entry = self.entries.pop(name, None)
        if entry is not None:
            self._names.pop(entry.stored.tp, None)
        return entry


def _leader(entry: PartitionEntry) -> BrokerId | None:
    return None if entry.stored.state is None else entry.stored.state.leader
