"""What the controller knows of one broker: values, a type for each state.

    Unregistered --- registration ---> Awaited <--- stream broke --- InSession
                                        |  |  ^                       |  ^  ^
                                        |  |  '-- registration --.    |  |  |
                                        |  '--------- hello -----|----|--'  |
                                        |                        |    |     | hello
                                        '-- proved dead -----> Dead <-'-----'

Awaited becomes WithoutSession, and goes where Awaited goes, when the process still responds to a
probe after a whole session timeout: it lives, and leads only where no other replica can (ADR 0028).

A registration with a higher broker epoch leads from every state to Awaited: the former process has
ended (KIP-380). Awaited and InSession count as live; `liveness` says what proves a broker dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from strandline.model import (
    NO_EPOCH,
    BrokerEpoch,
    BrokerId,
    Registration,
    TopicPartition,
    TrashedReplica,
)

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

    broker_epoch: ClassVar[BrokerEpoch] = BrokerEpoch(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """What the other states share: the newest known registration."""

    registration: Registration

    @property
    def broker_id(self) -> BrokerId:
        """The id of the broker."""
        return self.registration.broker_id

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The registered epoch, which every command to the broker carries."""
        return self.registration.broker_epoch

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for it: it was removed after its last replica (ADR 0059)."""
        return self.registration.is_removed and not isinstance(self, InSession)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live(RegisteredBroker):
    """What Awaited and InSession share: each counts as live.

    is_full: by its last heartbeat, the broker refuses records of clients.
    """

    heard_ms: int
    suspicion: Suspicion | None = None
    shutting_down: bool = False
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited(Live):
    """Registered, without a session, not known to be dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutSession(Awaited):
    """Responds to probes, and has opened no session for longer than the session timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InSession(Live):
    """In session under the registered broker epoch.

    hosted and trashed are what it said at reported_ms. removed_logs were in the trash alone when
    the session began, or were removed by this controller, and no state of their partitions was sent
    since. stopping has the StopReplica without a response by partition: a report that names such a
    log may be from before it.
    """

    session_id: int
    reported_ms: int
    hosted: Mapping[TopicPartition, HostedReplica] = field(default_factory=dict)
    trashed: Mapping[TopicPartition, TrashedReplica] = field(default_factory=dict)
    removed_logs: frozenset[TopicPartition] = frozenset()
    stopping: Mapping[TopicPartition, int] = field(default_factory=dict)

    def must_restore(self, tp: TopicPartition) -> bool:
        """Tell whether the broker has a log of a partition in its trash alone.

        A log that was removed counts as there until a later report of the trash lacks it.
        """
        return tp not in self.hosted and self._has_in_trash(tp)

    def is_trash_of_use(self, tp: TopicPartition) -> bool:
        """Tell whether the trash has a log, and the disk none that took part in a leadership since.

        One that was made behind a fence is as empty as if it was not there.
        """
        hosted = self.hosted.get(tp)
        is_made_anew = hosted is None or hosted.term_epoch == NO_EPOCH
        return is_made_anew and self._has_in_trash(tp)

    def _has_in_trash(self, tp: TopicPartition) -> bool:
        return tp in self.trashed or tp in self.removed_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead(RegisteredBroker):
    """The process of the registered broker epoch is gone; the controller found out in detect_ms."""

    detect_ms: int


BrokerEntry = Unregistered | Live | Awaited | WithoutSession | InSession | Dead
"""All that the controller knows of one broker; made by `Brokers` alone."""


def registration_of(entry: BrokerEntry | None) -> Registration | None:
    """Return the newest known registration."""
    return entry.registration if isinstance(entry, RegisteredBroker) else None


def session_id_of(entry: BrokerEntry | None) -> int | None:
    """Return the id of the broker's session, None without one."""
    return entry.session_id if isinstance(entry, InSession) else None
