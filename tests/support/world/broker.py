"""One broker: the shipped core, and disks in memory that outlive its process."""

from __future__ import annotations

from strandline.core.effects import (
    AppendAsFollower,
    AppendAsLeader,
    CreateReplica,
    DeleteReplica,
    DeleteSegmentsBelow,
    Effect,
    LogReadInfo,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import (
    Event,
    FetchedPartition,
    LogStartPersisted,
    RecordsHandle,
    ReplicaLoaded,
)
from strandline.core.replicas import Replicas
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import (
    BatchSpan,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicPartition,
)

from .disk import Disk, records_of
from .values import tp


class Broker:
    """A broker whose process can end and begin again."""

    def __init__(self, broker_id: int, settings: CoreSettings) -> None:
        self.broker_id = BrokerId(broker_id)
        self.settings = settings
        self.disks: dict[TopicPartition, Disk] = {}
        self.trash: dict[TopicPartition, tuple[Disk, int]] = {}
        """Deleted logs, each with the time of its deletion."""
        self._now_ms = 0
        self.controller_epoch = ControllerEpoch(0)
        self.broker_epoch = BrokerEpoch(0)
        self.clean_since_epoch = BrokerEpoch(1)
        self.alive = False
        self.replicas: Replicas

    @property
    def disk(self) -> Disk:
        """The disk of partition 0, the only partition of most scenarios."""
        return self.disk_of(tp())

    def disk_of(self, partition: TopicPartition) -> Disk:
        return self.disks.setdefault(partition, Disk())

    def wipe(self) -> None:
        """Lose every log and the state file."""
        self.disks.clear()
        self.trash.clear()
        self.controller_epoch = ControllerEpoch(0)

    def start(self, now_ms: int) -> list[Effect]:
        """Begin a process that loads its disks; it leads and follows no partition yet."""
        self.broker_epoch = BrokerEpoch(self.broker_epoch + 1)
        self.alive = True
        self.replicas = Replicas(
            self.broker_id,
            self.broker_epoch,
            self.clean_since_epoch,
            self.settings,
            controller_epoch=self.controller_epoch,
        )
        effects: list[Effect] = []
        for partition, disk in sorted(self.disks.items()):
            disk.sync = None
            if disk.exists:
                effects += self.step(ReplicaLoaded(hosted=disk.hosted(partition)), now_ms)
        return effects

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Step the core and perform its effects on the disk."""
        self._now_ms = now_ms
        if isinstance(event, LogStartPersisted):
            self.disk_of(event.tp).log_start_offset = event.offset
        effects = self.replicas.step(event, now_ms)
        for effect in effects:
            self._perform(effect)
        return effects

    def restore(self, partition: TopicPartition, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        """Take a log back from the trash, as the store does: it knows its epochs and no ISR."""
        if self.disk_of(partition).exists or partition not in self.trash:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        disk, _ = self.trash.pop(partition)
        disk.isr, disk.high_watermark = (), 0
        self.disks[partition] = disk
        return ErrorCode.NONE, self.step(ReplicaLoaded(hosted=disk.hosted(partition)), now_ms)

    def fetched(self, read: LogReadInfo) -> FetchedPartition:
        """Return one partition of a response as its reader gets it; a batch has one record."""
        records = self.disk_of(read.tp).log[read.from_offset : read.up_to_offset]
        return FetchedPartition(
            tp=read.tp,
            error=read.error,
            high_watermark=read.high_watermark,
            log_start_offset=read.log_start_offset,
            batches=tuple(
                BatchSpan(base_offset=offset, next_offset=offset + 1, leader_epoch=epoch)
                for offset, (epoch, _) in enumerate(records, start=read.from_offset)
            ),
            records=RecordsHandle(records),
            diverging=read.diverging,
        )

    def _perform(self, effect: Effect) -> None:
        match effect:
            case CreateReplica(settings=settings):
                disk = self.disk_of(effect.tp)
                disk.exists = True
                disk.settings = settings
                disk.begin_sync()
            case DeleteReplica():
                self.trash[effect.tp] = self.disk_of(effect.tp), self._now_ms
                self.disks[effect.tp] = Disk()
            case AppendAsLeader() | AppendAsFollower():
                self._append(effect)
                self.disk_of(effect.tp).begin_sync()
            case TruncateTo(offset=offset):
                self.disk_of(effect.tp).truncate_to(offset)
            case RestartLogAt(offset=offset):
                self.disk_of(effect.tp).restart_at(offset)
            case DeleteSegmentsBelow(offset=offset):
                self.disk_of(effect.tp).begin_at(offset)
            case WriteEpochCheckpoint(epochs=epochs):
                self.disk_of(effect.tp).epochs = epochs
            case WriteHighWatermarkCheckpoint(high_watermarks=marks):
                for partition, high_watermark in marks:
                    self.disk_of(partition).high_watermark = high_watermark
            case PersistState(controller_epoch=controller_epoch, partitions=partitions):
                self.controller_epoch = controller_epoch
                for partition, each in partitions:
                    disk = self.disk_of(partition)
                    disk.leader_epoch = each.leader_epoch
                    disk.partition_epoch = each.partition_epoch
                    disk.isr, disk.term = each.isr, each.term
            case _:
                pass

    def _append(self, effect: AppendAsLeader | AppendAsFollower) -> None:
        disk, records = self.disk_of(effect.tp), records_of(effect.records)
        if isinstance(effect, AppendAsFollower):
            disk.log += records[: effect.batch_count]
            return
        if effect.base_offset != len(disk.log):
            raise AssertionError(f"append at {effect.base_offset}, log ends at {len(disk.log)}")
        disk.log += [(effect.leader_epoch, name) for _, name in records]
