"""The disk of one broker: logs as lists of batches, checkpoints, and the state file.

Outlives the processes of its broker. A record is one number that no other record has. What
is written is in the page cache at once; power loss takes away the end of each log that was
never flushed. State file and meta are fsynced, so they survive; a state write that was under
way may have reached the disk or not. With `flush.messages` 1 a sync follows the appends, and what
it has not reached yet counts as little as what was never appended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from strandline.core.effects import PersistedPartition, PersistState
from strandline.errors import InvariantViolation
from strandline.model import (
    NO_EPOCH,
    NO_TERM,
    BatchSpan,
    BrokerEpoch,
    ControllerEpoch,
    EpochStart,
    HostedPartition,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    TrashedReplica,
)
from strandline.start_decision import StartDecision, clamped_checkpoint, holds_less_than_before


class StoredBatch(NamedTuple):
    """Records that were appended together, and the span by which the core knows them."""

    span: BatchSpan
    values: tuple[int, ...]


def new_batch(base_offset: int, leader_epoch: LeaderEpoch, values: tuple[int, ...]) -> StoredBatch:
    """Return a batch as a leader stamps it."""
    end = base_offset + len(values)
    span = BatchSpan(base_offset=base_offset, next_offset=end, leader_epoch=leader_epoch)
    return StoredBatch(span, values)


_end_of = attrgetter("span.next_offset")


class RecordLog:
    """One replica's log; values[n] is the record at offset start + n.

    start is where the oldest batch begins, checkpointed_start what the log start checkpoint says,
    with the leader epoch there. Everything below flushed survives a power cut; cuts counts what
    voids a sync that is under way.
    """

    __slots__ = (
        "batches",
        "checkpointed_epoch",
        "checkpointed_start",
        "cuts",
        "flushed",
        "start",
        "values",
    )

    def __init__(self) -> None:
        self.start = self.checkpointed_start = 0
        self.checkpointed_epoch: LeaderEpoch = NO_EPOCH
        self.flushed = self.cuts = 0
        self.batches: list[StoredBatch] = []
        self.values: list[int] = []

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.start + len(self.values)

    @property
    def log_start_offset(self) -> int:
        """The log start that a restart finds."""
        return max(self.start, self.checkpointed_start)

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Where each leader epoch begins, rebuilt from the batches and the log start checkpoint."""
        if self.end == self.checkpointed_start and self.checkpointed_epoch != NO_EPOCH:
            start = self.checkpointed_start
            return (EpochStart(leader_epoch=self.checkpointed_epoch, start_offset=start),)
        found: list[EpochStart] = []
        newest: LeaderEpoch = NO_EPOCH
        for batch in self.batches:
            if batch.span.leader_epoch != newest:
                newest = batch.span.leader_epoch
                start_offset = max(batch.span.base_offset, self.log_start_offset)
                if found and found[-1].start_offset == start_offset:
                    found.pop()
                found.append(EpochStart(leader_epoch=newest, start_offset=start_offset))
        return tuple(found)

    def value_at(self, offset: int) -> int | None:
        """Return the record at an offset, None if it is not here."""
        index = offset - self.start
        return self.values[index] if 0 <= index < len(self.values) else None

    def append(self, batch: StoredBatch) -> None:
        """Append a batch; it must continue the log."""
        if batch.span.base_offset != self.end:
            raise InvariantViolation(
                "the core knows the log end", batch=batch.span.base_offset, end=self.end
            )
        self.batches.append(batch)
        self.values.extend(batch.values)

    def flush_to(self, offset: int) -> None:
        """Have everything below an offset on disk."""
        self.flushed = max(self.flushed, offset)

    def truncate_to(self, offset: int) -> None:
        """Keep offsets below `offset`, which is the end of a batch."""
        self.cuts += 1
        while self.batches and self.batches[-1].span.next_offset > offset:
            gone = self.batches.pop()
            if gone.span.base_offset < offset:
                raise InvariantViolation("a truncation ends between batches", offset=offset)
        del self.values[max(0, offset - self.start) :]
        self.flushed = min(self.flushed, self.end)

    def restart_at(self, offset: int) -> None:
        """Drop everything and begin at `offset`."""
        self.cuts += 1
        self.start = self.checkpointed_start = self.flushed = offset
        self.checkpointed_epoch = NO_EPOCH
        self.batches.clear()
        self.values.clear()

    def checkpoint_start(self, offset: int) -> None:
        """Write the log start checkpoint; records stay until `delete_below`."""
        if offset > self.checkpointed_start:
            below = [each for each in self.batches if each.span.base_offset <= offset]
            if below:
                self.checkpointed_epoch = below[-1].span.leader_epoch
            self.checkpointed_start = offset

    def delete_below(self, offset: int) -> None:
        """Delete the batches that end at or below an offset."""
        count = bisect_right(self.batches, offset, key=_end_of)
        if count:
            start = self.batches[count - 1].span.next_offset
            del self.values[: start - self.start]
            del self.batches[:count]
            self.start = start
            self.flushed = max(self.flushed, start)

    def read(
        self, *, from_offset: int, up_to_offset: int, batches_max: int
    ) -> tuple[StoredBatch, ...]:
        """Return the batches of a range, from its start on, at most so many."""
        first = bisect_right(self.batches, from_offset, key=_end_of)
        last = bisect_right(self.batches, up_to_offset, key=_end_of)
        return tuple(self.batches[first : min(last, first + batches_max)])

    def lose_tail(self, keep_per_mille: int) -> int:
        """Keep that share of the batches, and all that was flushed; return the records lost."""
        before = self.end
        kept = len(self.batches) * keep_per_mille // 1000
        offset = self.start if kept == 0 else self.batches[kept - 1].span.next_offset
        self.truncate_to(max(offset, self.flushed))
        lost = before - self.end
        if self.end < self.checkpointed_start:
            # A start finds that the log ends below its start, and empties it.
            epoch = self.checkpointed_epoch
            self.restart_at(self.checkpointed_start)
            self.checkpointed_epoch = epoch
        return lost


