"""A replica that follows: what it fetches, and what it does with the response.

`Partition` makes a follower for one leader epoch; changed by its own methods alone. The follower
fetches from its log end, so each fetch is also an acknowledgement. It writes only what the leader
sent, and cuts what the leader never had.

    fetching  --records----------->  fetching from the new log end
    fetching  --diverging epoch--->  log cut, fetching again (until histories agree)
    fetching  --refused----------->  delayed, then fetching
    fetching  --fenced------------>  fenced until the controller names a later leadership
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import BatchSpan, BrokerId, EpochEndOffset, LeaderEpoch, PartitionState

from .effects import AppendAsFollower, Effect
from .events import FetchedPartition
from .fetch_changes import FetchPartition
from .local_log import LocalLog
from .notices import Fenced
from .settings import CoreSettings
from .truncation import choose_truncation


@dataclass(slots=True, kw_only=True)
class FollowerReplica:
    """The following replica of a partition during one leader epoch.

    A fenced replica fetches nothing: a later request of the controller is on its way.
    delayed_until_ms is in the past unless the last fetch was refused. leaders_high_watermark is the
    last that the leader told in this epoch, None before.
    """

    log: LocalLog
    state: PartitionState
    delayed_until_ms: int = 0
    refusals: int = 0
    fenced: bool = False
    leaders_high_watermark: int | None = None

    @property
    def leader(self) -> BrokerId:
        """The broker to fetch from, NO_LEADER while there is none."""
        return self.state.leader

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The epoch under which this replica follows."""
        return self.state.leader_epoch

    def is_copy(self, broker_id: BrokerId) -> bool:
        """Tell whether this broker is being added, and no commit waits for what it receives.

        Who has all that the leader told to be committed is none: every member of the ISR has it,
        also one that did not hear yet that it joined.

        Source:  Kafka 3.9 ReplicaFetcherThread.shouldFollowerThrottle
        """
        if broker_id not in self.state.adding_replicas or self.state.entry_of(broker_id):
            return False
        told = self.leaders_high_watermark
        return told is None or self.log.log_end_offset < told

    def fetch(self) -> FetchPartition:
        """Return what to fetch next."""
        return FetchPartition(
            tp=self.log.tp,
            fetch_offset=self.log.log_end_offset,
            leader_epoch=self.leader_epoch,
            last_fetched_epoch=self.log.epochs.newest,
            high_watermark=self.log.high_watermark,
            log_start_offset=self.log.durable_start_offset,
        )

    def expects(self, requested: FetchPartition) -> bool:
        """Tell whether the response to a fetch still fits this leadership and this log."""
        return (
            requested.fetch_offset == self.log.log_end_offset
            and requested.leader_epoch == self.leader_epoch
            and requested.last_fetched_epoch == self.log.epochs.newest
            and requested.high_watermark == self.log.high_watermark
        )

    def adopt(self, state: PartitionState) -> None:
        """Take a later committed state of the leadership that is followed."""
        self.state = state

    def on_fetched(
        self, response: FetchedPartition, *, now_ms: int, settings: CoreSettings
    ) -> list[Effect]:
        """Take one partition of the response to a fetch of this leader epoch from this log end."""
        settled = False
        effects: list[Effect] = []
        match response.error:
            case ErrorCode.NONE if response.diverging is not None:
                # The high watermark of a diverging response belongs to another history
                # (KAFKA-14704): the follower ignores it.
                effects = self._truncate(response.diverging, response.log_start_offset)
                settled = bool(effects)
            case ErrorCode.NONE:
                self.leaders_high_watermark = response.high_watermark
                effects = self._append(response)
                settled = bool(effects) or not response.batches
                if settled:
                    self.log.follow_high_watermark(response.high_watermark)
                    effects += self._follow_start(response.log_start_offset)
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                effects = self._restart(response.log_start_offset)
                settled = bool(effects)
            case ErrorCode.FENCED_LEADER_EPOCH:
                self.fenced = settled = True
                effects = [Fenced(fence="leader_epoch", detail="our fetch")]
            case _:
                pass
        if settled:
            self.refusals = 0
        else:
            self.refusals += 1
            self.delayed_until_ms = now_ms + settings.backoff_ms(self.refusals)
        return effects

    def _follow_start(self, leaders: int) -> list[Effect]:
        """Begin where the leader's log begins, but never above the own high watermark."""
        if leaders <= self.log.high_watermark:
            return self.log.advance_start(leaders, reason="leader")
        return []

    def _append(self, response: FetchedPartition) -> list[Effect]:
        begun_lower = self._begin_at_batch(response)
        accepted = self._acceptable(response.batches)
        if not accepted:
            return begun_lower
        # Epochs before records: no leader could compare a record without an epoch.
        return [
            *begun_lower,
            *self.log.append_batches(accepted),
            AppendAsFollower(tp=self.log.tp, records=response.records, batch_count=len(accepted)),
        ]

    def _begin_at_batch(self, response: FetchedPartition) -> list[Effect]:
        """Begin anew with a batch that the own end lies in: the leader's log starts there.

        What this log holds, if anything, the leader has deleted.

        Source:  KAFKA-6975: DeleteRecords may leave a log start in the middle of a batch
        """
        batches, end = response.batches, self.log.log_end_offset
        keeps_nothing = self.log.log_start_offset == end or end <= response.log_start_offset
        if batches and batches[0].base_offset < end < batches[0].next_offset and keeps_nothing:
            base_offset, epoch = batches[0].base_offset, self.leader_epoch
            return self.log.restart_at(base_offset, leader_epoch=epoch, reason="out_of_range")
        return []

    def _acceptable(self, batches: tuple[BatchSpan, ...]) -> list[BatchSpan]:
        """Return the leading batches that continue this log under an epoch we know of.

        A later epoch than ours means the response is not of the leadership we follow (KAFKA-18723).
        """
        accepted: list[BatchSpan] = []
        next_offset, newest = self.log.log_end_offset, self.log.epochs.newest
        for batch in batches:
            if not (
                next_offset == batch.base_offset < batch.next_offset
                and newest <= batch.leader_epoch <= self.leader_epoch
            ):
                break
            accepted.append(batch)
            next_offset, newest = batch.next_offset, batch.leader_epoch
        return accepted

    def _truncate(self, diverging: EpochEndOffset, leaders_start: int) -> list[Effect]:
        """Keep what both histories share; that is nothing if they part where the leader's begins.

        The leader no longer knows the epochs below its log start, nor that this offset may lie
        within a batch; what it deleted there, this follower may drop too.
        """
        end, epoch = self.log.log_end_offset, self.leader_epoch
        if leaders_start > 0 and diverging.end_offset <= leaders_start:
            return self.log.restart_at(leaders_start, leader_epoch=epoch, reason="diverging_epoch")
        offset = choose_truncation(diverging, self.log.epochs, log_end_offset=end)
        return self.log.truncate_to(offset, leader_epoch=epoch, reason="diverging_epoch")

    def _restart(self, leaders_start: int) -> list[Effect]:
        """Begin at the leader's log start if that lies above the end of this log.

        An empty log may begin anywhere. A log that reaches the leader's start keeps its records
        here: epochs alone decide what it cuts.
        """
        end = self.log.log_end_offset
        is_empty = self.log.log_start_offset == end
        if end < leaders_start or (is_empty and end != leaders_start):
            epoch = self.leader_epoch
            return self.log.restart_at(leaders_start, leader_epoch=epoch, reason="out_of_range")
        return []
