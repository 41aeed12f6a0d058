"""What a broker's session with the controller wants done, in order.

`DialHolder`, `SendMessage`, `CloseStream`, `ReadHolder`, `FindHolder`, `ProbeHolder` and
`RestoreReplicas` are for the shell;
`StepReplicas` and `StepController` are events for the two other machines of the same process.
Notices are facts for logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strandline.controller.events import ControllerEvent
from strandline.core.events import Event as CoreEvent
from strandline.model import BrokerId, Endpoint, TopicPartition

from .messages import BrokerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHolder:
    """Read the controller Lease by quorum; then `HolderRead`, nothing if it was not readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindHolder:
    """Read the registration of the broker that holds the Lease; then `HolderLookedUp`."""

    lookup_id: int
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class DialHolder:
    """Open a stream to the holder's gRPC listener; the hello is the next `SendMessage`."""

    session_id: int
    broker_id: BrokerId
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage:
    """Send a message to the controller on an open session."""

    session_id: int
    message: BrokerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStream:
    """Close a session's stream; no `StreamBroken` follows."""

    session_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeHolder:
    """Ask once which process listens where the holder listened; then `HolderProbed`."""

    probe_id: int
    broker_id: BrokerId
    incarnation: str
    endpoint: Endpoint
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReplicas:
    """An event for the replicas of this broker."""

    event: CoreEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class StepController:
    """An event for the controller of this process, active or not."""

    event: ControllerEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReplicas:
    """Take these logs back from the trash, and tell the replicas; then `CommandPerformed`."""

    request_id: int
    partitions: tuple[TopicPartition, ...]


class ShutdownOutcome(Enum):
    """Why a controlled shutdown ended; values are the words of the log line."""

    ALL_MOVED = "all moved"
    """This broker leads no partition any more."""
    UNANSWERED = "unanswered"
    """No controller responded, and this broker led no partition."""
    STALLED = "stalled"
    """The controller responds but moves no more leaders, as when all brokers stop at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownEnded:
    """The controlled shutdown is over; this broker still leads remaining partitions."""

    outcome: ShutdownOutcome
    remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownProgressed:
    """A notice: this broker leads fewer partitions than at the last response."""

    remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderUnknown:
    """A notice: the holder of the Lease is no broker."""

    holder_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderDead:
    """A notice: probes proved that the holder's process is gone."""

    holder_identity: str


Notice = ShutdownProgressed | HolderUnknown | HolderDead

Effect = (
    StepReplicas
    | SendMessage
    | StepController
    | RestoreReplicas
    | ReadHolder
    | FindHolder
    | DialHolder
    | CloseStream
    | ProbeHolder
    | ShutdownEnded
    | Notice
)
