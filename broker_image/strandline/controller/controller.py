"""The controller of one broker: a candidate, or the active controller of the cluster.

Driven by `runtime` and by the simulator: one event in, effects out, time as an argument.
`ControllerElection` makes it active and inactive; while active an `ActiveController` decides.
An inactive controller answers every broker NOT_CONTROLLER.
Invariant: the Lease's renew deadline is checked before every event.
"""

from __future__ import annotations

from typing import assert_never

from strandline.errors import ErrorCode
from strandline.model import BrokerId, ControllerEpoch

from . import object_events
from .active_controller import ActiveController
from .broker_events import BrokerEventHandler, reply_alter_partition, reply_controlled_shutdown
from .controller_election import ControllerElection
from .effects import CloseSession, ControllerEffect, LoadCluster
from .events import (
    BrokerResponseReceived,
    ControllerEvent,
    HeartbeatReceived,
    HostedReported,
    IsrChangeRequested,
    ProbeResponseReceived,
    SessionBroken,
    SessionOpened,
    ShutdownRequested,
    StopRequested,
    Ticked,
)
from .notices import ControllerElected
from .store_events import (
    BrokerObserved,
    BrokerRead,
    ClusterLoaded,
    ControllerEpochSeen,
    ControllerRecordResponseReceived,
    EpochFloorRead,
    HolderDied,
    LeaseObserved,
    LeaseResponseReceived,
    ObjectEvent,
    PartitionDeleted,
    PartitionObserved,
    PartitionResponseReceived,
    StoreOutcome,
    TopicDeleted,
    TopicObserved,
    TopicsRead,
    WatchLost,
)
from .timing import ControllerTiming

_BrokerEvent = (
    HeartbeatReceived
    | IsrChangeRequested
    | BrokerResponseReceived
    | ProbeResponseReceived
    | SessionOpened
    | SessionBroken
    | ShutdownRequested
    | HostedReported
    | BrokerRead
)

_COUNTER_BITS = 32  # the controller epoch stands above them, 0 while inactive


