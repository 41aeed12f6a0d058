"""Applies the controller's requests: changes roles, adds and removes replicas, responds.

`controller_request_queue` decides whether and in which order a request is applied, `partition` what
a role change means. `ControllerRequests` alone adds and removes partitions, and replaces the live
brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from strandline.errors import ErrorCode, InvariantViolation
from strandline.model import ControllerEpoch, PartitionCommand, TopicPartition

from .broker_context import BrokerContext
from .controller_request_queue import CheckedRequest, ControllerRequest, ControllerRequestQueue
from .effects import CreateReplica, DeleteReplica, Effect, ReplyLeaderAndIsr, ReplyStopReplica
from .events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    LogDirectoryLost,
    ReplicaLoaded,
    StatePersisted,
    StopReplicaReceived,
)
from .fetchers import Fetchers
from .follower import FollowerReplica
from .leader import LeaderReplica
from .local_log import LocalLog
from .notices import fenced
from .partition import Partition


class ControllerRequests:
    """Applies the controller's requests to the replicas of this broker."""

    def __init__(
        self, context: BrokerContext, fetchers: Fetchers, *, controller_epoch: ControllerEpoch
    ) -> None:
        self._context = context
        self._partitions: dict[TopicPartition, Partition] = {}
        self._fetchers = fetchers
        self._queue = ControllerRequestQueue(
            broker_id=context.broker_id,
            broker_epoch=context.broker_epoch,
            controller_epoch=controller_epoch,
            waiting_max=context.settings.controller_requests_waiting_max,
        )
        self.storage_lost = False

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The replicas that this broker hosts now."""
        return self._partitions

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that this broker accepted."""
        return self._queue.controller_epoch

    def on_replica_loaded(self, event: ReplicaLoaded) -> None:
        """Hold a replica found on disk, at start or restored; it is neither leader nor follower.

        A directory that is lost meanwhile takes no replica more.
        """
        if self.storage_lost:
            return
        if event.hosted.tp in self._partitions:
            raise InvariantViolation("a replica is loaded once", partition=str(event.hosted.tp))
        log = LocalLog.loaded(event.hosted, self._context.moved_high_watermarks)
        floor = self._queue.load(event.hosted, log)
        self._partitions[log.tp] = Partition(
            log=log,
            context=self._context,
            fenced_leader_epoch=floor,
            loaded_partition_epoch=event.hosted.partition_epoch,
            term=event.hosted.term,
        )

    def on_controller_request(self, request: ControllerRequest, now_ms: int) -> list[Effect]:
        """Queue a request, then apply all that the state file allows."""
        if self.storage_lost:
            return _respond(request, ErrorCode.KAFKA_STORAGE_ERROR)
        if self._queue.is_full and not isinstance(request, LiveBrokersChanged):
            return _respond(request, ErrorCode.REQUEST_TIMED_OUT)
        self._queue.submit(request)
        return self._drain(now_ms)

    def on_state_persisted(self, event: StatePersisted, now_ms: int) -> list[Effect]:
        """Apply the requests that waited for the disk."""
        effects: list[Effect] = []
        for checked in self._queue.on_persisted(event.token):
            effects += self._handle(checked, now_ms)
        return effects + self._drain(now_ms)

    def on_alter_partition_response(
        self, event: AlterPartitionResponseReceived, now_ms: int
    ) -> list[Effect]:
        """Hand a response to the leader that proposed; write the state that the leader adopts."""
        partition = self._partitions.get(event.tp)
        if partition is None or not isinstance(partition.role, LeaderReplica):
            return []
        leader = partition.role
        before = leader.state.partition_epoch
        effects = leader.on_alter_partition_response(event, now_ms)
        if leader.state.partition_epoch == before:
            return effects
        self._queue.submit_adopted(event.tp, partition.log.topic_name, leader.state)
        return effects + self._drain(now_ms)

    def on_log_directory_lost(self, event: LogDirectoryLost) -> list[Effect]:
        """Take every replica offline, for the life of the process."""
        self.storage_lost = True
        effects: list[Effect] = []
        for tp, partition in sorted(self._partitions.items()):
            self._fetchers.forget(tp)
            effects += partition.fail(event.reason)
        for request in self._queue.abandon():
            effects += _respond(request, ErrorCode.KAFKA_STORAGE_ERROR)
        return effects

    def _drain(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        while True:
            writes, ready = self._queue.begin()
            effects += writes
            if not ready:
                return effects
            for checked in ready:
                effects += self._handle(checked, now_ms)

    def _handle(self, checked: CheckedRequest, now_ms: int) -> list[Effect]:
        if checked.error is not ErrorCode.NONE:
            notices = fenced(checked.error, type(checked.request).__name__)
            return [*notices, *_respond(checked.request, checked.error)]
        match checked.request:
            case LeaderAndIsrReceived() as request:
                return self._on_leader_and_isr(request, checked.partition_errors, now_ms)
            case StopReplicaReceived() as request:
                return self._on_stop_replica(request, checked.partition_errors)
            case LiveBrokersChanged() as request:
                return self._on_live_brokers(request, now_ms)
            case _:
                assert_never(checked.request)

    def _on_leader_and_isr(
        self, request: LeaderAndIsrReceived, partition_errors: tuple[ErrorCode, ...], now_ms: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        errors: list[tuple[TopicPartition, ErrorCode]] = []
        for each, epoch_error in zip(request.partitions, partition_errors, strict=True):
            error = epoch_error
            if epoch_error is ErrorCode.NONE:
                error, role_effects = self._take_role(each, now_ms)
                effects += role_effects
            effects += fenced(error, type(request).__name__)
            errors.append((each.tp, error))
        effects.append(
            ReplyLeaderAndIsr(
                request_id=request.request_id,
                error=ErrorCode.NONE,
                partitions=tuple(errors),
                full=request.full,
            )
        )
        return effects

    def _take_role(self, command: PartitionCommand, now_ms: int) -> tuple[ErrorCode, list[Effect]]:
        partition = self._partitions.get(command.tp)
        effects: list[Effect] = []
        if partition is None:
            log = LocalLog(
                tp=command.tp,
                topic_name=command.topic_name,
                settings=command.settings,
                moved=self._context.moved_high_watermarks,
            )
            partition = self._partitions[command.tp] = Partition(log=log, context=self._context)
            effects.append(_create(command))
        elif partition.log.adopt_settings(command.settings):
            self._fetchers.note_settings(command.tp)
            effects.append(_create(command))
        role_before = partition.role
        error, role_effects = partition.on_committed_state(command.state, now_ms)
        if partition.role is not role_before:
            if isinstance(partition.role, FollowerReplica):
                self._fetchers.follow(command.tp, partition.role)
            else:
                self._fetchers.forget(command.tp)
        return error, effects + role_effects

    def _on_stop_replica(
        self, request: StopReplicaReceived, partition_errors: tuple[ErrorCode, ...]
    ) -> list[Effect]:
        effects: list[Effect] = []
        results = tuple(zip(request.partitions, partition_errors, strict=True))
        for tp, error in results:
            effects += fenced(error, type(request).__name__)
            if error is not ErrorCode.NONE:
                continue
            self._fetchers.forget(tp)
            stopped = self._partitions.pop(tp, None)
            if stopped is not None:
                stopped.leave_role()
                self._context.moved_high_watermarks.mark(tp)
            # Also for a replica unknown here: an earlier process may have left its folder.
            effects.append(DeleteReplica(tp=tp))
        effects.append(
            ReplyStopReplica(
                request_id=request.request_id, error=ErrorCode.NONE, partitions=results
            )
        )
        return effects

    def _on_live_brokers(self, request: LiveBrokersChanged, now_ms: int) -> list[Effect]:
        """Replace the live brokers, which decide who may join and who holds the HW back."""
        self._context.live.replace(request.brokers)
        effects: list[Effect] = []
        for _, partition in sorted(self._partitions.items()):
            if isinstance(partition.role, LeaderReplica):
                # Another process of a follower may be announced: the former one is refused.
                partition.role.unsettle_followers()
                effects += partition.role.propose_dead(now_ms)
                effects += partition.role.propose_joiner(now_ms)
                effects += partition.role.advance_high_watermark(now_ms)
                effects += partition.role.advance_low_watermark()
        return effects


def _create(command: PartitionCommand) -> CreateReplica:
    return CreateReplica(tp=command.tp, topic_name=command.topic_name, settings=command.settings)


def _respond(request: ControllerRequest, error: ErrorCode) -> list[Effect]:
    """Respond with one error, or NONE, for the request and each of its partitions."""
    match request:
        case LeaderAndIsrReceived():
            return [
                ReplyLeaderAndIsr(
                    request_id=request.request_id,
                    error=error,
                    partitions=tuple((each.tp, error) for each in request.partitions),
                    full=request.full,
                )
            ]
        case StopReplicaReceived():
            return [
                ReplyStopReplica(
                    request_id=request.request_id,
                    error=error,
                    partitions=tuple((tp, error) for tp in request.partitions),
                )
            ]
        case LiveBrokersChanged():
            return []
        case _:
            assert_never(request)
