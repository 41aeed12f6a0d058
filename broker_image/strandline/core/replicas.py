"""All replicas of one broker: events in, effects out.

The only entry of the core. Called by `runtime.event_loop.driver` and the simulator, one event at a
time; `Replicas` connects decisions and makes none itself. A step handles the event, does what is
due, completes requests, expires others, and fetches. Effects come in performing order: the disk
before the message that reports it.
"""

from __future__ import annotations

from typing import assert_never

from strandline.errors import InvariantViolation
from strandline.model import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition

from .broker_context import BrokerContext
from .controller_requests import ControllerRequests
from .copy_quota import CopyIntakeChanged
from .effects import Effect, WriteHighWatermarkCheckpoint
from .events import (
    AlterPartitionResponseReceived,
    ControlEvent,
    DelayedFetchReceived,
    DeleteRecordsReceived,
    Event,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    LogDirectoryLost,
    LogFlushed,
    LogStartPersisted,
    ProduceReceived,
    ReplicaLoaded,
    RequestCancelled,
    RetentionReached,
    StatePersisted,
    StopReplicaReceived,
    Ticked,
)
from .fetchers import Fetchers
from .follower_fetches import FollowerFetches
from .leader import LeaderReplica
from .live_brokers import LiveBrokers
from .log_flushes import LogFlushes
from .log_starts import LogStarts
from .partition import Failed
from .purgatory import Operation, Purgatory
from .reads import ConsumerReads
from .requests import Requests
from .settings import CoreSettings
from .views import PartitionView, ReplicaGauges, gauges_of, view_of


