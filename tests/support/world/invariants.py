"""The invariants of every scenario, checked after every command."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.core.views import PartitionView, RoleName
from strandline.model import LeaderEpoch, StoredPartition, TopicPartition

from .broker import Broker
from .disk import Disk
from .values import tp


class ReplicationInvariants:
    """Keeps partition 0's acknowledged records and high watermarks, to check that they stay."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, str] = {}
        self.seen_offsets: dict[tuple[int, TopicPartition, LeaderEpoch], int] = {}

    def forget_below(self, offset: int) -> None:
        """Forget acknowledged records that a scenario deletes on purpose."""
        for deleted in [each for each in self.acknowledged if each < offset]:
            del self.acknowledged[deleted]

    def check(self, brokers: dict[int, Broker], partitions: Iterable[StoredPartition]) -> None:
        """Fail if an invariant is broken."""
        for partition in partitions:
            for broker in brokers.values():
                view = broker.replicas.view(partition.tp) if broker.alive else None
                if view is None or view.role is RoleName.FAILED:
                    continue
                if view.log_end_offset != len(broker.disk_of(partition.tp).log):
                    raise AssertionError(f"broker {broker.broker_id}: core and disk differ in LEO")
                if view.role is RoleName.LEADER:
                    self._check_leader(broker, view, partition)
            _check_histories([broker.disk_of(partition.tp) for broker in brokers.values()])

    def _check_leader(
        self, broker: Broker, view: PartitionView, partition: StoredPartition
    ) -> None:
        key = (broker.broker_id, view.tp, view.leader_epoch)
        if view.high_watermark < self.seen_offsets.get(key, 0):
            raise AssertionError(f"broker {broker.broker_id}: the high watermark fell")
        self.seen_offsets[key] = view.high_watermark
        state = partition.state
        if view.tp == tp() and state is not None and view.leader_epoch == state.leader_epoch:
            for offset, name in self.acknowledged.items():
                if [each for _, each in broker.disk.log[offset : offset + 1]] != [name]:
                    raise AssertionError(f"acknowledged {name} at {offset} is lost")


def _check_histories(disks: list[Disk]) -> None:
    for one in disks:
        for other in disks:
            begin = max(one.log_start_offset, other.log_start_offset)
            left, right = one.log[begin:], other.log[begin:]
            pairs = enumerate(zip(left, right, strict=False), start=1)
            same = [count for count, (mine, theirs) in pairs if mine[0] == theirs[0]]
            if same and left[: same[-1]] != right[: same[-1]]:
                raise AssertionError("two histories under one offset and epoch")
