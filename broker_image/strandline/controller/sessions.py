"""Handlers of what brokers say during a term, and of what probes show of them."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import BrokerId, PartitionState, TopicPartition

from .brokers import BrokerEntry, Hello
from .effects import AnswerIsrChange, AnswerShutdown, Effect
from .elections import STATE_LOST
from .events import (
    CommandAnswered,
    HeartbeatReceived,
    HostedReplica,
    HostedReported,
    IsrChangeRequested,
    ProbeAnswered,
    ProbeVerdict,
    SessionBroken,
    SessionOpened,
    ShutdownRequested,
)
from .liveness import Death
from .notices import BrokerDead, BrokerRegistered, RequestFenced
from .objects import on_broker
from .store_events import BrokerRead, Outcome
from .term import Term


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A hello, and the read of its Broker that began after it came."""

    hello: SessionOpened
    request_id: int


class Sessions:
    """The sessions of one term, and the hellos that wait for a quorum read of their Broker."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._waiting: dict[BrokerId, _Waiting] = {}

    def on_hello(self, event: SessionOpened, now_ms: int) -> list[Effect]:
        """Accept a hello of the registered broker epoch; read the Broker if it knows more."""
        match self._term.brokers.greet(event):
            case Hello.ACCEPTED:
                return self._accept(event, now_ms)
            case Hello.STALE:
                return self._refuse_stale(event)
            case Hello.VIEW_IS_OLD:
                effects: list[Effect] = []
                replaced = self._waiting.get(event.broker_id)
                if replaced is not None:
                    session_id = replaced.hello.session_id
                    effects.extend(self._term.close(session_id, ErrorCode.NOT_CONTROLLER))
                # A read that began before the hello may not show its registration.
                read = self._term.read_broker(event.broker_id)
                self._waiting[event.broker_id] = _Waiting(event, read.request_id)
                return [*effects, read]

    def on_broker_read(self, event: BrokerRead, now_ms: int) -> list[Effect]:
        """Take over a Broker read by quorum and judge the hello that waits for it."""
        broker_id = self._term.broker_of_read(event.request_id)
        if broker_id is None:
            return []
        effects: list[Effect] = []
        if event.broker is not None:
            effects.extend(on_broker(self._term, event.broker, now_ms))
        found_waiting = self._waiting.get(broker_id)
        if found_waiting is None or found_waiting.request_id != event.request_id:
            return effects
        waiting = self._waiting.pop(broker_id).hello
        if event.outcome is not Outcome.OK:
            return effects + self._term.close(waiting.session_id, ErrorCode.NOT_CONTROLLER)
        verdict = self._term.brokers.greet(waiting)
        if verdict is Hello.ACCEPTED:
            return effects + self._accept(waiting, now_ms)
        found = None if event.broker is None else event.broker.registration
        if found is None or found.broker_epoch < waiting.broker_epoch:
            return effects + self._term.close(
                waiting.session_id, ErrorCode.BROKER_ID_NOT_REGISTERED
            )
        return effects + self._refuse_stale(waiting)

    def _refuse_stale(self, hello: SessionOpened) -> list[Effect]:
        fenced = RequestFenced(
            broker_id=hello.broker_id, fence="broker_epoch", detail="hello of an ended process"
        )
        return [fenced, *self._term.close(hello.session_id, ErrorCode.STALE_BROKER_EPOCH)]

    def _accept(self, hello: SessionOpened, now_ms: int) -> list[Effect]:
        term = self._term
        replaced = term.brokers.open_session(hello, now_ms)
        if replaced is not None:
            term.shutdowns.cancel(hello.broker_id)
        effects = term.close(replaced, ErrorCode.NOT_CONTROLLER)
        effects.append(
            BrokerRegistered(
                broker_id=hello.broker_id,
                broker_epoch=hello.broker_epoch,
                clean_since_epoch=hello.clean_since_epoch,
                hosted_count=len(hello.hosted),
            )
        )
        effects.extend(term.announcements.full_state(term.brokers.entries[hello.broker_id]))
        self._suspect_unknown_topics(hello.hosted)
        term.queue_partitions_of(hello.broker_id, now_ms)
        return effects

    def _suspect_unknown_topics(self, hosted: tuple[HostedReplica, ...]) -> None:
        known = self._term.topics
        self._term.deletion.suspect(
            {found.tp.topic_id for found in hosted if found.tp.topic_id not in known}
        )

    def on_hosted(self, event: HostedReported, now_ms: int) -> list[Effect]:
        """Compare what a broker hosts with what it was told; tell it again where it is behind."""
        term = self._term
        entry = term.brokers.in_session(event.broker_id, event.session_id)
        if entry is None:
            return []
        entry.heard_ms = now_ms
        entry.hosted = {found.tp: found for found in event.hosted}
        self._suspect_unknown_topics(event.hosted)
        behind = [tp for tp in self._expected(entry) if self._is_behind(entry, tp)]
        return term.announcements.resend(entry, behind)

    def _expected(self, entry: BrokerEntry) -> list[TopicPartition]:
        names = self._term.table.with_member(entry.broker_id)
        return [self._term.table.slots[name].stored.tp for name in names]

    def _is_behind(self, entry: BrokerEntry, tp: TopicPartition) -> bool:
        told, found = self._term.announcements.state_of(tp), entry.hosted.get(tp)
        if told is None or told.reason == STATE_LOST:
            return False
        return found is None or found.partition_epoch < told.partition_epoch

    def on_heartbeat(self, event: HeartbeatReceived, now_ms: int) -> list[Effect]:
        """Count a sign of life; one of another broker epoch is fenced."""
        term = self._term
        entry = term.brokers.in_session(event.broker_id, event.session_id)
        if entry is None:
            waiting = self._waiting.get(event.broker_id)
            if waiting is not None and waiting.hello.session_id == event.session_id:
                return []
            return term.close(event.session_id, ErrorCode.NOT_CONTROLLER)
        if term.liveness.heard(entry, event, now_ms):
            return []
        fenced = RequestFenced(
            broker_id=event.broker_id, fence="broker_epoch", detail="heartbeat of another process"
        )
        return [fenced, *term.close(event.session_id, ErrorCode.STALE_BROKER_EPOCH)]

    def on_broken(self, event: SessionBroken, now_ms: int) -> None:
        """Probe a broker whose stream ended; the break of an older stream means nothing."""
        waiting = self._waiting.get(event.broker_id)
        if waiting is not None and waiting.hello.session_id == event.session_id:
            del self._waiting[event.broker_id]
        entry = self._term.brokers.in_session(event.broker_id, event.session_id)
        if entry is not None:
            self._term.brokers.end_session(entry)
            self._term.liveness.suspect(entry, now_ms)
            self._term.shutdowns.cancel(event.broker_id)

    def on_probe(self, event: ProbeAnswered, now_ms: int) -> list[Effect]:
        """Judge a probe; three refusals or another incarnation are death."""
        death = self._term.liveness.on_probe(event, now_ms)
        effects = [] if death is None else self._on_death(death, now_ms)
        if event.verdict is ProbeVerdict.OTHER_INCARNATION and death is not None:
            effects.extend(self._term.read_brokers([event.broker_id]))
        return effects

    def _on_death(self, death: Death, now_ms: int) -> list[Effect]:
        """Fence a dead broker: its session ends, its leaderships and ISR entries go."""
        self._term.shutdowns.cancel(death.broker_id)
        self._term.queue_partitions_of(death.broker_id, now_ms)
        notice = BrokerDead(
            broker_id=death.broker_id,
            broker_epoch=death.broker_epoch,
            reason=death.reason,
            detect_ms=death.detect_ms,
        )
        return [notice, *self._term.close(death.closed_session, ErrorCode.NOT_CONTROLLER)]

    def on_isr_change(self, event: IsrChangeRequested, now_ms: int) -> list[Effect]:
        """Queue an AlterPartition of a broker in session; answer any other at once."""
        found = self._term.table.slot_of(event.tp)
        if found is None:
            return [answer_isr_change(event, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        name, slot = found
        if self._term.brokers.in_session(event.broker_id, event.session_id) is None:
            stored = slot.stored.state
            return [answer_isr_change(event, ErrorCode.NOT_CONTROLLER, stored=stored)]
        self._term.work.add_request(name, event, now_ms)
        return []

    def on_shutdown(self, event: ShutdownRequested, now_ms: int) -> list[Effect]:
        """Move the leaderships of a leaving broker; `Shutdowns` answers."""
        term = self._term
        entry = term.brokers.in_session(event.broker_id, event.session_id)
        known = None if entry is None else entry.registration
        if entry is None or known is None or event.broker_epoch != known.broker_epoch:
            return [answer_shutdown(event, ErrorCode.STALE_BROKER_EPOCH)]
        entry.shutting_down = True
        term.brokers.changed()
        names = term.queue_partitions_of(event.broker_id, now_ms)
        term.shutdowns.begin(event, names, now_ms)
        return []

    def on_command_answer(self, event: CommandAnswered, now_ms: int) -> list[Effect]:
        """Learn from a broker's answer of a higher epoch, or of older data."""
        term = self._term
        term.see_epoch(event.controller_epoch)
        for tp in term.announcements.refused_as_known(event):
            found = term.table.slot_of(tp)
            if found is not None:
                found[1].state_lost = True
                term.work.queue_first(found[0], now_ms)
        if event.error is ErrorCode.STALE_BROKER_EPOCH:
            return term.read_brokers([event.broker_id])
        return []

    def resign(self) -> list[Effect]:
        """End the streams whose hello was not accepted yet."""
        effects: list[Effect] = []
        for broker_id in sorted(self._waiting):
            session_id = self._waiting[broker_id].hello.session_id
            effects.extend(self._term.close(session_id, ErrorCode.NOT_CONTROLLER))
        return effects


def answer_isr_change(
    event: IsrChangeRequested, error: ErrorCode, *, stored: PartitionState | None = None
) -> AnswerIsrChange:
    """Answer an AlterPartition without judging it."""
    return AnswerIsrChange(
        session_id=event.session_id,
        request_id=event.request_id,
        broker_id=event.broker_id,
        tp=event.tp,
        error=error,
        stored=stored,
    )


def answer_shutdown(event: ShutdownRequested, error: ErrorCode) -> AnswerShutdown:
    """Refuse a controlled shutdown."""
    return AnswerShutdown(
        session_id=event.session_id,
        request_id=event.request_id,
        broker_id=event.broker_id,
        error=error,
        remaining=0,
    )