class Replicas:
    """The replicas of one process of one broker.

    controller_epoch is the highest this broker ever accepted, from the state file. consumer_reads
    is for consumers' requests, which change nothing.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        clean_since_epoch: BrokerEpoch,
        settings: CoreSettings,
        *,
        controller_epoch: ControllerEpoch = ControllerEpoch(0),
    ) -> None:
        if not clean_since_epoch <= broker_epoch:
            raise InvariantViolation(
                "a log is clean since an epoch that has begun",
                clean_since_epoch=clean_since_epoch,
                broker_epoch=broker_epoch,
            )
        self._context = BrokerContext(
            broker_id=broker_id, broker_epoch=broker_epoch, settings=settings, live=LiveBrokers()
        )
        self._fetchers = Fetchers(self._context)
        self._controller_requests = ControllerRequests(
            self._context, self._fetchers, controller_epoch=controller_epoch
        )
        self._partitions = self._controller_requests.partitions
        self._purgatory = Purgatory(requests_max=settings.purgatory_requests_max)
        self._follower_fetches = FollowerFetches(self._partitions, self._purgatory)
        self._log_flushes = LogFlushes(self._partitions, self._fetchers)
        self._log_starts = LogStarts(self._partitions, self._purgatory, self._fetchers)
        self._requests = Requests(
            self._partitions, self._purgatory, self._follower_fetches, self._log_starts
        )
        self.consumer_reads = ConsumerReads(self._partitions)
        self._now_ms: int | None = None
        self._isr_check_period_ms = max(1, settings.replica_lag_time_max_ms // 2)
        self._checkpoint_period_ms = settings.high_watermark_checkpoint_interval_ms
        self._isr_check_at_ms = 0
        self._checkpoint_at_ms = 0
        self._checkpointed: dict[TopicPartition, int] = {}

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event; return the effects, in performing order.

        Units:   now_ms never falls between steps
        Raises:  InvariantViolation when a promise of the core is broken: the broker stops
        """
        self._start_periods(now_ms)
        effects = self._handle(event, now_ms)
        effects += self._do_due(now_ms)
        effects += self._requests.complete(effects)
        effects += self._requests.expire(now_ms)
        effects += self._fetchers.plan(now_ms)
        return effects

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next `Ticked` is due at the latest, None while nothing waits for time."""
        times = [
            self._purgatory.next_deadline_ms,
            self._fetchers.next_wakeup_ms,
            self._context.isr_retries.next_due_ms,
        ]
        if self._partitions:
            times += [self._checkpoint_at_ms, self._isr_check_at_ms]
        return min([time_ms for time_ms in times if time_ms is not None], default=None)

    def _handle(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case FollowerFetchReceived():
                return self._follower_fetches.on_fetch(event, now_ms)
            case FetchResponseReceived():
                return self._fetchers.on_fetch_response(event, now_ms)
            case ProduceReceived():
                return self._requests.on_produce(event, now_ms)
            case DelayedFetchReceived():
                return self._requests.on_delayed_fetch(event, now_ms)
            case Ticked():
                return []
            case FetchFailed():
                self._fetchers.on_fetch_failed(event.leader, event.request_id, now_ms)
                return []
            case RequestCancelled():
                self._purgatory.cancel(event.request_id)
                return []
            case DeleteRecordsReceived():
                return self._log_starts.on_delete_records(event, now_ms)
            case RetentionReached():
                return self._log_starts.on_retention_reached(event)
            case LogStartPersisted():
                return self._log_starts.on_persisted(event)
            case LogFlushed():
                return self._log_flushes.on_flushed(event, now_ms)
            case _:
                return self._handle_control(event, now_ms)

    def _handle_control(self, event: ControlEvent, now_ms: int) -> list[Effect]:
        match event:
            case AlterPartitionResponseReceived():
                return self._controller_requests.on_alter_partition_response(event, now_ms)
            case LeaderAndIsrReceived() | StopReplicaReceived() | LiveBrokersChanged():
                return self._controller_requests.on_controller_request(event, now_ms)
            case StatePersisted():
                return self._controller_requests.on_state_persisted(event, now_ms)
            case ReplicaLoaded():
                self._controller_requests.on_replica_loaded(event)
                return []
            case CopyIntakeChanged():
                self._fetchers.change_copy_intake(event.rate)
                return []
            case LogDirectoryLost():
                return self._controller_requests.on_log_directory_lost(event)
            case _:
                assert_never(event)

    def _start_periods(self, now_ms: int) -> None:
        if self._now_ms is None:
            self._isr_check_at_ms = now_ms + self._isr_check_period_ms
            self._checkpoint_at_ms = now_ms + self._checkpoint_period_ms
        elif now_ms < self._now_ms:
            raise InvariantViolation("time does not fall", now_ms=now_ms, before=self._now_ms)
        self._now_ms = now_ms

    def _do_due(self, now_ms: int) -> list[Effect]:
        effects = self._resend_due(now_ms)
        if self._isr_check_at_ms <= now_ms:
            self._isr_check_at_ms = now_ms + self._isr_check_period_ms
            effects += self._check_isrs(now_ms)
        if self._checkpoint_at_ms <= now_ms:
            self._checkpoint_at_ms = now_ms + self._checkpoint_period_ms
            effects += self._checkpoint()
        return effects

    def _check_isrs(self, now_ms: int) -> list[Effect]:
        """Look at the leaders whose ISR time may change, and again while it may."""
        effects: list[Effect] = []
        for tp in self._context.isr_checks.take():
            partition = self._partitions.get(tp)
            if partition is not None and isinstance(leader := partition.role, LeaderReplica):
                effects += leader.check_isr(now_ms)
                if not leader.is_settled:
                    self._context.isr_checks.mark(tp)
        return effects

    def _resend_due(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for tp in self._context.isr_retries.take_due(now_ms):
            partition = self._partitions.get(tp)
            if partition is not None and isinstance(partition.role, LeaderReplica):
                effects += partition.role.proposer.resend_due(now_ms)
        return effects

    def _checkpoint(self) -> list[Effect]:
        """Write the high watermarks of all replicas if any moved; look at those alone."""
        moved = self._context.moved_high_watermarks.take()
        if self._controller_requests.storage_lost or not moved:
            return []
        for tp in moved:
            partition = self._partitions.get(tp)
            if partition is None:
                self._checkpointed.pop(tp, None)
            else:
                self._checkpointed[tp] = partition.log.high_watermark
        high_watermarks = tuple(sorted(self._checkpointed.items()))
        return [WriteHighWatermarkCheckpoint(high_watermarks=high_watermarks)]

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that this broker accepted."""
        return self._controller_requests.controller_epoch

    def view(self, tp: TopicPartition) -> PartitionView | None:
        """Return a view of a replica, None if this broker does not host it."""
        partition = self._partitions.get(tp)
        return None if partition is None else view_of(partition)

    def gauges(self, tp: TopicPartition) -> ReplicaGauges | None:
        """Return what a scrape shows of a replica, None if this broker does not host it."""
        partition = self._partitions.get(tp)
        return None if partition is None else gauges_of(partition)

    def views(self) -> tuple[PartitionView, ...]:
        """Return views of all replicas, ascending."""
        return tuple(view_of(partition) for _, partition in sorted(self._partitions.items()))

    def high_watermarks(self) -> tuple[tuple[TopicPartition, int], ...]:
        """Return the content of the high watermark checkpoint; a clean stop writes it, too."""
        return tuple(
            (tp, partition.log.high_watermark)
            for tp, partition in sorted(self._partitions.items())
            if not isinstance(partition.role, Failed)
        )

    def purgatory_sizes(self) -> dict[Operation, int]:
        """Return how many requests wait, by operation."""
        return self._purgatory.sizes()
