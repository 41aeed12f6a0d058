"""A replica that leads: appends, counts its followers, decides who is in sync.

`Partition` makes a leader when the controller names this broker, and drops it when the controller
names another or a later leadership. Changed by its own methods alone; they also move the high
watermark of its log. A re-elected leader begins with unknown followers: another leader may have cut
their logs in the meantime.
Invariant: the high watermark never falls, and never passes a member of the maximal ISR.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import BrokerEpoch, BrokerId, IsrEntry, LeaderEpoch, PartitionState

from .broker_context import BrokerContext
from .effects import AppendAsLeader, Effect
from .events import AlterPartitionResponseReceived, ProduceReceived
from .high_watermark import counted_end_offsets, next_high_watermark
from .isr import Stable
from .isr_proposer import IsrProposer
from .local_log import LocalLog
from .notices import HighWatermarkAdvanced, IsrChanged, LowWatermarkAdvanced
from .progress import (
    FollowerProgress,
    are_all_in_sync,
    in_sync_count,
    out_of_sync,
    reset_progress,
    stale_incarnations,
)


@dataclass(slots=True, kw_only=True)
class LeaderReplica:
    """The leading replica of a partition during one leader epoch.

    followers maps every remote assigned broker; epoch_start_offset is the log end at
    the moment this leadership began; low_watermark is the last one taken.
    """

    log: LocalLog
    context: BrokerContext
    proposer: IsrProposer
    epoch_start_offset: int
    followers: dict[BrokerId, FollowerProgress]
    low_watermark: int = 0

    @property
    def state(self) -> PartitionState:
        """The newest committed state this leader has seen."""
        return self.proposer.state

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The epoch stamped on what this leader appends."""
        return self.proposer.state.leader_epoch

    @property
    def min_insync_replicas(self) -> int:
        """The least number of members in sync with which acks=all is taken."""
        return self.proposer.state.least_in_sync

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer than min ISR members have what their entry stands for."""
        return self._in_sync_count() < self.min_insync_replicas

    @property
    def end_is_unknown(self) -> bool:
        """Whether committed records may lie above the high watermark this leader inherited."""
        return self.log.high_watermark < self.epoch_start_offset

    @property
    def is_settled(self) -> bool:
        """Whether the mere passing of time changes neither the ISR nor the high watermark."""
        end, isr = self.log.log_end_offset, self.proposer.isr
        is_still = isinstance(isr, Stable) and self.log.high_watermark == end
        return is_still and are_all_in_sync(isr.entries, self.followers, leader_end=end)

    def unsettle_followers(self) -> None:
        """Have the ISR and each follower's next fetch looked at: call it before any change."""
        self.context.isr_checks.mark(self.log.tp)
        for progress in self.followers.values():
            progress.unsettle(self.log.tp)

    def append(self, batch: ProduceReceived) -> AppendAsLeader:
        """Give a batch the next offsets; the disk follows when the effect is performed."""
        self.unsettle_followers()
        return AppendAsLeader(
            request_id=batch.request_id,
            tp=self.log.tp,
            records=batch.records,
            base_offset=self.log.append(batch.record_count),
            leader_epoch=self.leader_epoch,
        )

    def advance_high_watermark(self, now_ms: int) -> list[Effect]:
        """Commit what every counted follower has; return no effects if nothing is new."""
        ends = counted_end_offsets(
            self.proposer.isr.maximal_entries,
            self.followers,
            is_eligible=self.context.live.is_live,
            leader_end=self.log.log_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=self.context.settings.replica_lag_time_max_ms,
        )
        high_watermark = next_high_watermark(
            ends,
            high_watermark=self.log.high_watermark,
            leader_end=self.log.durable_end_offset,
            in_sync_count=self._in_sync_count,
            min_insync_replicas=self.min_insync_replicas,
        )
        if high_watermark == self.log.high_watermark:
            return []
        self.unsettle_followers()
        self.log.raise_high_watermark(high_watermark)
        return [HighWatermarkAdvanced(tp=self.log.tp, high_watermark=high_watermark)]

    def advance_low_watermark(self) -> list[Effect]:
        """Take the least log start that live replicas have on disk; return news of a rise.

        A live follower that has not fetched yet holds the low watermark back. It may fall: a
        broker that was away comes back with an earlier log start.

        Source:  Kafka 3.9 Partition.lowWatermarkIfLeader
        """
        before = self.low_watermark
        starts = (
            progress.log_start_offset
            for broker_id, progress in self.followers.items()
            if self.context.live.epoch_of(broker_id) is not None
        )
        self.low_watermark = max(0, min((self.log.durable_start_offset, *starts)))
        if self.low_watermark <= before:
            return []
        return [LowWatermarkAdvanced(tp=self.log.tp, low_watermark=self.low_watermark)]

    def admit(
        self, follower: BrokerId, *, broker_epoch: BrokerEpoch, clean_since_epoch: BrokerEpoch
    ) -> bool:
        """Tell whether this process of a follower may fetch; begin its progress if it is new.

        A lower broker epoch names a replaced process: its successor may have lost its records.
        """
        progress = self.followers[follower]
        announced = self.context.live.epoch_of(follower)
        is_replaced = announced is not None and broker_epoch < announced
        if is_replaced or broker_epoch < progress.broker_epoch:
            return False
        if broker_epoch > progress.broker_epoch:
            self.context.isr_checks.mark(self.log.tp)
            self.followers[follower] = reset_progress(
                progress,
                broker_epoch=broker_epoch,
                clean_since_epoch=clean_since_epoch,
                entry=self.proposer.entry_of(follower),
            )
        return True

    def record_fetch(
        self,
        follower: BrokerId,
        *,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        has_room: bool,
    ) -> list[Effect]:
        """Count an admitted fetch whose offset belongs to our history."""
        progress = self.followers[follower]
        moved = progress.log_end_offset != fetch_offset
        start_moved = progress.log_start_offset != log_start_offset
        progress.record_fetch(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end=self.log.log_end_offset,
            now_ms=now_ms,
            has_room=has_room,
        )
        entry = self.proposer.entry_of(follower)
        effects: list[Effect] = []
        if entry is None or not progress.covers(entry):
            leavers = stale_incarnations(self.proposer.isr.entries, self.followers)
            effects = self.proposer.propose_leavers(leavers, now_ms) + self.propose_joiner(now_ms)
        if moved:
            self.context.isr_checks.mark(self.log.tp)
            effects += self.advance_high_watermark(now_ms)
        if start_moved:
            effects += self.advance_low_watermark()
        return effects

    def check_isr(self, now_ms: int) -> list[Effect]:
        """Propose that members leave that lag for too long; `Replicas` calls this periodically.

        With time, a follower outside the ISR stops holding the high watermark back.
        """
        lagging = out_of_sync(
            self.proposer.isr.isr,
            self.followers,
            leader_end=self.log.log_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=self.context.settings.replica_lag_time_max_ms,
        )
        leavers = lagging | stale_incarnations(self.proposer.isr.entries, self.followers)
        return (
            self.proposer.propose_leavers(leavers, now_ms)
            + self.advance_high_watermark(now_ms)
            + self.propose_joiner(now_ms)
        )

    def propose_dead(self, now_ms: int) -> list[Effect]:
        """Propose that members leave that are no longer live, if records wait for them.

        The controller takes them out by itself, partition after partition; a request has it look
        at those first in which producers with acks=all wait.
        """
        if self.log.high_watermark == self.log.log_end_offset:
            return []
        live, own = self.context.live, self.context.broker_id
        dead = {each for each in self.proposer.isr.isr if each != own and not live.epoch_of(each)}
        return self.proposer.propose_leavers(frozenset(dead), now_ms)

    def propose_joiner(self, now_ms: int) -> list[Effect]:
        """Propose one follower that has all committed records of this and earlier leaders.

        Exactly the process that fetched joins, and only while the controller announces it
        (KIP-841, KIP-903).
        """
        for broker_id in sorted(self.followers):
            if broker_id not in self.proposer.isr.isr and self._may_join(broker_id, now_ms):
                broker_epoch = self.followers[broker_id].broker_epoch
                joiner = IsrEntry(broker_id=broker_id, broker_epoch=broker_epoch)
                return self.proposer.propose_joiner(joiner, now_ms)
        return []

    def on_alter_partition_response(
        self, event: AlterPartitionResponseReceived, now_ms: int
    ) -> list[Effect]:
        """Adopt the state that a response carries; without a later state keep the maximal ISR."""
        if event.stored is not None and self.proposer.is_later_state(event.stored):
            return self.adopt(event.stored, now_ms, error=event.error)
        return self.proposer.wait_on(event, now_ms)

    def adopt(
        self,
        state: PartitionState,
        now_ms: int,
        *,
        error: ErrorCode = ErrorCode.INVALID_UPDATE_VERSION,
    ) -> list[Effect]:
        """Take a later committed state of this leadership, from a response or a request."""
        self.unsettle_followers()
        before = self.proposer.isr.entries
        effects = self.proposer.adopt(state, now_ms, error=error)
        self.followers = {
            broker: self.followers.get(broker) or FollowerProgress()
            for broker in state.replicas
            if broker != self.context.broker_id
        }
        if before != state.isr:
            effects.append(self._isr_changed(before))
        # First commit, then look for joiners: a leaver may lack only what its leaving commits, and
        # would be proposed again at once.
        return effects + self.advance_high_watermark(now_ms) + self.propose_joiner(now_ms)

    def _in_sync_count(self) -> int:
        return in_sync_count(self.proposer.isr.entries, self.followers)

    def _may_join(self, broker_id: BrokerId, now_ms: int) -> bool:
        # An inherited high watermark may be too low; the epoch start is not (KAFKA-7128).
        progress = self.followers[broker_id]
        return (
            progress.last_fetch_ms is not None
            and now_ms - progress.last_fetch_ms <= self.context.settings.replica_lag_time_max_ms
            and progress.log_end_offset >= self.log.high_watermark
            and progress.log_end_offset >= self.epoch_start_offset
            # Without room it would be out again after the lag time.
            and (progress.has_room or progress.log_end_offset == self.log.log_end_offset)
            and self.context.live.is_live(broker_id, progress.broker_epoch)
            and self.proposer.may_propose_again(broker_id, now_ms)
        )

    def _isr_changed(self, before: tuple[IsrEntry, ...]) -> IsrChanged:
        return IsrChanged(
            tp=self.log.tp,
            topic_name=self.log.topic_name,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            isr_before=tuple(entry.broker_id for entry in before),
            isr_after=self.state.isr_ids,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self.log.high_watermark,
        )
