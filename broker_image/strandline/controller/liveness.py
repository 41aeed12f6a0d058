"""Probes and timeouts: when a broker stops counting as live.

Drives the entries of `Brokers`; returns probes to send and brokers found dead. A stopped
process still accepts TCP, so silence alone never kills before the session timeout; an
answered probe restarts that timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.model import BrokerEpoch, BrokerId

from .brokers import BrokerEntry, Brokers, LivenessState, ProbeRound
from .death_probes import DeathEvidence, judge_probe
from .effects import ProbeBroker
from .events import HeartbeatReceived, ProbeResponseReceived, ProbeVerdict
from .timing import ControllerTiming

_REASONS = {
    ProbeVerdict.OTHER_INCARNATION: "other incarnation",
    ProbeVerdict.REFUSED: "connection refused",
    ProbeVerdict.NO_ANSWER: "session timeout",
}
"""Why a broker counts as dead after the last probe of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A broker epoch is known dead."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    reason: str
    detect_ms: int
    closed_session: int | None


class Liveness:
    """Judges the brokers by their sessions and by probes during one controller epoch."""

    def __init__(
        self,
        *,
        brokers: Brokers,
        timing: ControllerTiming,
        new_request_id: Callable[[], int],
    ) -> None:
        self._brokers = brokers
        self._timing = timing
        self._new_request_id = new_request_id

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next probe or timeout is due."""
        due: list[int] = []
        for entry in self._brokers.entries.values():
            if entry.probe is not None:
                if entry.probe.request_id is None:
                    due.append(entry.probe.next_ms)
            elif entry.liveness in (LivenessState.IN_SESSION, LivenessState.AWAITED):
                due.append(entry.heard_ms + self._timing.session_timeout_ms)
        return min(due, default=None)

    def suspect(self, entry: BrokerEntry, now_ms: int) -> None:
        """Probe soon: its session broke, or this controller is new and has none yet."""
        entry.heard_ms = now_ms
        entry.suspected_ms = now_ms
        entry.probe = ProbeRound(next_ms=now_ms)

    def heard(self, entry: BrokerEntry, event: HeartbeatReceived, now_ms: int) -> bool:
        """Count a heartbeat. Returns False if it carries another broker epoch: fence it."""
        known = entry.registration
        if known is None or event.broker_epoch != known.broker_epoch:
            return False
        entry.heard_ms = now_ms
        entry.probe = None
        return True

    def tick(self, now_ms: int) -> list[ProbeBroker]:
        """Begin a round for each broker that was silent too long; send the probes that are due."""
        probes: list[ProbeBroker] = []
        for broker_id in sorted(self._brokers.entries):
            entry = self._brokers.entries[broker_id]
            if not self._brokers.views[broker_id].is_live:
                continue
            if entry.probe is None and self._is_silent(entry, now_ms):
                entry.suspected_ms = entry.heard_ms
                entry.probe = ProbeRound(next_ms=now_ms)
            waiting = entry.probe is not None and entry.probe.request_id is None
            if entry.probe is not None and waiting and entry.probe.next_ms <= now_ms:
                probes.append(self._probe(entry, entry.probe))
        return probes

    def on_probe(self, event: ProbeResponseReceived, now_ms: int) -> Death | None:
        """Judge a probe; an answer to no open probe proves nothing."""
        entry = self._brokers.entries.get(event.broker_id)
        if entry is None or entry.probe is None or entry.probe.request_id != event.request_id:
            return None
        probe, silent = entry.probe, self._is_silent(entry, now_ms)
        probe.request_id = None
        evidence = judge_probe(
            event.verdict,
            refusals_before=probe.refused,
            refused_probes_dead=self._timing.refused_probes_dead,
        )
        is_answered = event.verdict is ProbeVerdict.ANSWERED
        if evidence is DeathEvidence.PROVEN or (silent and not is_answered):
            return self._declare_dead(entry, _REASONS[event.verdict], now_ms)
        if evidence is DeathEvidence.NOT_YET:
            probe.refused += 1
            probe.next_ms = now_ms + self._timing.probe_interval_ms
            return None
        entry.probe = None
        if silent:
            entry.heard_ms = now_ms
        return None

    def _is_silent(self, entry: BrokerEntry, now_ms: int) -> bool:
        return now_ms - entry.heard_ms >= self._timing.session_timeout_ms

    def _probe(self, entry: BrokerEntry, probe: ProbeRound) -> ProbeBroker:
        probe.request_id = self._new_request_id()
        found = entry.registration
        return ProbeBroker(
            request_id=probe.request_id,
            broker_id=entry.broker_id,
            endpoints=() if found is None else found.endpoints,
            incarnation="" if found is None else found.incarnation,
            deadline_ms=self._timing.probe_deadline_ms,
        )

    def _declare_dead(self, entry: BrokerEntry, reason: str, now_ms: int) -> Death:
        closed_session = self._brokers.end_session(entry)
        entry.liveness = LivenessState.DEAD
        entry.dead_ms = now_ms
        entry.shutting_down = False
        entry.probe = None
        self._brokers.changed()
        found = entry.registration
        return Death(
            broker_id=entry.broker_id,
            broker_epoch=BrokerEpoch(-1) if found is None else found.broker_epoch,
            reason=reason,
            detect_ms=now_ms - entry.suspected_ms,
            closed_session=closed_session,
        )
