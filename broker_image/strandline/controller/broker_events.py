"""Handlers of brokers while the controller is active: messages, probes and Broker objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from strandline.errors import ErrorCode
from strandline.model import STATE_LOST, BrokerId, ControllerEpoch, TopicPartition

from . import events
from .active_controller import ActiveController
from .broker_entry import Awaited, BrokerEntry, InSession, WithoutSession, session_id_of
from .brokers import HelloVerdict
from .effects import CloseSession, ControllerEffect
from .isr_changes import reply_alter_partition
from .notices import BrokerRegistered, BrokerWithoutSession, RequestFenced, StatesRefused
from .shutdowns import reply_controlled_shutdown
from .silent_holder import SilentHolder
from .store_events import BrokerObserved, BrokerRead, StoreOutcome

_HIGHER_EPOCH_KNOWN = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION)
"""A broker refuses a state with these if it has accepted a newer one."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A hello, and the read of its Broker that began after the hello."""

    hello: events.SessionOpened
    request_id: int


class BrokerEventHandler:
    """Handles broker events; keeps the hellos that wait for a quorum read of their Broker."""

    def __init__(self, active: ActiveController) -> None:
        self._active = active
        self._waiting: dict[BrokerId, _Waiting] = {}

    def handle(self, event: events.BrokerEvent, now_ms: int) -> list[ControllerEffect]:
        """Take one event about a broker."""
        match event:
            case events.HeartbeatReceived():
                return self._on_heartbeat(event, now_ms)
            case events.IsrChangeRequested():
                return self._on_isr_change(event, now_ms)
            case events.BrokerResponseReceived():
                return self._on_broker_response(event, now_ms)
            case events.ProbeResponseReceived():
                return self._on_probe(event, now_ms)
            case events.SessionOpened():
                return self._on_hello(event, now_ms)
            case events.SessionBroken():
                return self._on_broken(event, now_ms)
            case events.ShutdownRequested():
                return self._on_shutdown(event, now_ms)
            case events.HostedReported():
                return self._on_hosted(event, now_ms)
            case BrokerObserved():
                return self._active.register_broker(event.broker, now_ms)
            case BrokerRead():
                return self._on_broker_read(event, now_ms)
            case _:
                assert_never(event)

    def _on_hello(self, event: events.SessionOpened, now_ms: int) -> list[ControllerEffect]:
        """Accept a hello of the registered broker epoch; read the Broker if that is unknown."""
        match self._active.brokers.judge_hello(event):
            case HelloVerdict.ACCEPTED:
                return self._accept(event, now_ms)
            case HelloVerdict.STALE:
                return self._fence(event, "hello of an ended process")
            case HelloVerdict.VIEW_IS_OLD:
                replaced = self._waiting.get(event.broker_id)
                session_id = None if replaced is None else replaced.hello.session_id
                # A read that began before the hello may not show its registration.
                read = self._active.read_broker(event.broker_id)
                self._waiting[event.broker_id] = _Waiting(event, read.request_id)
                return [*self._active.close(session_id, ErrorCode.NOT_CONTROLLER), read]

    def _on_broker_read(self, event: BrokerRead, now_ms: int) -> list[ControllerEffect]:
        """Register a Broker read by quorum and judge the hello that waits for it."""
        broker_id = self._active.broker_of_read(event.request_id)
        if broker_id is None:
            return []
        effects: list[ControllerEffect] = []
        if event.broker is not None:
            effects.extend(self._active.register_broker(event.broker, now_ms))
        found_waiting = self._waiting.get(broker_id)
        if found_waiting is None or found_waiting.request_id != event.request_id:
            return effects
        waiting = self._waiting.pop(broker_id).hello
        if event.outcome is not StoreOutcome.OK:
            return effects + self._active.close(waiting.session_id, ErrorCode.NOT_CONTROLLER)
        verdict = self._active.brokers.judge_hello(waiting)
        if verdict is HelloVerdict.ACCEPTED:
            return effects + self._accept(waiting, now_ms)
        found = None if event.broker is None else event.broker.registration
        if found is None or found.broker_epoch < waiting.broker_epoch:
            return effects + self._active.close(
                waiting.session_id, ErrorCode.BROKER_ID_NOT_REGISTERED
            )
        return effects + self._fence(waiting, "hello of an ended process")

    def _fence(
        self, event: events.SessionOpened | events.HeartbeatReceived, detail: str
    ) -> list[ControllerEffect]:
        fenced = RequestFenced(broker_id=event.broker_id, fence="broker_epoch", detail=detail)
        return [fenced, *self._active.close(event.session_id, ErrorCode.STALE_BROKER_EPOCH)]

    def _accept(self, hello: events.SessionOpened, now_ms: int) -> list[ControllerEffect]:
        active = self._active
        replaced = session_id_of(active.brokers.entries.get(hello.broker_id))
        session = active.brokers.open_session(hello, now_ms)
        if replaced is not None:
            active.shutdowns.cancel(hello.broker_id)
        effects = active.close(replaced, ErrorCode.NOT_CONTROLLER)
        effects.append(
            BrokerRegistered(
                broker_id=hello.broker_id,
                broker_epoch=hello.broker_epoch,
                clean_since_epoch=hello.clean_since_epoch,
                hosted_count=len(hello.hosted),
            )
        )
        effects.append(active.propagator.full_state(session))
        active.reports_changed(session, now_ms)
        active.queue_partitions_of(hello.broker_id, now_ms)
        return effects

    def _on_hosted(self, event: events.HostedReported, now_ms: int) -> list[ControllerEffect]:
        """Send again the partitions whose sent state a broker does not host."""
        active = self._active
        session = active.brokers.in_session(event.broker_id, event.session_id)
        if session is None:
            return []
        session = active.brokers.report_hosted(session, event, now_ms)
        active.reports_changed(session, now_ms)
        names = active.table.with_member(event.broker_id)
        for name in names:
            state = active.table.entries[name].stored.state
            if state is None or state.reason == STATE_LOST:
                active.reconciler.queue(name, now_ms)
        expected = [active.table.entries[name].stored.tp for name in names]
        behind = [tp for tp in expected if self._is_behind(session, tp)]
        return active.propagator.resend(session, behind)

    def _is_behind(self, session: InSession, tp: TopicPartition) -> bool:
        sent, found = self._active.propagator.state_of(tp), session.hosted.get(tp)
        if sent is None:
            return False
        return found is None or found.partition_epoch < sent.partition_epoch

    def _on_heartbeat(self, event: events.HeartbeatReceived, now_ms: int) -> list[ControllerEffect]:
        """Count a sign of life; fence one of another broker epoch.

        Leaderships move away from a broker whose volume is full, and to one that has room again.
        """
        active = self._active
        session = active.brokers.in_session(event.broker_id, event.session_id)
        if session is None:
            waiting = self._waiting.get(event.broker_id)
            if waiting is not None and waiting.hello.session_id == event.session_id:
                return []
            return active.close(event.session_id, ErrorCode.NOT_CONTROLLER)
        if event.broker_epoch != session.broker_epoch:
            return self._fence(event, "heartbeat of another process")
        full_changed = event.is_full != session.is_full
        active.brokers.note_volume(session, is_full=event.is_full)
        heard = active.brokers.in_session(event.broker_id, event.session_id)
        active.brokers.hear(heard or session, now_ms)
        if full_changed:
            active.queue_partitions_of(event.broker_id, now_ms)
        return []

    def _on_broken(self, event: events.SessionBroken, now_ms: int) -> list[ControllerEffect]:
        """Probe a broker whose stream ended; ignore the end of an older stream."""
        waiting = self._waiting.get(event.broker_id)
        if waiting is not None and waiting.hello.session_id == event.session_id:
            del self._waiting[event.broker_id]
        session = self._active.brokers.in_session(event.broker_id, event.session_id)
        if session is not None:
            self._active.brokers.break_session(session, now_ms)
            self._active.shutdowns.cancel(event.broker_id)
        return []

    def _on_probe(self, event: events.ProbeResponseReceived, now_ms: int) -> list[ControllerEffect]:
        """Judge a probe. The session of a dead broker ends, its leaderships and ISR entries go."""
        active, broker_id = self._active, event.broker_id
        before = active.brokers.entries.get(broker_id)
        session_id = session_id_of(before)
        dead = active.liveness.on_probe(event, now_ms)
        if dead is None:
            return self._on_missing_session(before, now_ms)
        active.shutdowns.cancel(broker_id)
        active.queue_partitions_of(broker_id, now_ms)
        effects = [dead, *active.close(session_id, ErrorCode.NOT_CONTROLLER)]
        if event.verdict is events.ProbeVerdict.OTHER_INCARNATION:
            effects.extend(active.read_brokers([broker_id]))
        return effects

    def _on_missing_session(
        self, before: BrokerEntry | None, now_ms: int
    ) -> list[ControllerEffect]:
        """Move the leaderships of a broker that opens no session, as far as others can lead."""
        if not isinstance(before, Awaited):
            return []
        broker_id, broker_epoch = before.broker_id, before.broker_epoch
        if not isinstance(self._active.brokers.entries.get(broker_id), WithoutSession):
            return []
        self._active.queue_partitions_of(broker_id, now_ms)
        if isinstance(before, WithoutSession):
            return []
        return [BrokerWithoutSession(broker_id=broker_id, broker_epoch=broker_epoch)]

    def on_silent_holder(self, holder: SilentHolder, now_ms: int) -> list[ControllerEffect]:
        """Judge the former controller at the take-over: it led partitions, too."""
        dead = self._active.liveness.on_silent_holder(holder, now_ms)
        if dead is None:
            return []
        self._active.queue_partitions_of(dead.broker_id, now_ms)
        return [dead]

    def _on_isr_change(
        self, event: events.IsrChangeRequested, now_ms: int
    ) -> list[ControllerEffect]:
        """Queue an AlterPartition of a broker in session; refuse any other at once."""
        entry = self._active.table.entry_of(event.tp)
        if entry is None:
            return [reply_alter_partition(event, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        if self._active.brokers.in_session(event.broker_id, event.session_id) is None:
            stored = entry.stored.state
            return [reply_alter_partition(event, ErrorCode.NOT_CONTROLLER, stored=stored)]
        self._active.reconciler.add_request(entry, event, now_ms)
        return []

    def _on_shutdown(self, event: events.ShutdownRequested, now_ms: int) -> list[ControllerEffect]:
        """Move the leaderships of a leaving broker; `Shutdowns` responds."""
        active = self._active
        session = active.brokers.in_session(event.broker_id, event.session_id)
        if session is None or event.broker_epoch != session.broker_epoch:
            return [reply_controlled_shutdown(event, ErrorCode.STALE_BROKER_EPOCH)]
        active.brokers.begin_shutdown(session)
        names = active.queue_partitions_of(event.broker_id, now_ms)
        active.shutdowns.begin(event, names, now_ms)
        return []

    def _on_broker_response(
        self, event: events.BrokerResponseReceived, now_ms: int
    ) -> list[ControllerEffect]:
        """Note a higher epoch, or older data, that a broker's response shows."""
        active = self._active
        active.see_epoch(event.controller_epoch)
        active.brokers.end_stop(event)
        active.applied_configs.on_response(event, now_ms)
        for tp in active.propagator.refused_as_known(event):
            entry = active.table.entry_of(tp)
            if entry is not None:
                active.reconciler.refused_as_known(entry, now_ms)
        if event.error is ErrorCode.STALE_BROKER_EPOCH:
            return active.read_brokers([event.broker_id])
        refused = [tp for tp, error in event.partitions if error in _HIGHER_EPOCH_KNOWN]
        for tp in refused:
            entry = active.table.entry_of(tp)
            if entry is not None:
                active.reconciler.doubt_status(entry, now_ms)
        failed = active.restores.on_response(event)
        if not refused:
            return failed
        return [StatesRefused(broker_id=event.broker_id, partition_count=len(refused)), *failed]

    def resign(self) -> list[ControllerEffect]:
        """End the streams whose hello still waits."""
        effects: list[ControllerEffect] = []
        for broker_id in sorted(self._waiting):
            session_id = self._waiting[broker_id].hello.session_id
            effects.extend(self._active.close(session_id, ErrorCode.NOT_CONTROLLER))
        return effects


def refuse(event: events.BrokerEvent, epoch: ControllerEpoch) -> list[ControllerEffect]:
    """Refuse a broker that takes an inactive controller for the active one."""
    match event:
        case events.IsrChangeRequested():
            return [reply_alter_partition(event, ErrorCode.NOT_CONTROLLER)]
        case events.ShutdownRequested():
            return [reply_controlled_shutdown(event, ErrorCode.NOT_CONTROLLER)]
        case events.SessionOpened() | events.HeartbeatReceived():
            error = ErrorCode.NOT_CONTROLLER
            return [CloseSession(session_id=event.session_id, error=error, controller_epoch=epoch)]
        case _:
            return []
