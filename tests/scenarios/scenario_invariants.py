"""What holds in every scenario, checked after every command."""

from __future__ import annotations

from strandline.core.views import PartitionView, RoleName
from strandline.model import LeaderEpoch, PartitionState

from .world_broker import TP, ScenarioBroker, ScenarioDisk


class ScenarioInvariants:
    """What must stay so: acknowledged records by offset, high watermarks seen."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, str] = {}
        self.seen_offsets: dict[tuple[int, LeaderEpoch], int] = {}

    def forget_below(self, offset: int) -> None:
        """Forget what was deleted on purpose."""
        for deleted in [each for each in self.acknowledged if each < offset]:
            del self.acknowledged[deleted]

    def check(self, brokers: dict[int, ScenarioBroker], stored: PartitionState) -> None:
        """Fail if an invariant is broken."""
        for broker_id, broker in brokers.items():
            view = broker.replicas.view(TP) if broker.alive else None
            if view is None or view.role is RoleName.FAILED:
                continue
            if view.log_end_offset != len(broker.disk.log):
                raise AssertionError(f"broker {broker_id}: log and core end apart")
            if view.role is RoleName.LEADER:
                self._check_leader(broker_id, broker, view, stored)
        _check_histories([broker.disk for broker in brokers.values()])

    def _check_leader(
        self, broker_id: int, broker: ScenarioBroker, view: PartitionView, stored: PartitionState
    ) -> None:
        key = (broker_id, view.leader_epoch)
        if view.high_watermark < self.seen_offsets.get(key, 0):
            raise AssertionError(f"broker {broker_id}: the high watermark fell")
        self.seen_offsets[key] = view.high_watermark
        if view.leader_epoch == stored.leader_epoch:
            for offset, name in self.acknowledged.items():
                if [each for _, each in broker.disk.log[offset : offset + 1]] != [name]:
                    raise AssertionError(f"acknowledged {name} at {offset} is lost")


def _check_histories(disks: list[ScenarioDisk]) -> None:
    for one in disks:
        for other in disks:
            begin = max(one.log_start_offset, other.log_start_offset)
            left, right = one.log[begin:], other.log[begin:]
            pairs = enumerate(zip(left, right, strict=False), start=1)
            same = [count for count, (mine, theirs) in pairs if mine[0] == theirs[0]]
            if same and left[: same[-1]] != right[: same[-1]]:
                raise AssertionError("two histories under one offset and epoch")