class Controller:
    """Candidate or active controller; `identity` is `broker-<id>/<incarnation>`, new per process.

    rank orders the candidates. The first event may be a `Ticked`.
    """

    def __init__(
        self, *, broker_id: BrokerId, identity: str, rank: int, timing: ControllerTiming
    ) -> None:
        self._timing = timing
        self._last_request_id = 0
        self._election = ControllerElection(
            broker_id=broker_id,
            identity=identity,
            rank=rank,
            timing=timing.lease,
            new_request_id=self._new_request_id,
        )
        self._active: ActiveController | None = None
        self._handler: BrokerEventHandler | None = None
        self._reload_request_id: int | None = None
        self._reload_ms: int | None = None

    @property
    def epoch(self) -> ControllerEpoch | None:
        """The epoch of this active controller, None while inactive."""
        return None if self._active is None else self._active.epoch

    @property
    def is_stopped(self) -> bool:
        """Whether the release that `StopRequested` asked for is done."""
        return self._election.elector.is_stopped

    @property
    def queue_length(self) -> int:
        """Partitions that wait for their turn."""
        return 0 if self._active is None else self._active.reconciler.queue_length

    @property
    def offline_partition_count(self) -> int:
        """Partitions without a leader; 0 while inactive."""
        return 0 if self._active is None else self._active.table.offline_count()

    @property
    def next_wakeup_ms(self) -> int | None:
        """When to send `Ticked`; None while only another event can change anything."""
        reloading = self._reload_request_id is not None
        due = [self._election.next_wakeup_ms, None if reloading else self._reload_ms]
        if self._active is not None:
            due.append(self._active.next_wakeup_ms)
        return min((ms for ms in due if ms is not None), default=None)

    def step(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        """Take one event; return what must be done, in order."""
        effects = self._election.tick(now_ms)
        effects.extend(self._follow_election())
        effects.extend(self._handle(event, now_ms))
        active = self._active
        if active is not None and active.higher_epoch is not None:
            effects.extend(self._election.see_epoch(active.higher_epoch, now_ms))
        effects.extend(self._election.tick(now_ms))
        effects.extend(self._follow_election())
        if self._active is not None:
            effects.extend(self._reload(now_ms))
            effects.extend(self._active.advance(now_ms))
        return effects

    def _handle(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        election = self._election
        match event:
            case LeaseObserved():
                return election.follow(election.elector.observe(event.lease, now_ms), now_ms)
            case LeaseResponseReceived():
                decisions = election.elector.answered(
                    event.request_id, event.outcome, event.lease, now_ms
                )
                return election.follow(decisions, now_ms)
            case EpochFloorRead():
                return election.on_floor(event, now_ms)
            case ControllerRecordResponseReceived():
                return election.on_record(event, now_ms)
            case ControllerEpochSeen():
                return election.see_epoch(event.controller_epoch, now_ms)
            case StopRequested():
                return election.stop(now_ms)
            case ClusterLoaded() if self._active is None:
                return self._become_active(event, now_ms)
            case (
                PartitionObserved()
                | PartitionResponseReceived()
                | PartitionDeleted()
                | BrokerObserved()
                | TopicObserved()
                | TopicDeleted()
                | TopicsRead()
                | WatchLost()
                | ClusterLoaded()
            ):
                return [] if self._active is None else self._on_object(self._active, event, now_ms)
            case Ticked():
                return []
            case HolderDied():
                election.elector.holder_died(event.holder_identity, now_ms)
                return []
            case _:
                handler = self._handler
                return _on_broker(handler, event, now_ms) if handler else self._refuse(event)

    def _become_active(self, event: ClusterLoaded, now_ms: int) -> list[ControllerEffect]:
        effects = self._election.on_loaded(event, now_ms)
        if self._election.epoch is None:
            return effects
        active = ActiveController(
            epoch=self._election.epoch,
            timing=self._timing,
            new_request_id=self._new_request_id,
            now_ms=now_ms,
        )
        self._active, self._handler = active, BrokerEventHandler(active)
        self._reload_ms = self._reload_request_id = None
        elected = ControllerElected(
            controller_epoch=active.epoch,
            partition_count=len(event.partitions),
            broker_count=len(event.brokers),
            takeover_ms=now_ms - self._election.since_ms,
        )
        return [*effects, elected, *object_events.on_loaded(active, event, now_ms)]

    def _follow_election(self) -> list[ControllerEffect]:
        """Stop deciding if the election is lost."""
        if self._active is None or self._handler is None or self._election.epoch is not None:
            return []
        effects = [*self._handler.resign(), *self._active.resign()]
        self._active = self._handler = None
        self._reload_ms = self._reload_request_id = None
        return effects

    def _on_object(
        self, active: ActiveController, event: ObjectEvent, now_ms: int
    ) -> list[ControllerEffect]:
        match event:
            case PartitionObserved():
                return object_events.on_partition(active, event, now_ms)
            case PartitionResponseReceived():
                return object_events.on_partition_response(active, event, now_ms)
            case BrokerObserved():
                return object_events.on_broker(active, event.broker, now_ms)
            case PartitionDeleted():
                return object_events.on_partition_deleted(active, event)
            case TopicObserved():
                object_events.on_topic(active, event.topic, now_ms)
                return []
            case TopicDeleted():
                object_events.on_topic_deleted(active, event.topic_id)
                return []
            case TopicsRead():
                return object_events.on_topics_read(active, event, now_ms)
            case WatchLost():
                self._reload_ms = now_ms
                return []
            case ClusterLoaded():
                return self._on_reloaded(active, event, now_ms)
        assert_never(event)

    def _on_reloaded(
        self, active: ActiveController, event: ClusterLoaded, now_ms: int
    ) -> list[ControllerEffect]:
        if event.request_id != self._reload_request_id:
            return []
        self._reload_request_id = None
        if event.outcome is not StoreOutcome.OK:
            self._reload_ms = now_ms + self._timing.lease.retry_period_ms
            return []
        return object_events.on_loaded(active, event, now_ms)

    def _reload(self, now_ms: int) -> list[ControllerEffect]:
        """List everything again after a watch was lost; one list at a time."""
        due = self._reload_ms is not None and self._reload_ms <= now_ms
        if not due or self._reload_request_id is not None:
            return []
        self._reload_ms, self._reload_request_id = None, self._new_request_id()
        return [LoadCluster(request_id=self._reload_request_id)]

    def _refuse(self, event: _BrokerEvent) -> list[ControllerEffect]:
        """Refuse a broker that takes this process for the active controller."""
        if isinstance(event, IsrChangeRequested):
            return [reply_alter_partition(event, ErrorCode.NOT_CONTROLLER)]
        if isinstance(event, ShutdownRequested):
            return [reply_controlled_shutdown(event, ErrorCode.NOT_CONTROLLER)]
        if isinstance(event, (SessionOpened, HeartbeatReceived)):
            epoch, refused = self._election.highest_epoch_known, ErrorCode.NOT_CONTROLLER
            session_id = event.session_id
            return [CloseSession(session_id=session_id, error=refused, controller_epoch=epoch)]
        return []

    def _new_request_id(self) -> int:
        """Return an id that a late answer to another controller's command does not have."""
        self._last_request_id = (self._last_request_id + 1) % (1 << _COUNTER_BITS)
        return (self._election.epoch or 0) << _COUNTER_BITS | self._last_request_id


def _on_broker(
    handler: BrokerEventHandler, event: _BrokerEvent, now_ms: int
) -> list[ControllerEffect]:
    match event:
        case HeartbeatReceived():
            return handler.on_heartbeat(event, now_ms)
        case IsrChangeRequested():
            return handler.on_isr_change(event, now_ms)
        case BrokerResponseReceived():
            return handler.on_broker_response(event, now_ms)
        case ProbeResponseReceived():
            return handler.on_probe(event, now_ms)
        case SessionOpened():
            return handler.on_hello(event, now_ms)
        case SessionBroken():
            handler.on_broken(event, now_ms)
            return []
        case ShutdownRequested():
            return handler.on_shutdown(event, now_ms)
        case HostedReported():
            return handler.on_hosted(event, now_ms)
        case BrokerRead():
            return handler.on_broker_read(event, now_ms)
    assert_never(event)
