"""Which brokers there are, which of them are alive, and what they host.

A broker counts as live while its session lives, and after a take-over, a registration or a
broken session until a probe or the session timeout says otherwise. Dead is: three refused
probes, another incarnation, a higher broker epoch, or the session timeout plus one failed
probe. Never a Lease, never readiness. `liveness.py` drives the probes.
Invariant: at most one session per broker, and it carries the registered broker epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from strandline.model import (
    BrokerEpoch,
    BrokerId,
    IsrEntry,
    LiveBroker,
    Registration,
    StoredBroker,
    TopicPartition,
)

from .events import HostedReplica, SessionOpened


class LivenessState(Enum):
    """Whether the broker is alive, as far as the controller knows."""

    IN_SESSION = "in_session"
    AWAITED = "awaited"
    """Registered and not known dead: counts as live."""
    DEAD = "dead"
    UNKNOWN = "unknown"
    """Never registered, as far as is known: neither live nor dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker as elections and ISR changes see it."""

    broker_id: BrokerId
    liveness: LivenessState
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)
    clean_since_epoch: BrokerEpoch = BrokerEpoch(-1)
    shutting_down: bool = False

    @property
    def is_live(self) -> bool:
        """Whether it counts as live."""
        return self.liveness in (LivenessState.IN_SESSION, LivenessState.AWAITED)

    def covers(self, entry: IsrEntry) -> bool:
        """Tell whether an ISR entry of this broker is still in sync (ADR 0002)."""
        return self.clean_since_epoch <= entry.broker_epoch <= self.broker_epoch

    def lost_data_of(self, entry: IsrEntry) -> bool:
        """Tell whether the log behind this entry is known to have lost something since.

        An entry above the registered epoch is no evidence: our view is old then.
        """
        return self.liveness is not LivenessState.UNKNOWN and (
            entry.broker_epoch < self.clean_since_epoch
        )


@dataclass(slots=True, kw_only=True)
class ProbeRound:
    """Probes of one suspicion; request_id is None between two of them."""

    request_id: int | None = None
    refused: int = 0
    next_ms: int = 0


@dataclass(slots=True, kw_only=True)
class BrokerEntry:
    """All that the controller knows of one broker.

    Changed by `Brokers` and `Liveness`; `BrokerEventHandler` notes reports and shutdowns.
    """

    broker_id: BrokerId
    registration: Registration | None = None
    liveness: LivenessState = LivenessState.UNKNOWN
    session_id: int | None = None
    heard_ms: int = 0
    suspected_ms: int = 0
    dead_ms: int = 0
    shutting_down: bool = False
    probe: ProbeRound | None = None
    hosted: dict[TopicPartition, HostedReplica] = field(default_factory=dict)


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
        self._views: dict[BrokerId, BrokerView] | None = None

    @property
    def views(self) -> Mapping[BrokerId, BrokerView]:
        """An immutable view of each broker; rebuilt after changes."""
        if self._views is None:
            self._views = {b: _view(self.entries[b]) for b in sorted(self.entries)}
        return self._views

    def changed(self) -> None:
        """Forget the views; to be called after a change of an entry."""
        self._views = None

    def live(self) -> tuple[LiveBroker, ...]:
        """Return the brokers that are sent as live: counted so, and not shutting down."""
        live = []
        for broker_id in sorted(self.entries):
            entry = self.entries[broker_id]
            found = entry.registration
            if found is not None and self.views[broker_id].is_live and not entry.shutting_down:
                live.append(
                    LiveBroker(
                        broker_id=broker_id,
                        broker_epoch=found.broker_epoch,
                        clean_since_epoch=found.clean_since_epoch,
                        endpoints=found.endpoints,
                    )
                )
        return tuple(live)

    def sessions(self) -> list[BrokerEntry]:
        """Return the brokers in session, by id."""
        found = (self.entries[broker_id] for broker_id in sorted(self.entries))
        return [entry for entry in found if entry.session_id is not None]

    def in_session(self, broker_id: BrokerId, session_id: int) -> BrokerEntry | None:
        """Return the broker if this is its session, None otherwise."""
        entry = self.entries.get(broker_id)
        return entry if entry is not None and entry.session_id == session_id else None

    def hosting(self, tp: TopicPartition) -> dict[BrokerId, HostedReplica]:
        """Return the replicas that brokers in session reported to have on disk."""
        return {e.broker_id: e.hosted[tp] for e in self.sessions() if tp in e.hosted}

    def register(self, stored: StoredBroker, now_ms: int) -> BrokerEpoch | None:
        """Take note of a Broker object; older registrations than the known one are ignored.

        Returns: the broker epoch that ended because a higher one is registered, or None
        """
        found = stored.registration
        entry = self.entries.setdefault(stored.broker_id, BrokerEntry(broker_id=stored.broker_id))
        known = entry.registration
        self.changed()
        if found is None or (known is not None and found.broker_epoch < known.broker_epoch):
            return None
        entry.registration = found
        if known is not None and found.broker_epoch == known.broker_epoch:
            return None
        ended = (
            None if known is None or entry.liveness is LivenessState.DEAD else known.broker_epoch
        )
        entry.liveness = LivenessState.AWAITED
        entry.heard_ms = now_ms
        entry.suspected_ms = now_ms
        entry.dead_ms = now_ms
        entry.shutting_down = False
        entry.probe = None
        entry.hosted = {}
        return ended

    def judge_hello(self, hello: SessionOpened) -> HelloVerdict:
        """Judge a hello by the registration that is known."""
        entry = self.entries.get(hello.broker_id)
        known = None if entry is None else entry.registration
        if known is None or hello.broker_epoch > known.broker_epoch:
            return HelloVerdict.VIEW_IS_OLD
        if hello.broker_epoch < known.broker_epoch:
            return HelloVerdict.STALE
        if hello.incarnation != known.incarnation:
            return HelloVerdict.VIEW_IS_OLD
        return HelloVerdict.ACCEPTED

    def open_session(self, hello: SessionOpened, now_ms: int) -> int | None:
        """Begin the session of an accepted hello. Returns the session that it replaces."""
        entry = self.entries[hello.broker_id]
        replaced, entry.session_id = entry.session_id, hello.session_id
        entry.liveness = LivenessState.IN_SESSION
        entry.heard_ms = now_ms
        entry.probe = None
        entry.hosted = {replica.tp: replica for replica in hello.hosted}
        self.changed()
        return replaced

    def end_session(self, entry: BrokerEntry) -> int | None:
        """Forget the session; its broker stays as live as it was. Returns the session's id."""
        ended, entry.session_id = entry.session_id, None
        entry.hosted = {}
        if entry.liveness is LivenessState.IN_SESSION:
            entry.liveness = LivenessState.AWAITED
        self.changed()
        return ended


def _view(entry: BrokerEntry) -> BrokerView:
    if entry.registration is None:
        return BrokerView(broker_id=entry.broker_id, liveness=LivenessState.UNKNOWN)
    return BrokerView(
        broker_id=entry.broker_id,
        liveness=entry.liveness,
        broker_epoch=entry.registration.broker_epoch,
        clean_since_epoch=entry.registration.clean_since_epoch,
        shutting_down=entry.shutting_down,
    )
