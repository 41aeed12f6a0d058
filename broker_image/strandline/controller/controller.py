"""The controller, and the candidate for that office, of one broker.

Driven by `runtime` and by the simulator: one event in, effects out, time as an argument.
`failover.Office` brings it into office and out of it; while in office a `Term` decides.
Outside of office every broker is answered NOT_CONTROLLER.
Invariant: the Lease's renew deadline is looked at before every event.
"""

from __future__ import annotations

from typing import assert_never

from strandline.errors import ErrorCode
from strandline.model import BrokerId, ControllerEpoch

from . import objects
from .effects import CloseSession, Effect, LoadCluster
from .events import (
    CommandAnswered,
    Event,
    HeartbeatReceived,
    HostedReported,
    IsrChangeRequested,
    ProbeAnswered,
    SessionBroken,
    SessionOpened,
    ShutdownRequested,
    StopRequested,
    Ticked,
)
from .failover import Office
from .notices import ControllerElected
from .sessions import Sessions, answer_isr_change, answer_shutdown
from .store_events import (
    BrokerObserved,
    BrokerRead,
    ClusterLoaded,
    ControllerEpochSeen,
    ControllerRecordAnswered,
    EpochFloorRead,
    HolderDied,
    LeaseAnswered,
    LeaseObserved,
    Outcome,
    PartitionAnswered,
    PartitionDeleted,
    PartitionObserved,
    TopicDeleted,
    TopicObserved,
    TopicsRead,
    WatchLost,
)
from .term import Term
from .timing import ControllerTiming

_TermEvent = (
    PartitionObserved
    | PartitionAnswered
    | PartitionDeleted
    | BrokerObserved
    | TopicObserved
    | TopicDeleted
    | TopicsRead
    | WatchLost
    | ClusterLoaded
)
_BrokerEvent = (
    HeartbeatReceived
    | IsrChangeRequested
    | CommandAnswered
    | ProbeAnswered
    | SessionOpened
    | SessionBroken
    | ShutdownRequested
    | HostedReported
    | BrokerRead
)

_COUNTER_BITS = 32  # the controller epoch stands above them, 0 outside of office


