"""Probes and timeouts: when a broker stops counting as live.

`Liveness` judges the brokers that count as live; it returns probes to send and brokers found dead.
A stopped process still accepts TCP, so silence proves nothing before the session timeout: another
probe follows, and a response after that timeout restarts it. A probe of a broker without a session
introduces this controller; a broker that responds and opens no session for a whole timeout loses
its leaderships (ADR 0028). `Brokers` keeps the verdicts.
"""

from __future__ import annotations

from strandline.model import GRPC_LISTENER

from .broker_entry import Awaited, Live, ProbeDue, ProbeOut, registration_of
from .context import ControllerContext
from .death_probes import proves_death
from .effects import Introduction, ProbeBroker
from .events import ProbeResponseReceived, ProbeVerdict
from .notices import BrokerDead
from .silent_holder import SilentHolder

_REASONS = {
    ProbeVerdict.OTHER_INCARNATION: "other incarnation",
    ProbeVerdict.REFUSED: "connection refused",
    ProbeVerdict.NO_ANSWER: "session timeout",
}
"""Why a broker is declared dead, by the verdict of its last probe."""


class Liveness:
    """Judges the brokers by their sessions and by probes during one controller epoch."""

    def __init__(self, context: ControllerContext) -> None:
        self._identity = context.identity
        self._epoch = context.epoch
        self._brokers = context.brokers
        self._timing = context.timing
        self._new_request_id = context.new_request_id

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next probe or timeout is due."""
        due: list[int] = []
        for entry in self._brokers.entries.values():
            if isinstance(entry, Live):
                if entry.suspicion is None:
                    due.append(self._timeout_ms(entry))
                elif isinstance(entry.suspicion, ProbeDue):
                    due.append(entry.suspicion.due_ms)
        return min(due, default=None)

    def tick(self, now_ms: int) -> list[ProbeBroker]:
        """Suspect each broker that is silent for too long; send the probes that are due."""
        probes: list[ProbeBroker] = []
        for _, entry in sorted(self._brokers.entries.items()):
            if not isinstance(entry, Live):
                continue
            suspicion = entry.suspicion
            if suspicion is None and self._is_silent(entry, now_ms):
                suspicion = ProbeDue(suspected_ms=entry.heard_ms, due_ms=now_ms)
            if isinstance(suspicion, ProbeDue) and suspicion.due_ms <= now_ms:
                probes.append(self._probe(entry, suspicion))
        return probes

    def on_probe(self, event: ProbeResponseReceived, now_ms: int) -> BrokerDead | None:
        """Judge a probe; a response to no open probe proves nothing."""
        entry = self._brokers.entries.get(event.broker_id)
        if not isinstance(entry, Live) or not isinstance(entry.suspicion, ProbeOut):
            return None
        probe, silent = entry.suspicion, self._is_silent(entry, now_ms)
        if probe.request_id != event.request_id:
            return None
        is_proved = proves_death(
            event.verdict,
            refusals_before=probe.refusals,
            refused_probes_dead=self._timing.refused_probes_dead,
        )
        answered = event.verdict is ProbeVerdict.ANSWERED
        if is_proved or (silent and not answered):
            return self._declare_dead(entry, event.verdict, now_ms - probe.suspected_ms)
        if not answered:
            # A dying process may break a probe before its listener refuses others.
            refused = event.verdict is ProbeVerdict.REFUSED
            again = ProbeDue(
                suspected_ms=probe.suspected_ms,
                due_ms=min(now_ms + self._timing.probe_interval_ms, self._timeout_ms(entry)),
                refusals=probe.refusals + 1 if refused else 0,
            )
            self._brokers.suspect(entry, again)
        elif silent and isinstance(entry, Awaited):
            self._brokers.give_up_waiting(entry, now_ms)
        elif silent:
            self._brokers.hear(entry, now_ms)
        else:
            self._brokers.suspect(entry, None)
        return None

    def on_silent_holder(self, holder: SilentHolder, now_ms: int) -> BrokerDead | None:
        """Judge the former controller: its Lease ran out, and a probe failed (ADR 0028)."""
        entry = self._brokers.entries.get(holder.identity.broker_id)
        if not isinstance(entry, Awaited):
            return None
        if entry.registration.incarnation != holder.identity.incarnation:
            return None
        silent_ms = now_ms - holder.heard_ms
        if silent_ms < self._timing.session_timeout_ms:
            return None
        return self._declare_dead(entry, ProbeVerdict.NO_ANSWER, silent_ms)

    def _declare_dead(self, entry: Live, verdict: ProbeVerdict, detect_ms: int) -> BrokerDead:
        self._brokers.declare_dead(entry, detect_ms=detect_ms)
        return BrokerDead(
            broker_id=entry.broker_id,
            broker_epoch=entry.broker_epoch,
            reason=_REASONS[verdict],
            detect_ms=detect_ms,
        )

    def _is_silent(self, entry: Live, now_ms: int) -> bool:
        return now_ms >= self._timeout_ms(entry)

    def _timeout_ms(self, entry: Live) -> int:
        return entry.heard_ms + self._timing.session_timeout_ms

    def _probe(self, entry: Live, due: ProbeDue) -> ProbeBroker:
        request_id = self._new_request_id()
        out = ProbeOut(suspected_ms=due.suspected_ms, request_id=request_id, refusals=due.refusals)
        self._brokers.suspect(entry, out)
        return ProbeBroker(
            request_id=request_id,
            broker_id=entry.broker_id,
            endpoints=entry.registration.endpoints,
            incarnation=entry.registration.incarnation,
            deadline_ms=self._timing.probe_deadline_ms,
            introduction=self._introduction() if isinstance(entry, Awaited) else None,
        )

    def _introduction(self) -> Introduction | None:
        """Return who this controller is; None while its own registration is unknown."""
        identity = self._identity
        if identity is None:
            return None
        own = registration_of(self._brokers.entries.get(identity.broker_id))
        if own is None or own.incarnation != identity.incarnation:
            return None
        endpoint = own.endpoint(GRPC_LISTENER)
        if endpoint is None:
            return None
        return Introduction(
            holder_identity=str(identity), controller_epoch=self._epoch, endpoint=endpoint
        )
