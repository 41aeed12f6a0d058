"""The states of a broker's search for, and session with, the active controller.

    NoHolder --Lease names a broker--> LookingUp --registration matches--> Open
       ^                                  |  ^                             |  |
       |                              no match  pause over          refused|  |stream broke
       |                                  v  |                             v  v
    Lease released                     Redialling <------verdict------- Probing
                                          ^-------------------------------'

A Lease that changes hands leads from every state to LookingUp (or NoHolder).
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import Endpoint, HolderIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that signed the controller Lease, and where it listens."""

    identity: HolderIdentity
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHolder:
    """The Lease is unseen, released, or held by something that is no broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookingUp:
    """The holder's registration is being read."""

    lookup_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Redialling:
    """A pause before the holder is looked up again."""

    due_ms: int


@dataclass(slots=True, kw_only=True)
class Open:
    """A stream is open; the due times are changed by `ControllerSession` alone."""

    session_id: int
    holder: Holder
    heartbeat_due_ms: int
    report_due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """The stream broke: is the holder's process gone? due_ms is None while a probe is out."""

    holder: Holder
    probe_id: int
    refusals: int
    due_ms: int | None


SessionState = NoHolder | LookingUp | Redialling | Open | Probing
