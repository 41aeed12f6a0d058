"""Everything that can happen to a broker's session with the controller.

The shells of the runtime and of the simulator make events; `ControllerSession.step` alone consumes
them. Session, lookup and probe ids are those of the effects.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.effects import Introduction
from strandline.controller.events import ProbeVerdict
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.model import Registration, TrashedReplica

from .messages import ControllerMessage, ReplyRestoreReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderObserved:
    """The controller Lease shows this holder identity, "" without a holder."""

    holder_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRead:
    """Response to `ReadHolder`: what a quorum read of the Lease showed, "" without a holder."""

    holder_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerIntroduced:
    """The active controller probed this process, with which it has no session."""

    found: Introduction


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderLookedUp:
    """Response to `FindHolder`; None if the object has no registration or was not readable."""

    lookup_id: int
    registration: Registration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A message of the controller came, perhaps on a session that is over."""

    session_id: int
    message: ControllerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBroken:
    """The stream of a session ended without `CloseStream`."""

    session_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderProbed:
    """Response to `ProbeHolder`."""

    probe_id: int
    verdict: ProbeVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposed:
    """A leader on this broker proposes an ISR."""

    proposal: ProposeIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPerformed:
    """The replicas respond to a LeaderAndIsr or StopReplica, the store to a RestoreReplica."""

    response: ReplyLeaderAndIsr | ReplyStopReplica | ReplyRestoreReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownBegun:
    """The process is about to stop: move its leaders first; then `ShutdownEnded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeChanged:
    """From now on the volume of this broker has no room for records of clients, or has it again."""

    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashChanged:
    """From now on the trash of this broker holds these logs, the newest up to a bound."""

    trashed: tuple[TrashedReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Sent at or after `ControllerSession.next_wakeup_ms`."""


Event = (
    MessageReceived
    | IsrProposed
    | CommandPerformed
    | TimePassed
    | HolderObserved
    | HolderRead
    | ControllerIntroduced
    | HolderLookedUp
    | StreamBroken
    | HolderProbed
    | ShutdownBegun
    | VolumeChanged
    | TrashChanged
)
