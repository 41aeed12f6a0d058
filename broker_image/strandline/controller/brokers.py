"""Which brokers there are, which of them are alive, and what they host.

A broker counts as live while its session lasts, and after a take-over, a registration or a broken
session until its death is proved. Proofs are refused probes or another incarnation
(`death_probes.py`), a higher broker epoch, or the session timeout and one failed probe. A Lease or
readiness proves nothing. `liveness.py` drives the probes.
Invariant: at most one session per broker, and it carries the registered broker epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from strandline.errors import InvariantViolation
from strandline.model import BrokerEpoch, BrokerId, LiveBroker, StoredBroker, TopicPartition

from .broker_entry import (
    Awaited,
    BrokerEntry,
    BrokerView,
    Dead,
    InSession,
    Live,
    ProbeDue,
    Suspicion,
    Unregistered,
    registration_of,
    view_of,
)
from .events import HostedReplica, SessionOpened


class HelloVerdict(Enum):
    """How the controller treats a hello."""

    ACCEPTED = "accepted"
    STALE = "stale"
    """A newer process of that id is registered."""
    VIEW_IS_OLD = "view_is_old"
    """This controller does not know that registration yet: read the Broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRegistration:
    """A broker epoch began; ended is the former epoch, None if its process was known dead."""

    ended: BrokerEpoch | None
    closed_session: int | None


