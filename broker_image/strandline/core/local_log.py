"""What the core knows of a log on this broker: offsets and epochs, never bytes.

Changed by its own methods alone. The partition's present role and `LogStarts` call those that
move offsets; `ControllerRequests` hands over settings. A method returns the commands that make the
disk follow, in performing order. The role adds the command that appends, as it knows the request.
Invariant: 0 <= log_start_offset <= high_watermark <= log_end_offset.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.errors import InvariantViolation
from strandline.model import (
    BatchSpan,
    EpochStart,
    HostedPartition,
    LeaderEpoch,
    TopicPartition,
    TopicSettings,
)

from .effects import (
    DeleteSegmentsBelow,
    Effect,
    PersistLogStart,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
)
from .epochs import EpochCache
from .marked_partitions import MarkedPartitions
from .notices import LogStartAdvanced, Truncated


class LocalLog:
    """Offsets and epochs of one replica.

    log_start_offset is the first offset that is still kept, durable_start_offset the log start that
    a restart finds at least; log_end_offset is the offset of the next record. high_watermark is the
    first offset that is not known to be committed; the log is marked among moved, those of its
    broker, when it is made and whenever that offset moves.
    """

    __slots__ = (
        "_flushed_offset",
        "_moved",
        "_settings",
        "durable_start_offset",
        "epochs",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "topic_name",
        "tp",
    )

    def __init__(
        self,
        *,
        tp: TopicPartition,
        topic_name: str,
        settings: TopicSettings,
        moved: MarkedPartitions,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        flushed_offset: int = 0,
        high_watermark: int = 0,
        epochs: Iterable[EpochStart] = (),
    ) -> None:
        self.tp = tp
        self.topic_name = topic_name
        self.epochs = EpochCache(epochs)
        self._settings = settings
        self.log_start_offset = self.durable_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self._flushed_offset = flushed_offset
        self.high_watermark = high_watermark
        self._moved = moved
        moved.mark(tp)
        self._check()

    @classmethod
    def loaded(cls, hosted: HostedPartition, moved: MarkedPartitions) -> LocalLog:
        """Return the log of a replica found on disk.

        Raises:  InvariantViolation if records have no epoch: nothing could compare such a log with
                 others, so loading must rebuild its epochs first
        """
        if hosted.log_end_offset > hosted.log_start_offset and not hosted.epochs:
            raise InvariantViolation("records have a leader epoch", tp=hosted.tp)
        return cls(
            tp=hosted.tp,
            topic_name=hosted.topic_name,
            settings=TopicSettings(),
            moved=moved,
            log_start_offset=hosted.log_start_offset,
            log_end_offset=hosted.log_end_offset,
            flushed_offset=hosted.log_end_offset,
            high_watermark=hosted.high_watermark,
            epochs=hosted.epochs,
        )

    @property
    def flushes_every_append(self) -> bool:
        """Whether a record counts as written once it is fsynced."""
        return self._settings.flushes_every_append

    @property
    def durable_end_offset(self) -> int:
        """The end of what this replica counts as written.

        That is the log end, unless the topic wants each append fsynced (`flush.messages` 1): then
        nothing above it is acknowledged, committed or told to a leader (ADR 0055).
        """
        if not self._settings.flushes_every_append:
            return self.log_end_offset
        return min(self._flushed_offset, self.log_end_offset)

    @property
    def waits_for_disk(self) -> bool:
        """Whether the log has records that do not count yet, for they are not fsynced."""
        return self._flushed_offset < self.log_end_offset and self.flushes_every_append

    def adopt_settings(self, settings: TopicSettings) -> bool:
        """Take the settings of the topic; return whether they differ from those before."""
        changed = self._settings != settings
        self._settings = settings
        return changed

    def append(self, record_count: int) -> int:
        """Give a leader's batch the next offsets; return the first of them."""
        base_offset = self.log_end_offset
        self.log_end_offset += record_count
        self._check()
        return base_offset

    def append_batches(self, batches: Iterable[BatchSpan]) -> list[Effect]:
        """Take batches of the leader, each under its own epoch, beginning at the log end."""
        effects: list[Effect] = []
        for batch in batches:
            if batch.base_offset != self.log_end_offset:
                raise self._broken("batches are contiguous", base_offset=batch.base_offset)
            effects += self.begin_epoch(batch.leader_epoch, batch.base_offset)
            self.log_end_offset = batch.next_offset
        self._check()
        # Each checkpoint holds all epochs: the last one is enough.
        return effects[-1:]

    def begin_epoch(self, leader_epoch: LeaderEpoch, start_offset: int) -> list[Effect]:
        """Note an epoch before its first record is written (KAFKA-7415)."""
        if self.epochs.newest > leader_epoch:
            raise self._broken("leader epochs of a log never fall", leader_epoch=leader_epoch)
        if self.epochs.assign(leader_epoch, start_offset):
            return [WriteEpochCheckpoint(tp=self.tp, epochs=self.epochs.entries)]
        return []

    def raise_high_watermark(self, high_watermark: int) -> None:
        """Move the high watermark as a leader does: never down."""
        if high_watermark < self.high_watermark:
            raise self._broken("a leader's high watermark never falls", wanted=high_watermark)
        self._move_high_watermark(high_watermark)
        self._check()

    def follow_high_watermark(self, leaders: int) -> None:
        """Take the leader's high watermark as far as this log reaches on disk; it may fall.

        A checkpoint above what a power cut leaves would look like a loss at the next start.
        """
        reached = max(self.high_watermark, self.durable_end_offset)
        self._move_high_watermark(max(self.log_start_offset, min(leaders, reached)))
        self._check()

    def advance_start(self, offset: int, *, reason: str) -> list[Effect]:
        """Begin at a later offset at or below the high watermark: readers see none below it."""
        if offset <= self.log_start_offset:
            return []
        moved = LogStartAdvanced(
            tp=self.tp,
            topic_name=self.topic_name,
            from_offset=self.log_start_offset,
            to_offset=offset,
            reason=reason,
        )
        self.log_start_offset = offset
        self._check()
        effects: list[Effect] = [PersistLogStart(tp=self.tp, offset=offset)]
        if self.epochs.truncate_from_start(offset):
            effects.append(WriteEpochCheckpoint(tp=self.tp, epochs=self.epochs.entries))
        return [*effects, moved]

    def on_start_persisted(self, offset: int) -> list[Effect]:
        """Delete what lies below a start that is on disk; a restart may have begun lower since."""
        durable = min(offset, self.log_start_offset)
        if durable <= self.durable_start_offset:
            return []
        self.durable_start_offset = durable
        return [DeleteSegmentsBelow(tp=self.tp, offset=durable)]

    def on_flushed(self, offset: int) -> None:
        """Take an offset below which all is fsynced; the log was not cut since the fsync began."""
        if offset > self.log_end_offset:
            raise self._broken("a flush ends within the log", flushed=offset)
        self._flushed_offset = max(self._flushed_offset, offset)

    def truncate_to(self, offset: int, *, leader_epoch: LeaderEpoch, reason: str) -> list[Effect]:
        """Keep offsets below `offset`; return nothing if neither log nor epochs changed.

        The log is cut before the epochs are written: loading cuts epochs beyond the log end, but
        would not notice records without their epoch.
        """
        end = self.log_end_offset
        if offset < self.log_start_offset or 0 < offset == self.log_start_offset < end:
            # Nothing is kept; a batch may lie on both sides of the log start.
            return self.restart_at(offset, leader_epoch=leader_epoch, reason=reason)
        effects: list[Effect] = []
        kept = min(offset, end)
        below = max(0, self.high_watermark - kept)
        self.log_end_offset = kept
        self._move_high_watermark(min(self.high_watermark, kept))
        self._flushed_offset = min(self._flushed_offset, kept)
        if kept < end:
            effects.append(TruncateTo(tp=self.tp, offset=kept))
        if self.epochs.truncate_from_end(kept):
            effects.append(WriteEpochCheckpoint(tp=self.tp, epochs=self.epochs.entries))
        if kept < end:
            effects.append(self._truncated(end, kept, below, leader_epoch, reason))
        self._check()
        return effects

    def restart_at(self, offset: int, *, leader_epoch: LeaderEpoch, reason: str) -> list[Effect]:
        """Drop everything and begin at `offset`.

        A gap behind the old end loses nothing: the leader no longer keeps its records.
        """
        effects: list[Effect] = [RestartLogAt(tp=self.tp, offset=offset)]
        if self.epochs.truncate_from_end(0):
            effects.append(WriteEpochCheckpoint(tp=self.tp, epochs=()))
        start, end = self.log_start_offset, self.log_end_offset
        if start < end:
            below = max(0, self.high_watermark - offset)
            effects.append(self._truncated(end, start, below, leader_epoch, reason))
        self.log_start_offset = self.log_end_offset = offset
        self._move_high_watermark(offset)
        self.durable_start_offset = self._flushed_offset = offset
        self._check()
        return effects

    def _move_high_watermark(self, high_watermark: int) -> None:
        if high_watermark != self.high_watermark:
            self.high_watermark = high_watermark
            self._moved.mark(self.tp)

    def _check(self) -> None:
        """Stop the broker if the offsets contradict each other."""
        if not 0 <= self.log_start_offset <= self.high_watermark <= self.log_end_offset:
            raise self._broken("log start <= high watermark <= log end")
        if self.epochs.last_start_offset > self.log_end_offset:
            raise self._broken("the last epoch begins within the log")

    def _broken(self, promise: str, **values: int) -> InvariantViolation:
        return InvariantViolation(
            promise,
            tp=self.tp,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            log_end_offset=self.log_end_offset,
            newest_epoch=self.epochs.newest,
            newest_epoch_start=self.epochs.last_start_offset,
            **values,
        )

    def _truncated(
        self, from_offset: int, to_offset: int, below: int, leader_epoch: LeaderEpoch, reason: str
    ) -> Truncated:
        return Truncated(
            tp=self.tp,
            topic_name=self.topic_name,
            leader_epoch=leader_epoch,
            from_offset=from_offset,
            to_offset=to_offset,
            below_high_watermark=below,
            reason=reason,
        )
