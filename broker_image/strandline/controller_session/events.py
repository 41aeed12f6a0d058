"""Everything that can happen to a broker's session with the controller.

Made by the shells of the runtime and of the simulator; consumed by `ControllerSession.step`
alone. Session, lookup and probe ids are those of the effects that are answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.events import ProbeVerdict
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.model import Registration

from .messages import ControllerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderObserved:
    """The controller Lease shows this holder identity, "" if nobody holds it."""

    holder_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderLookedUp:
    """Answer to `FindHolder`; None if the object has no registration or was not readable."""

    lookup_id: int
    registration: Registration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """The controller said something, perhaps on a session that is over."""

    session_id: int
    message: ControllerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBroken:
    """The stream of a session ended, and not by `CloseStream`."""

    session_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderProbed:
    """Answer to `ProbeHolder`."""

    probe_id: int
    verdict: ProbeVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposed:
    """The replicas want an ISR change to be sent."""

    proposal: ProposeIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPerformed:
    """The replicas answer a LeaderAndIsr or StopReplica."""

    response: ReplyLeaderAndIsr | ReplyStopReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownBegun:
    """The process is about to stop: ask for its leaders to be moved, `ShutdownEnded` follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Sent at or after `ControllerSession.next_wakeup_ms`."""


Event = (
    MessageReceived
    | IsrProposed
    | CommandPerformed
    | TimePassed
    | HolderObserved
    | HolderLookedUp
    | StreamBroken
    | HolderProbed
    | ShutdownBegun
)
