"""What the core knows of a log on this broker: offsets and epochs, never bytes.

Held by the role that may change it (leader or follower). Every method that changes the log
returns the commands that make the disk follow; they are performed in that order.
Invariant: 0 <= log_start_offset <= high_watermark <= log_end_offset.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import InvariantViolation
from strandline.model import HostedPartition, LeaderEpoch, TopicPartition, TopicSettings

from .effects import Effect, RestartLogAt, Truncated, TruncateTo, WriteEpochCheckpoint
from .epochs import EpochCache


@dataclass(slots=True, kw_only=True)
class LocalLog:
    """Offsets and epochs of one replica; the partition's present role changes them."""

    tp: TopicPartition
    topic_name: str
    settings: TopicSettings
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    epochs: EpochCache

    @classmethod
    def empty(cls, tp: TopicPartition, topic_name: str, settings: TopicSettings) -> LocalLog:
        """Return the log of a replica that is new to this broker."""
        return cls(
            tp=tp,
            topic_name=topic_name,
            settings=settings,
            log_start_offset=0,
            log_end_offset=0,
            high_watermark=0,
            epochs=EpochCache(),
        )

    @classmethod
    def loaded(cls, hosted: HostedPartition) -> LocalLog:
        """Return the log of a replica found on disk.

        Raises:  InvariantViolation if records have no epoch: such a log would be compared
                 with others by nothing, so loading must rebuild its epochs first
        """
        log = cls(
            tp=hosted.tp,
            topic_name=hosted.topic_name,
            settings=TopicSettings(),
            log_start_offset=hosted.log_start_offset,
            log_end_offset=hosted.log_end_offset,
            high_watermark=hosted.high_watermark,
            epochs=EpochCache(hosted.epochs),
        )
        if log.log_end_offset > log.log_start_offset and not hosted.epochs:
            raise InvariantViolation("records have a leader epoch", tp=log.tp)
        log.check()
        return log

    def check(self) -> None:
        """Stop the broker if the offsets contradict each other."""
        if not 0 <= self.log_start_offset <= self.high_watermark <= self.log_end_offset:
            raise InvariantViolation(
                "log start <= high watermark <= log end",
                tp=self.tp,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
            )
        if self.epochs.last_start_offset > self.log_end_offset:
            raise InvariantViolation(
                "the last epoch begins within the log",
                tp=self.tp,
                start_offset=self.epochs.last_start_offset,
                log_end_offset=self.log_end_offset,
            )

    def begin_epoch(self, leader_epoch: LeaderEpoch, start_offset: int) -> list[Effect]:
        """Note an epoch before its first record is written (KAFKA-7415)."""
        if self.epochs.newest > leader_epoch:
            raise InvariantViolation(
                "leader epochs of a log never fall",
                tp=self.tp,
                leader_epoch=leader_epoch,
                newest=self.epochs.newest,
            )
        if self.epochs.assign(leader_epoch, start_offset):
            return [WriteEpochCheckpoint(tp=self.tp, epochs=self.epochs.entries)]
        return []

    def raise_high_watermark(self, high_watermark: int) -> None:
        """Move the high watermark as a leader does: never down."""
        if high_watermark < self.high_watermark:
            raise InvariantViolation(
                "a leader's high watermark never falls",
                tp=self.tp,
                high_watermark=self.high_watermark,
                wanted=high_watermark,
            )
        self.high_watermark = high_watermark
        self.check()

    def follow_high_watermark(self, leaders: int) -> None:
        """Take the leader's high watermark as far as this log reaches; it may fall."""
        self.high_watermark = max(self.log_start_offset, min(leaders, self.log_end_offset))
        self.check()

    def truncate_to(self, offset: int, *, leader_epoch: LeaderEpoch, reason: str) -> list[Effect]:
        """Keep offsets below `offset`; return nothing if neither log nor epochs changed.

        The log is cut before the epochs are written: epochs beyond the log end are cut when
        the log is loaded, but records without their epoch would go unnoticed.
        """
        if offset < self.log_start_offset:
            return self.restart_at(offset, leader_epoch=leader_epoch, reason=reason)
        effects: list[Effect] = []
        end, kept = self.log_end_offset, min(offset, self.log_end_offset)
        below = max(0, self.high_watermark - kept)
        self.log_end_offset, self.high_watermark = kept, min(self.high_watermark, kept)
        if kept < end:
            effects.append(TruncateTo(tp=self.tp, offset=kept))
        if self.epochs.truncate_from_end(kept):
            effects.append(WriteEpochCheckpoint(tp=self.tp, epochs=self.epochs.entries))
        if kept < end:
            effects.append(self._truncated(end, kept, below, leader_epoch, reason))
        self.check()
        return effects

    def restart_at(self, offset: int, *, leader_epoch: LeaderEpoch, reason: str) -> list[Effect]:
        """Drop everything and begin at `offset`.

        Beginning behind the old end loses nothing by itself: the leader no longer keeps it.
        """
        effects: list[Effect] = [RestartLogAt(tp=self.tp, offset=offset)]
        if self.epochs.truncate_from_end(0):
            effects.append(WriteEpochCheckpoint(tp=self.tp, epochs=()))
        if self.log_start_offset < self.log_end_offset:
            below = max(0, self.high_watermark - offset)
            effects.append(
                self._truncated(
                    self.log_end_offset, self.log_start_offset, below, leader_epoch, reason
                )
            )
        self.log_start_offset = self.high_watermark = self.log_end_offset = offset
        self.check()
        return effects

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
