"""Which brokers there are, which of them are alive, and what they host.

A broker counts as live while its session lasts, and after a take-over, a registration or a broken
session until its death is proved. Proofs are refused probes or another incarnation
(`death_probes.py`), a higher broker epoch, or the session timeout and one failed probe. A Lease or
readiness proves nothing. `liveness.py` drives the probes.
Invariant: at most one session per broker, and it carries the registered broker epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from strandline.errors import InvariantViolation
from strandline.model import BrokerId, LiveBroker, StoredBroker, TopicPartition

from .broker_entry import (
    Awaited,
    BrokerEntry,
    Dead,
    InSession,
    Live,
    ProbeDue,
    RegisteredBroker,
    Suspicion,
    Unregistered,
    WithoutSession,
    registration_of,
)
from .events import BrokerResponseReceived, HostedReplica, HostedReported, SessionOpened


class HelloVerdict(Enum):
    """How the controller treats a hello."""

    ACCEPTED = "accepted"
    STALE = "stale"
    """A newer process of that id is registered."""
    VIEW_IS_OLD = "view_is_old"
    """This controller does not know that registration yet: read the Broker."""


class Brokers:
    """The brokers of the cluster, by id."""

    def __init__(self) -> None:
        self.entries: dict[BrokerId, BrokerEntry] = {}

    def live(self) -> tuple[LiveBroker, ...]:
        """Return the brokers to announce as live: those that count as live and do not shut down."""
        return tuple(
            LiveBroker(
                broker_id=broker_id,
                broker_epoch=entry.broker_epoch,
                clean_since_epoch=entry.registration.clean_since_epoch,
                endpoints=entry.registration.endpoints,
                rack=entry.registration.rack,
            )
            for broker_id, entry in sorted(self.entries.items())
            if isinstance(entry, Live) and not entry.shutting_down
        )

    def sessions(self) -> list[InSession]:
        """Return the brokers in session, by id."""
        entries = (entry for _, entry in sorted(self.entries.items()))
        return [entry for entry in entries if isinstance(entry, InSession)]

    def registered(self) -> set[BrokerId]:
        """Return the brokers that have a registration."""
        return {each for each, entry in self.entries.items() if registration_of(entry) is not None}

    def is_gone(self, broker_id: BrokerId) -> bool:
        """Tell whether nobody waits for a broker any more."""
        entry = self.entries.get(broker_id)
        return isinstance(entry, RegisteredBroker) and entry.is_gone

    def in_session(self, broker_id: BrokerId, session_id: int) -> InSession | None:
        """Return the broker's session if it has this id, None otherwise."""
        entry = self.entries.get(broker_id)
        if isinstance(entry, InSession) and entry.session_id == session_id:
            return entry
        return None

    def hosting(self, tp: TopicPartition) -> dict[BrokerId, HostedReplica]:
        """Return the replicas that brokers in session reported to have on disk."""
        return {each.broker_id: each.hosted[tp] for each in self.sessions() if tp in each.hosted}

    def with_trashed(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """Return the brokers in session whose trash may have what their disk lacks."""
        return frozenset(each.broker_id for each in self.sessions() if each.is_trash_of_use(tp))

    def register(self, stored: StoredBroker, now_ms: int) -> bool:
        """Take note of a Broker; ignore an old registration. Returns: whether an epoch began."""
        broker_id, found = stored.broker_id, stored.registration
        entry = self.entries.get(broker_id, Unregistered())
        if found is None:
            self.entries[broker_id] = entry
            return False
        known = registration_of(entry)
        if known is None or found.broker_epoch > known.broker_epoch:
            self.entries[broker_id] = Awaited(registration=found, heard_ms=now_ms)
            return True
        if found.broker_epoch == known.broker_epoch and not isinstance(entry, Unregistered):
            self.entries[broker_id] = replace(entry, registration=found)
        return False

    def judge_hello(self, hello: SessionOpened) -> HelloVerdict:
        """Judge a hello by the known registration."""
        known = registration_of(self.entries.get(hello.broker_id))
        if known is None or hello.broker_epoch > known.broker_epoch:
            return HelloVerdict.VIEW_IS_OLD
        if hello.broker_epoch < known.broker_epoch:
            return HelloVerdict.STALE
        if hello.incarnation != known.incarnation:
            return HelloVerdict.VIEW_IS_OLD
        return HelloVerdict.ACCEPTED

    def open_session(self, hello: SessionOpened, now_ms: int) -> InSession:
        """Begin the session of an accepted hello; it replaces any other of that broker."""
        entry = self.entries.get(hello.broker_id)
        registration = registration_of(entry)
        if registration is None:
            raise InvariantViolation("a session is of a registered broker", hello=hello)
        hosted = {replica.tp: replica for replica in hello.hosted}
        trashed = {replica.tp: replica for replica in hello.trashed}
        session = InSession(
            registration=registration,
            heard_ms=now_ms,
            session_id=hello.session_id,
            reported_ms=now_ms,
            hosted=hosted,
            trashed=trashed,
            removed_logs=frozenset(trashed.keys() - hosted.keys()),
            shutting_down=isinstance(entry, Live) and entry.shutting_down,
            is_full=isinstance(entry, Live) and entry.is_full,
        )
        self.entries[hello.broker_id] = session
        return session

    def break_session(self, session: InSession, now_ms: int) -> None:
        """Wait for a broker whose stream ended, and probe it soon."""
        awaited = Awaited(
            registration=session.registration,
            heard_ms=now_ms,
            suspicion=ProbeDue(suspected_ms=now_ms, due_ms=now_ms),
            shutting_down=session.shutting_down,
            is_full=session.is_full,
        )
        self.entries[session.broker_id] = awaited

    def report_hosted(self, session: InSession, report: HostedReported, now_ms: int) -> InSession:
        """Take what a broker has on disk and in its trash. Returns the changed session."""
        stopping = session.stopping
        hosted = {each.tp: each for each in report.hosted if each.tp not in stopping}
        trashed = {replica.tp: replica for replica in report.trashed}
        removed_logs = session.removed_logs - hosted.keys()
        reported = replace(
            session,
            hosted=hosted,
            trashed=trashed,
            removed_logs=removed_logs & (trashed.keys() | stopping.keys()),
            reported_ms=now_ms,
            heard_ms=now_ms,
        )
        self.entries[session.broker_id] = reported
        return reported

    def begin_stop(
        self, session: InSession, tps: Iterable[TopicPartition], request_id: int
    ) -> None:
        """Forget replicas whose logs a broker moves to its trash at this StopReplica."""
        gone = frozenset(tps)
        self.entries[session.broker_id] = replace(
            session,
            hosted={tp: replica for tp, replica in session.hosted.items() if tp not in gone},
            removed_logs=session.removed_logs | gone,
            stopping={**session.stopping, **dict.fromkeys(gone, request_id)},
        )

    def end_stop(self, event: BrokerResponseReceived) -> None:
        """Take what may be the response to a StopReplica: later reports know of it."""
        session = self.in_session(event.broker_id, event.session_id)
        if session is not None and event.request_id in session.stopping.values():
            items = session.stopping.items()
            stopping = {tp: request for tp, request in items if request != event.request_id}
            self.entries[session.broker_id] = replace(session, stopping=stopping)

    def told(self, session: InSession, tps: Iterable[TopicPartition]) -> None:
        """Note that a broker gets states of these partitions: it makes logs of its own for them."""
        present = self.in_session(session.broker_id, session.session_id)
        if present is not None and present.removed_logs:
            removed_logs = present.removed_logs.difference(tps)
            self.entries[session.broker_id] = replace(present, removed_logs=removed_logs)

    def without_log(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """Return the brokers whose log of a partition was removed before their session began."""
        return frozenset(each.broker_id for each in self.sessions() if tp in each.removed_logs)

    def begin_shutdown(self, session: InSession) -> None:
        """Mark a broker that is about to stop: elections choose it no more."""
        self.entries[session.broker_id] = replace(session, shutting_down=True)

    def note_volume(self, session: InSession, *, is_full: bool) -> None:
        """Note whether a broker takes records of clients: elections prefer those that do."""
        self.entries[session.broker_id] = replace(session, is_full=is_full)

    def hear(self, live: Live, now_ms: int) -> None:
        """Count a sign of life, which ends every suspicion."""
        self.entries[live.broker_id] = replace(live, heard_ms=now_ms, suspicion=None)

    def suspect(self, live: Live, suspicion: Suspicion | None) -> None:
        """Replace a suspicion; None ends it."""
        self.entries[live.broker_id] = replace(live, suspicion=suspicion)

    def await_again(self, awaited: Awaited, now_ms: int) -> None:
        """Give a broker the whole session timeout again, and probe it soon."""
        suspicion = ProbeDue(suspected_ms=now_ms, due_ms=now_ms)
        self.entries[awaited.broker_id] = replace(awaited, heard_ms=now_ms, suspicion=suspicion)

    def give_up_waiting(self, awaited: Awaited, now_ms: int) -> None:
        """Count a broker that responds to probes as one that opens no session."""
        self.entries[awaited.broker_id] = WithoutSession(
            registration=awaited.registration,
            heard_ms=now_ms,
            shutting_down=awaited.shutting_down,
        )

    def declare_dead(self, live: Live, *, detect_ms: int) -> None:
        """Count a broker as dead until another registration or its next hello."""
        self.entries[live.broker_id] = Dead(registration=live.registration, detect_ms=detect_ms)