class TrashedLog(NamedTuple):
    """A deleted log, and what its broker had accepted for it; None once that is lost."""

    log: RecordLog
    accepted: PersistedPartition | None


@dataclass(slots=True, kw_only=True)
class SimulatedDisk:
    """What lies on the volume of one broker.

    unclean_up_to_epoch is the truth behind cleanSinceEpoch: ISR entries with this broker epoch
    or a lower one stand for records that may be lost; -1 if nothing was ever lost.
    """

    log_dir_id: str
    flushes: bool = False
    """Whether an append counts once it is flushed: `flush.messages: 1`."""
    meta_epoch: BrokerEpoch | None = None
    meta_clean_since_epoch: BrokerEpoch = BrokerEpoch(0)
    marker_epoch: BrokerEpoch | None = None
    flushed_epoch: BrokerEpoch | None = None
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    persisted: dict[TopicPartition, PersistedPartition] = field(default_factory=dict)
    logs: dict[TopicPartition, RecordLog] = field(default_factory=dict)
    trash: dict[TopicPartition, TrashedLog] = field(default_factory=dict)
    """The newest deleted log of each partition."""
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    state_writes: list[PersistState] = field(default_factory=list)
    unclean_up_to_epoch: BrokerEpoch = BrokerEpoch(-1)
    is_full: bool = False
    """Whether there is no room for records; state and checkpoints have theirs (ADR 0023)."""

    def fill(self) -> None:
        """Have no room for records."""
        self.is_full = True

    def grow(self) -> None:
        """Have room for records again."""
        self.is_full = False

    def create_log(self, tp: TopicPartition) -> None:
        """Have a log, an empty one if there is none."""
        self.logs.setdefault(tp, RecordLog())

    def delete(self, tp: TopicPartition) -> None:
        """Forget a replica; its log goes to the trash."""
        log, persisted = self.logs.pop(tp, None), self.persisted.pop(tp, None)
        if log is not None:
            self.trash[tp] = TrashedLog(log, persisted)

    def restore(self, tp: TopicPartition) -> bool:
        """Take a log back from the trash. False: there is none, or another has its place."""
        if tp in self.logs or tp not in self.trash:
            return False
        log, accepted = self.trash.pop(tp)
        log.flush_to(log.end)
        self.logs[tp] = log
        if accepted is not None:
            self.persisted[tp] = replace(accepted, isr=())
        self.high_watermarks.pop(tp, None)
        return True

    def has_trash_of_use(self, tp: TopicPartition) -> bool:
        """Tell whether a log in the trash may have what the disk has not: no leadership since."""
        persisted = self.persisted.get(tp)
        is_made_anew = tp not in self.logs or persisted is None or persisted.term == NO_TERM
        return tp in self.trash and is_made_anew

    def empty_trash(self) -> None:
        """Remove what lay in the trash for long enough."""
        self.trash.clear()

    def trashed(self) -> tuple[TrashedReplica, ...]:
        """Return what the trash holds, as a broker tells it."""
        return tuple(
            TrashedReplica(tp=tp, topic_name=tp.topic_id, deleted_at_ms=0)
            for tp in sorted(self.trash)
        )

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermark checkpoint."""
        self.high_watermarks = dict(high_watermarks)

    def clamp_checkpoint(self) -> None:
        """Let the high watermark checkpoint claim nothing beyond the logs."""
        ends = {tp: log.end for tp, log in self.logs.items()}
        self.high_watermarks = clamped_checkpoint(self.high_watermarks, ends)

    def write_meta(self, decision: StartDecision) -> None:
        """Write the epochs under which this broker is about to register."""
        self.meta_epoch = decision.broker_epoch
        self.meta_clean_since_epoch = decision.clean_since_epoch

    def mark_flushed(self, broker_epoch: BrokerEpoch) -> None:
        """Flush the logs and say so, if no later record counts before it is flushed either."""
        self.flushed_epoch = broker_epoch if self.flushes else None
        if self.flushes:
            self._flush_logs()

    def write_marker(self, broker_epoch: BrokerEpoch) -> None:
        """Leave the marker of an orderly stop."""
        self.marker_epoch = broker_epoch

    def begin_run(self) -> None:
        """Remove the marker: what runs from now on may end without an orderly stop."""
        self.marker_epoch = None

    def begin_state_write(self, effect: PersistState) -> None:
        """Note a write of the state file that is under way."""
        self.state_writes.append(effect)

    def write_state(self, effect: PersistState) -> None:
        """Make one write of the state file durable.

        First the high watermark checkpoint forgets former logs of replicas that are yet to be made.
        """
        self.state_writes.remove(effect)
        for tp, _ in effect.partitions:
            if tp not in self.logs:
                self.high_watermarks.pop(tp, None)
        self.controller_epoch = max(self.controller_epoch, effect.controller_epoch)
        self.persisted.update(effect.partitions)

    def end_of_process(self, reached_disk: Callable[[], bool]) -> None:
        """Decide about the state writes under way: the first of them may have been done."""
        while self.state_writes and reached_disk():
            self.write_state(self.state_writes[0])
        self.state_writes.clear()

    def lose_power(self, keep_per_mille: int) -> int:
        """Lose what was never flushed; return how many records that is."""
        if not self.flushes:
            self._mark_unclean()
        # What was accepted for a deleted log is not fsynced.
        self.trash = {tp: TrashedLog(log, None) for tp, (log, _) in self.trash.items()}
        logs = (*self.logs.values(), *(log for log, _ in self.trash.values()))
        return sum(log.lose_tail(keep_per_mille) for log in logs)

    def wipe(self, log_dir_id: str) -> None:
        """Become an empty disk."""
        self._mark_unclean()
        self.log_dir_id = log_dir_id
        self.meta_epoch = self.marker_epoch = self.flushed_epoch = None
        self.meta_clean_since_epoch = BrokerEpoch(0)
        self.controller_epoch = ControllerEpoch(0)
        self.persisted.clear()
        self.logs.clear()
        self.empty_trash()
        self.high_watermarks.clear()

    def _mark_unclean(self) -> None:
        self.unclean_up_to_epoch = max(self.unclean_up_to_epoch, self.meta_epoch or BrokerEpoch(0))

    def covers(self, entry: IsrEntry) -> bool:
        """Tell whether nothing was lost since the process of this ISR entry registered."""
        return entry.broker_epoch > self.unclean_up_to_epoch

    def flush(self) -> None:
        """Bring everything to disk, as an orderly stop does."""
        while self.state_writes:
            self.write_state(self.state_writes[0])
        self._flush_logs()

    def _flush_logs(self) -> None:
        for log in self.logs.values():
            log.flush_to(log.end)

    def has_lost_logs(self) -> bool:
        """Tell whether there is less than this broker once had."""
        ends = {tp: log.end for tp, log in self.logs.items()}
        return any(
            holds_less_than_before(
                log_end_offset=ends.get(tp),
                high_watermark=self.high_watermarks.get(tp, 0),
                recovery_point=0,
            )
            for tp in ends.keys() | self.persisted.keys()
        )

    def hosted(self) -> list[HostedPartition]:
        """Return the replicas as a start finds them."""
        return [self._hosted(tp, self.logs[tp]) for tp in sorted(self.logs)]

    def _hosted(self, tp: TopicPartition, log: RecordLog) -> HostedPartition:
        persisted, epochs = self.persisted.get(tp), log.epochs
        newest = epochs[-1].leader_epoch if epochs else NO_EPOCH
        if persisted is not None and newest > persisted.leader_epoch:
            raise InvariantViolation(
                "an epoch is on disk before its records",
                newest=newest,
                persisted=persisted.leader_epoch,
            )
        return HostedPartition(
            tp=tp,
            topic_name=tp.topic_id,
            leader_epoch=newest if persisted is None else persisted.leader_epoch,
            partition_epoch=PartitionEpoch(-1) if persisted is None else persisted.partition_epoch,
            isr=() if persisted is None else persisted.isr,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.end,
            high_watermark=min(max(self.high_watermarks.get(tp, 0), log.log_start_offset), log.end),
            epochs=epochs,
            term=NO_TERM if persisted is None else persisted.term,
        )