class Brokers:
    """The brokers of the cluster, by id."""

    def __init__(self) -> None:
        self._entries: dict[BrokerId, BrokerEntry] = {}
        self._views: Mapping[BrokerId, BrokerView] = {}

    @property
    def entries(self) -> Mapping[BrokerId, BrokerEntry]:
        """The entry of each broker."""
        return self._entries

    @property
    def views(self) -> Mapping[BrokerId, BrokerView]:
        """A view of each broker, by id; a change makes another mapping."""
        return self._views

    def _put(self, broker_id: BrokerId, entry: BrokerEntry) -> None:
        self._entries[broker_id] = entry
        view = view_of(broker_id, entry)
        if self._views.get(broker_id) != view:
            self._views = dict(sorted({**self._views, broker_id: view}.items()))

    def live(self) -> tuple[LiveBroker, ...]:
        """Return the brokers to announce as live: those that count as live and do not shut down."""
        return tuple(
            LiveBroker(
                broker_id=broker_id,
                broker_epoch=entry.registration.broker_epoch,
                clean_since_epoch=entry.registration.clean_since_epoch,
                endpoints=entry.registration.endpoints,
            )
            for broker_id, entry in sorted(self._entries.items())
            if isinstance(entry, Live) and not entry.shutting_down
        )

    def sessions(self) -> list[InSession]:
        """Return the brokers in session, by id."""
        found = (self._entries[broker_id] for broker_id in sorted(self._entries))
        return [entry for entry in found if isinstance(entry, InSession)]

    def in_session(self, broker_id: BrokerId, session_id: int) -> InSession | None:
        """Return the broker's session if it has this id, None otherwise."""
        entry = self._entries.get(broker_id)
        if isinstance(entry, InSession) and entry.session_id == session_id:
            return entry
        return None

    def hosting(self, tp: TopicPartition) -> dict[BrokerId, HostedReplica]:
        """Return the replicas that brokers in session reported to have on disk."""
        return {each.broker_id: each.hosted[tp] for each in self.sessions() if tp in each.hosted}

    # --- registrations and sessions -------------------------------------------------------

    def register(self, stored: StoredBroker, now_ms: int) -> NewRegistration | None:
        """Take note of a Broker object; ignore a registration older than the known one.

        Returns: None if no broker epoch began
        """
        broker_id, found = stored.broker_id, stored.registration
        entry = self._entries.get(broker_id, Unregistered())
        known = registration_of(entry)
        if found is None or (known is not None and found.broker_epoch < known.broker_epoch):
            self._put(broker_id, entry)
            return None
        same = known is not None and found.broker_epoch == known.broker_epoch
        if same and not isinstance(entry, Unregistered):
            self._put(broker_id, replace(entry, registration=found))
            return None
        self._put(broker_id, Awaited(registration=found, heard_ms=now_ms))
        return NewRegistration(
            ended=entry.registration.broker_epoch if isinstance(entry, Live) else None,
            closed_session=entry.session_id if isinstance(entry, InSession) else None,
        )

    def judge_hello(self, hello: SessionOpened) -> HelloVerdict:
        """Judge a hello by the known registration."""
        known = registration_of(self._entries.get(hello.broker_id))
        if known is None or hello.broker_epoch > known.broker_epoch:
            return HelloVerdict.VIEW_IS_OLD
        if hello.broker_epoch < known.broker_epoch:
            return HelloVerdict.STALE
        if hello.incarnation != known.incarnation:
            return HelloVerdict.VIEW_IS_OLD
        return HelloVerdict.ACCEPTED

    def open_session(self, hello: SessionOpened, now_ms: int) -> tuple[InSession, int | None]:
        """Begin the session of an accepted hello. Returns: the session, and the id it replaces."""
        entry = self._entries.get(hello.broker_id)
        registration = registration_of(entry)
        if registration is None:
            raise InvariantViolation("a session is of a registered broker", hello=hello)
        session = InSession(
            registration=registration,
            heard_ms=now_ms,
            session_id=hello.session_id,
            hosted={replica.tp: replica for replica in hello.hosted},
            shutting_down=isinstance(entry, Live) and entry.shutting_down,
        )
        self._put(hello.broker_id, session)
        return session, entry.session_id if isinstance(entry, InSession) else None

    def break_session(self, session: InSession, now_ms: int) -> None:
        """Wait for a broker whose stream ended, and probe it soon."""
        awaited = Awaited(
            registration=session.registration,
            heard_ms=now_ms,
            suspicion=ProbeDue(suspected_ms=now_ms, due_ms=now_ms),
            shutting_down=session.shutting_down,
        )
        self._put(session.broker_id, awaited)

    def report_hosted(
        self, session: InSession, hosted: Iterable[HostedReplica], now_ms: int
    ) -> InSession:
        """Take what a broker has on disk. Returns the changed session."""
        replicas = {replica.tp: replica for replica in hosted}
        reported = replace(session, hosted=replicas, heard_ms=now_ms)
        self._put(session.broker_id, reported)
        return reported

    def forget_hosted(self, session: InSession, tps: Iterable[TopicPartition]) -> None:
        """Forget replicas that a broker is about to delete."""
        gone = frozenset(tps)
        hosted = {tp: replica for tp, replica in session.hosted.items() if tp not in gone}
        self._put(session.broker_id, replace(session, hosted=hosted))

    def begin_shutdown(self, session: InSession) -> None:
        """Mark a broker that is about to stop: elections choose it no more."""
        self._put(session.broker_id, replace(session, shutting_down=True))

    # --- liveness -------------------------------------------------------------------------

    def hear(self, broker_id: BrokerId, live: Live, now_ms: int) -> None:
        """Count a sign of life, which ends every suspicion."""
        self._put(broker_id, replace(live, heard_ms=now_ms, suspicion=None))

    def suspect(self, broker_id: BrokerId, live: Live, suspicion: Suspicion | None) -> None:
        """Replace a suspicion; None ends it."""
        self._put(broker_id, replace(live, suspicion=suspicion))

    def await_again(self, broker_id: BrokerId, awaited: Awaited, now_ms: int) -> None:
        """Give a broker the whole session timeout again, and probe it soon."""
        suspicion = ProbeDue(suspected_ms=now_ms, due_ms=now_ms)
        self._put(broker_id, replace(awaited, heard_ms=now_ms, suspicion=suspicion))

    def declare_dead(self, broker_id: BrokerId, live: Live, *, detect_ms: int) -> None:
        """Count a broker as dead until another registration or its next hello."""
        self._put(broker_id, Dead(registration=live.registration, detect_ms=detect_ms))
