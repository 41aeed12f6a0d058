"""The disk of a broker, one partition at a time: a log is a list of records by offset."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.core.events import RecordsHandle
from strandline.model import (
    NO_TERM,
    EpochStart,
    HostedPartition,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    TopicPartition,
    TopicSettings,
)

from .values import NAME

Record = tuple[LeaderEpoch, str]
DELETED: Record = (LeaderEpoch(-1), "")


def records_of(handle: RecordsHandle) -> list[Record]:
    """Return the records that a handle of this world stands for."""
    if not isinstance(handle, list):
        raise TypeError(f"{handle} is no handle of this world")
    return handle


@dataclass(slots=True)
class Disk:
    """What outlives a process of one partition: log, files, its part of the state file.

    log[n] is the record at offset n; DELETED where a segment is deleted. log_start_offset is what
    the checkpoint says: records below it may not be deleted yet. cuts counts what overtakes a sync;
    sync is the one that runs, as the end of the log and the cuts at its beginning.
    """

    exists: bool = False
    settings: TopicSettings = TopicSettings()
    log_start_offset: int = 0
    log: list[Record] = field(default_factory=list)
    epochs: tuple[EpochStart, ...] = ()
    high_watermark: int = 0
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)
    isr: tuple[IsrEntry, ...] = ()
    term: LeaderTerm = NO_TERM
    cuts: int = 0
    sync: tuple[int, int] | None = None

    def begin_sync(self) -> None:
        """Begin to bring all of the log to disk if its topic wants that, unless a sync runs."""
        if self.settings.flushes_every_append and self.sync is None:
            self.sync = len(self.log), self.cuts

    def end_sync(self) -> int | None:
        """End the sync that runs, begin another one if due; None if a cut has overtaken it."""
        if self.sync is None:
            raise AssertionError("no sync runs")
        (end, cuts), self.sync = self.sync, None
        is_overtaken = cuts != self.cuts
        if is_overtaken or end < len(self.log):
            self.begin_sync()
        return None if is_overtaken else end

    def truncate_to(self, offset: int) -> None:
        """Keep the records below an offset."""
        self.cuts += 1
        del self.log[offset:]

    def cut(self, keep: int) -> None:
        """Lose the records from offset `keep` on, as in a crash of the machine."""
        del self.log[keep:]
        self.epochs = tuple(entry for entry in self.epochs if entry.start_offset < keep)

    def begin_at(self, offset: int) -> None:
        """Delete the records below an offset, as a deletion of old segments does."""
        kept = self.log[offset:]
        self.log = [DELETED] * offset + kept
        self.log_start_offset = offset
        epochs: dict[int, EpochStart] = {}
        for each in self.epochs:
            start = max(each.start_offset, offset)
            epochs[start] = each._replace(start_offset=start)
        self.epochs = tuple(epochs.values())

    def restart_at(self, offset: int) -> None:
        """Delete all records; the next record has this offset."""
        self.cuts += 1
        self.log = [DELETED] * offset
        self.log_start_offset = offset

    def hosted(self, tp: TopicPartition) -> HostedPartition:
        """Return what a start of the process finds on this disk."""
        return HostedPartition(
            tp=tp,
            topic_name=NAME,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=self.isr,
            log_start_offset=self.log_start_offset,
            log_end_offset=len(self.log),
            high_watermark=min(max(self.high_watermark, self.log_start_offset), len(self.log)),
            epochs=self.epochs,
            term=self.term,
        )