class Controller:
    """Candidate or controller; `identity` is `broker-<id>/<incarnation>`, new per process.

    rank orders the candidates. The first event may be a `Ticked`.
    """

    def __init__(
        self, *, broker_id: BrokerId, identity: str, rank: int, timing: ControllerTiming
    ) -> None:
        self._timing = timing
        self._last_request_id = 0
        self._office = Office(
            broker_id=broker_id,
            identity=identity,
            rank=rank,
            timing=timing.lease,
            new_request_id=self._new_request_id,
        )
        self._term: Term | None = None
        self._sessions: Sessions | None = None
        self._reload_request_id: int | None = None
        self._reload_ms: int | None = None

    @property
    def epoch(self) -> ControllerEpoch | None:
        """The epoch of the present office, None outside of it."""
        return None if self._term is None else self._term.epoch

    @property
    def is_stopped(self) -> bool:
        """Whether the release that `StopRequested` asked for is done."""
        return self._office.elector.is_stopped

    @property
    def queue_length(self) -> int:
        """Partitions that wait for their turn."""
        return 0 if self._term is None else self._term.work.queue_length

    @property
    def offline_partition_count(self) -> int:
        """Partitions without a leader; 0 outside of office."""
        return 0 if self._term is None else self._term.table.offline_count()

    @property
    def next_wakeup_ms(self) -> int | None:
        """When to send `Ticked`; None while only another event can change anything."""
        reloading = self._reload_request_id is not None
        due = [self._office.next_wakeup_ms, None if reloading else self._reload_ms]
        if self._term is not None:
            due.append(self._term.next_wakeup_ms)
        return min((ms for ms in due if ms is not None), default=None)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event; return what must be done, in order."""
        effects = self._office.tick(now_ms)
        effects.extend(self._follow_office())
        effects.extend(self._handle(event, now_ms))
        term = self._term
        if term is not None and term.higher_epoch is not None:
            effects.extend(self._office.see_epoch(term.higher_epoch, now_ms))
        effects.extend(self._office.tick(now_ms))
        effects.extend(self._follow_office())
        if self._term is not None:
            effects.extend(self._reload(now_ms))
            effects.extend(self._term.advance(now_ms))
        return effects

    def _handle(self, event: Event, now_ms: int) -> list[Effect]:
        office = self._office
        match event:
            case LeaseObserved():
                return office.follow(office.elector.observe(event.lease, now_ms), now_ms)
            case LeaseAnswered():
                decisions = office.elector.answered(
                    event.request_id, event.outcome, event.lease, now_ms
                )
                return office.follow(decisions, now_ms)
            case EpochFloorRead():
                return office.on_floor(event, now_ms)
            case ControllerRecordAnswered():
                return office.on_record(event, now_ms)
            case ControllerEpochSeen():
                return office.see_epoch(event.controller_epoch, now_ms)
            case StopRequested():
                return office.stop(now_ms)
            case ClusterLoaded() if self._term is None:
                return self._enter_office(event, now_ms)
            case (
                PartitionObserved()
                | PartitionAnswered()
                | PartitionDeleted()
                | BrokerObserved()
                | TopicObserved()
                | TopicDeleted()
                | TopicsRead()
                | WatchLost()
                | ClusterLoaded()
            ):
                return [] if self._term is None else self._on_object(self._term, event, now_ms)
            case Ticked():
                return []
            case HolderDied():
                office.elector.holder_died(event.holder_identity, now_ms)
                return []
            case _:
                sessions = self._sessions
                return _on_broker(sessions, event, now_ms) if sessions else self._refuse(event)

    def _enter_office(self, event: ClusterLoaded, now_ms: int) -> list[Effect]:
        effects = self._office.on_loaded(event, now_ms)
        if self._office.epoch is None:
            return effects
        term = Term(
            epoch=self._office.epoch,
            timing=self._timing,
            new_request_id=self._new_request_id,
            now_ms=now_ms,
        )
        self._term, self._sessions = term, Sessions(term)
        self._reload_ms = self._reload_request_id = None
        elected = ControllerElected(
            controller_epoch=term.epoch,
            partition_count=len(event.partitions),
            broker_count=len(event.brokers),
            takeover_ms=now_ms - self._office.since_ms,
        )
        return [*effects, elected, *objects.on_loaded(term, event, now_ms)]

    def _follow_office(self) -> list[Effect]:
        """End the term if the office is lost."""
        if self._term is None or self._sessions is None or self._office.epoch is not None:
            return []
        effects = [*self._sessions.resign(), *self._term.resign()]
        self._term = self._sessions = None
        self._reload_ms = self._reload_request_id = None
        return effects

    def _on_object(self, term: Term, event: _TermEvent, now_ms: int) -> list[Effect]:
        match event:
            case PartitionObserved():
                return objects.on_partition(term, event, now_ms)
            case PartitionAnswered():
                return objects.on_partition_answer(term, event, now_ms)
            case BrokerObserved():
                return objects.on_broker(term, event.broker, now_ms)
            case PartitionDeleted():
                return objects.on_partition_deleted(term, event)
            case TopicObserved():
                objects.on_topic(term, event.topic, now_ms)
                return []
            case TopicDeleted():
                objects.on_topic_deleted(term, event.topic_id)
                return []
            case TopicsRead():
                return objects.on_topics_read(term, event, now_ms)
            case WatchLost():
                self._reload_ms = now_ms
                return []
            case ClusterLoaded():
                return self._on_reloaded(term, event, now_ms)
        assert_never(event)

    def _on_reloaded(self, term: Term, event: ClusterLoaded, now_ms: int) -> list[Effect]:
        if event.request_id != self._reload_request_id:
            return []
        self._reload_request_id = None
        if event.outcome is not Outcome.OK:
            self._reload_ms = now_ms + self._timing.lease.retry_period_ms
            return []
        return objects.on_loaded(term, event, now_ms)

    def _reload(self, now_ms: int) -> list[Effect]:
        """List everything again after a watch was lost; one list at a time."""
        due = self._reload_ms is not None and self._reload_ms <= now_ms
        if not due or self._reload_request_id is not None:
            return []
        self._reload_ms, self._reload_request_id = None, self._new_request_id()
        return [LoadCluster(request_id=self._reload_request_id)]

    def _refuse(self, event: _BrokerEvent) -> list[Effect]:
        """Answer a broker that takes us for the controller."""
        if isinstance(event, IsrChangeRequested):
            return [answer_isr_change(event, ErrorCode.NOT_CONTROLLER)]
        if isinstance(event, ShutdownRequested):
            return [answer_shutdown(event, ErrorCode.NOT_CONTROLLER)]
        if isinstance(event, (SessionOpened, HeartbeatReceived)):
            epoch, refused = self._office.highest_epoch_known, ErrorCode.NOT_CONTROLLER
            session_id = event.session_id
            return [CloseSession(session_id=session_id, error=refused, controller_epoch=epoch)]
        return []

    def _new_request_id(self) -> int:
        """Return an id that a late answer to another controller's command does not have."""
        self._last_request_id = (self._last_request_id + 1) % (1 << _COUNTER_BITS)
        return (self._office.epoch or 0) << _COUNTER_BITS | self._last_request_id


def _on_broker(sessions: Sessions, event: _BrokerEvent, now_ms: int) -> list[Effect]:
    match event:
        case HeartbeatReceived():
            return sessions.on_heartbeat(event, now_ms)
        case IsrChangeRequested():
            return sessions.on_isr_change(event, now_ms)
        case CommandAnswered():
            return sessions.on_command_answer(event, now_ms)
        case ProbeAnswered():
            return sessions.on_probe(event, now_ms)
        case SessionOpened():
            return sessions.on_hello(event, now_ms)
        case SessionBroken():
            sessions.on_broken(event, now_ms)
            return []
        case ShutdownRequested():
            return sessions.on_shutdown(event, now_ms)
        case HostedReported():
            return sessions.on_hosted(event, now_ms)
        case BrokerRead():
            return sessions.on_broker_read(event, now_ms)
    assert_never(event)
