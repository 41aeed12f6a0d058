"""What the controller knows of one broker: values, a type for each state.

    Unregistered --- registration ---> Awaited <--- stream broke --- InSession
                                        |  |  ^                       |  ^  ^
                                        |  |  '-- registration --.    |  |  |
                                        |  '--------- hello -----|----|--'  |
                                        |                        |    |     | hello
                                        '-- proved dead -----> Dead <-'-----'

A registration with a higher broker epoch leads from every state to Awaited: the former process has
ended (KIP-380). Awaited and InSession count as live; `liveness` says what proves a broker dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from strandline.model import BrokerEpoch, BrokerId, IsrEntry, Registration, TopicPartition, covers

from .events import HostedReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeDue:
    """A probe of a silent or disconnected broker is due; refusals counts refused probes so far."""

    suspected_ms: int
    due_ms: int
    refusals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOut:
    """A probe of the suspected broker is out."""

    suspected_ms: int
    request_id: int
    refusals: int


Suspicion = ProbeDue | ProbeOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistered:
    """A Broker object without a registration: neither live nor dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """Registered, without a session, not known to be dead."""

    registration: Registration
    heard_ms: int
    suspicion: Suspicion | None = None
    shutting_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InSession:
    """In session with this controller, under the registered broker epoch."""

    registration: Registration
    heard_ms: int
    session_id: int
    hosted: Mapping[TopicPartition, HostedReplica] = field(default_factory=dict)
    suspicion: Suspicion | None = None
    shutting_down: bool = False

    @property
    def broker_id(self) -> BrokerId:
        """The broker that has this session."""
        return self.registration.broker_id

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch that every command on this session carries."""
        return self.registration.broker_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """The process of the registered broker epoch is gone; the controller found out in detect_ms."""

    registration: Registration
    detect_ms: int


Live = Awaited | InSession
BrokerEntry = Unregistered | Live | Dead
"""All that the controller knows of one broker; made by `Brokers` alone."""


class LivenessState(Enum):
    """The state of a broker as elections see it."""

    IN_SESSION = "in_session"
    AWAITED = "awaited"
    """Registered and not known dead: counts as live."""
    DEAD = "dead"
    UNKNOWN = "unknown"
    """No registration is known: neither live nor dead."""


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
        """Whether the broker counts as live."""
        return self.liveness in (LivenessState.IN_SESSION, LivenessState.AWAITED)

    def covers(self, entry: IsrEntry) -> bool:
        """Tell whether an ISR entry of this broker is still in sync."""
        return covers(
            entry, clean_since_epoch=self.clean_since_epoch, broker_epoch=self.broker_epoch
        )

    def lost_data_of(self, entry: IsrEntry) -> bool:
        """Tell whether the broker's log is known to have lost records since this entry.

        An entry above the registered epoch proves no loss: the controller's view is old.
        """
        return self.liveness is not LivenessState.UNKNOWN and (
            entry.broker_epoch < self.clean_since_epoch
        )


def registration_of(entry: BrokerEntry | None) -> Registration | None:
    """Return the newest known registration."""
    return None if entry is None or isinstance(entry, Unregistered) else entry.registration


def session_id_of(entry: BrokerEntry | None) -> int | None:
    """Return the id of the broker's session, None without one."""
    return entry.session_id if isinstance(entry, InSession) else None


def view_of(broker_id: BrokerId, entry: BrokerEntry) -> BrokerView:
    """Return what elections may see of a broker."""
    if isinstance(entry, Unregistered):
        return BrokerView(broker_id=broker_id, liveness=LivenessState.UNKNOWN)
    return BrokerView(
        broker_id=broker_id,
        liveness=_LIVENESS[type(entry)],
        broker_epoch=entry.registration.broker_epoch,
        clean_since_epoch=entry.registration.clean_since_epoch,
        shutting_down=isinstance(entry, Live) and entry.shutting_down,
    )


_LIVENESS = {
    InSession: LivenessState.IN_SESSION,
    Awaited: LivenessState.AWAITED,
    Dead: LivenessState.DEAD,
}
