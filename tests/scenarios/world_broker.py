"""One broker of a scenario: the real core, a disk in memory, and what it has sent.

The disk outlives the process; a log is a list of (leader epoch, record name) by offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from strandline.core.effects import (
    AppendAsFollower,
    AppendAsLeader,
    CreateReplica,
    DeleteReplica,
    Effect,
    LogReadInfo,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import Event, FetchedPartition, RecordsHandle, ReplicaLoaded
from strandline.core.replicas import Replicas
from strandline.core.settings import CoreSettings
from strandline.model import (
    BatchSpan,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochStart,
    HostedPartition,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
    TopicSettings,
)

TP = TopicPartition(topic_id=TopicId("t"), partition=0)
NAME = "orders"
Record = tuple[LeaderEpoch, str]
DELETED: Record = (LeaderEpoch(-1), "")


@dataclass(slots=True)
class ScenarioDisk:
    """What a process leaves behind: one log, its files, the state file.

    log[n] is the record at offset n; below log_start_offset it holds DELETED.
    """

    exists: bool = False
    settings: TopicSettings = TopicSettings()
    log_start_offset: int = 0
    log: list[Record] = field(default_factory=list)
    epochs: tuple[EpochStart, ...] = ()
    high_watermark: int = 0
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)
    isr: tuple[IsrEntry, ...] = ()

    def cut(self, keep: int) -> None:
        """Lose the records from an offset on, as a crash of the machine does."""
        del self.log[keep:]
        self.epochs = tuple(entry for entry in self.epochs if entry.start_offset < keep)

    def begin_at(self, offset: int) -> None:
        """Delete the records below an offset, as when old segments are removed."""
        kept = self.log[offset:]
        self.log = [DELETED] * offset + kept
        self.log_start_offset = offset
        epochs: dict[int, EpochStart] = {}
        for each in self.epochs:
            start = max(each.start_offset, offset)
            epochs[start] = replace(each, start_offset=start)
        self.epochs = tuple(epochs.values())

    def restart_at(self, offset: int) -> None:
        """Drop everything; the next record has this offset."""
        self.log = [DELETED] * offset
        self.log_start_offset = offset

    def hosted(self) -> HostedPartition:
        """Return what is found at start."""
        return HostedPartition(
            tp=TP,
            topic_name=NAME,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=self.isr,
            log_start_offset=self.log_start_offset,
            log_end_offset=len(self.log),
            high_watermark=min(max(self.high_watermark, self.log_start_offset), len(self.log)),
            epochs=self.epochs,
        )


def held(records: RecordsHandle) -> list[Record]:
    """Return what a handle of these scenarios stands for, one record a batch."""
    if not isinstance(records, list):
        raise TypeError(f"{records} is no handle of a scenario")
    return records


class ScenarioBroker:
    """A broker whose process can end and begin again."""

    def __init__(self, broker_id: int, settings: CoreSettings) -> None:
        self.broker_id = BrokerId(broker_id)
        self.settings = settings
        self.disk = ScenarioDisk()
        self.broker_epoch = BrokerEpoch(0)
        self.clean_since_epoch = BrokerEpoch(1)
        self.alive = False
        self.replicas: Replicas

    def start(self, now_ms: int) -> list[Effect]:
        """Begin a process: what is on disk is loaded, no partition is led or followed yet."""
        self.broker_epoch = BrokerEpoch(self.broker_epoch + 1)
        self.alive = True
        self.replicas = Replicas(
            self.broker_id,
            self.broker_epoch,
            self.clean_since_epoch,
            self.settings,
            controller_epoch=self.disk.controller_epoch,
        )
        if self.disk.exists:
            return self.step(ReplicaLoaded(hosted=self.disk.hosted()), now_ms)
        return []

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Step the core and perform what concerns the disk."""
        effects = self.replicas.step(event, now_ms)
        for effect in effects:
            self._perform(effect)
        return effects

    def fetched(self, read: LogReadInfo) -> FetchedPartition:
        """Return one partition of a response as its reader gets it, one record a batch."""
        taken = self.disk.log[read.from_offset : read.up_to_offset]
        return FetchedPartition(
            tp=read.tp,
            error=read.error,
            high_watermark=read.high_watermark,
            log_start_offset=read.log_start_offset,
            batches=tuple(
                BatchSpan(base_offset=offset, next_offset=offset + 1, leader_epoch=epoch)
                for offset, (epoch, _) in enumerate(taken, start=read.from_offset)
            ),
            records=RecordsHandle(taken),
            diverging=read.diverging,
        )

    def _perform(self, effect: Effect) -> None:
        disk = self.disk
        match effect:
            case CreateReplica(settings=settings):
                disk.exists = True
                disk.settings = settings
            case DeleteReplica():
                self.disk = ScenarioDisk(controller_epoch=disk.controller_epoch)
            case AppendAsLeader(records=appended, base_offset=base, leader_epoch=epoch):
                if base != len(disk.log):
                    raise AssertionError(f"append at {base}, log ends at {len(disk.log)}")
                disk.log += [(epoch, name) for _, name in held(appended)]
            case AppendAsFollower(records=appended, batch_count=count):
                disk.log += held(appended)[:count]
            case TruncateTo(offset=offset):
                del disk.log[offset:]
            case RestartLogAt(offset=offset):
                disk.restart_at(offset)
            case WriteEpochCheckpoint(epochs=epochs):
                disk.epochs = epochs
            case WriteHighWatermarkCheckpoint(high_watermarks=marks):
                disk.high_watermark = dict(marks)[TP]
            case PersistState(controller_epoch=controller_epoch, partitions=partitions):
                disk.controller_epoch = controller_epoch
                for _, each in partitions:
                    disk.leader_epoch = each.leader_epoch
                    disk.partition_epoch = each.partition_epoch
                    disk.isr = each.isr
            case _:
                pass
