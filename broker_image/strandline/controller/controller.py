"""The controller of one broker: a candidate, or the active controller of the cluster.

Driven by `runtime` and by the simulator: one event in, effects out, time as an argument.
`ControllerElection` makes it active and inactive; while active an `ActiveController` decides.
An inactive controller refuses every broker with NOT_CONTROLLER.

Invariant: the controller checks the Lease's renew deadline before every event.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import BrokerId, ControllerEpoch, HolderIdentity

from .active_controller import ActiveController
from .broker_events import BrokerEventHandler, refuse
from .controller_election import Active, ControllerElection
from .effects import ControllerEffect
from .events import BrokerEvent, ControllerEvent, ElectionEvent
from .notices import ControllerElected
from .object_events import ObjectEventHandler
from .store_events import ClusterLoaded, ObjectEvent
from .timing import ControllerTiming

_COUNTER_BITS = 32  # the controller epoch stands above them, 0 while inactive


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActiveParts:
    """The parts of an active controller: the one that decides, and the handlers of events."""

    active: ActiveController
    brokers: BrokerEventHandler
    objects: ObjectEventHandler


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
        self._parts: _ActiveParts | None = None

    @property
    def _active(self) -> ActiveController | None:
        return None if self._parts is None else self._parts.active

    @property
    def epoch(self) -> ControllerEpoch | None:
        """The epoch of this active controller, None while inactive."""
        return None if self._active is None else self._active.epoch

    @property
    def is_stopped(self) -> bool:
        """Whether the controller has stopped, as `StopRequested` asked."""
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
    def stray_topic_counts(self) -> tuple[int, int]:
        """Stray topics with logs on disk, and with logs in the trash alone; 0 while inactive."""
        return (0, 0) if self._active is None else self._active.cluster_status.stray_counts

    @property
    def next_wakeup_ms(self) -> int | None:
        """When to send `Ticked`; None while only another event can change anything."""
        due = [self._election.next_wakeup_ms]
        if self._active is not None:
            due.append(self._active.next_wakeup_ms)
        return min((ms for ms in due if ms is not None), default=None)

    def step(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        """Take one event; return what must be done, in order."""
        effects = self._election.tick(now_ms)
        effects.extend(self._follow_election())
        if self._active is not None:
            effects.extend(self._active.announce(event, now_ms))
        effects.extend(self._handle(event, now_ms))
        active = self._active
        if active is not None and active.higher_epoch is not None:
            effects.extend(self._election.see_epoch(active.higher_epoch, now_ms))
        elif active is not None and active.topics.record_lost:
            effects.extend(self._election.resign("record of the controller lost", now_ms))
        effects.extend(self._election.tick(now_ms))
        effects.extend(self._follow_election())
        if self._active is not None:
            effects.extend(self._active.advance(event, now_ms))
            self._active.applied_configs.note_sent(effects, now_ms)
        return effects

    def _handle(self, event: ControllerEvent, now_ms: int) -> list[ControllerEffect]:
        """Give an event to the handler of its family."""
        parts = self._parts
        if isinstance(event, ElectionEvent):
            return self._election.handle(event, now_ms)
        if isinstance(event, BrokerEvent):
            if parts is None:
                return refuse(event, self._election.highest_epoch_seen)
            return parts.brokers.handle(event, now_ms)
        if isinstance(event, ObjectEvent):
            if parts is not None:
                return parts.objects.handle(event, now_ms)
            if isinstance(event, ClusterLoaded):
                return self._become_active(event, now_ms)
        return []

    def _become_active(self, event: ClusterLoaded, now_ms: int) -> list[ControllerEffect]:
        effects, phase = self._election.on_loaded(event, now_ms), self._election.phase
        if not isinstance(phase, Active):
            return effects
        active = ActiveController(
            identity=HolderIdentity.parse(self._election.elector.identity),
            epoch=phase.epoch,
            timing=self._timing,
            new_request_id=self._new_request_id,
            now_ms=now_ms,
        )
        active.topics.load(event.cluster, event.topics)
        active.cluster_status.load(event.cluster, now_ms)
        objects = ObjectEventHandler(active)
        self._parts = _ActiveParts(
            active=active, brokers=BrokerEventHandler(active), objects=objects
        )
        elected = ControllerElected(
            controller_epoch=phase.epoch,
            partition_count=len(event.partitions),
            broker_count=len(event.brokers),
            takeover_ms=now_ms - phase.since_ms,
        )
        effects += [elected, *objects.on_loaded(event, now_ms)]
        silent = self._election.silence.proved
        if silent is not None:
            effects.extend(self._parts.brokers.on_silent_holder(silent, now_ms))
        return effects

    def _follow_election(self) -> list[ControllerEffect]:
        """Stop deciding if the election is lost."""
        parts = self._parts
        if parts is None or self._election.epoch is not None:
            return []
        self._parts = None
        return [*parts.brokers.resign(), *parts.active.resign()]

    def _new_request_id(self) -> int:
        """Return an id that no late response to another controller's command carries."""
        self._last_request_id = (self._last_request_id + 1) % (1 << _COUNTER_BITS)
        return (self._election.epoch or 0) << _COUNTER_BITS | self._last_request_id
