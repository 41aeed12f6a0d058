"""The states of a broker's connection with the holder of the controller Lease.

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

from strandline.model import GRPC_LISTENER, Endpoint, HolderIdentity, Registration


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A stream is open; heartbeats are due, some of them with a report of what is hosted."""

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


ConnectionState = NoHolder | LookingUp | Redialling | Open | Probing


def due_of(state: ConnectionState) -> int | None:
    """Return when a state wants something done, None if it waits for an event alone."""
    match state:
        case Open(heartbeat_due_ms=due_ms):
            return due_ms
        case Redialling(due_ms=due_ms):
            return due_ms
        case Probing(due_ms=due_ms):
            return due_ms
        case NoHolder() | LookingUp():
            return None


def holder_of(signed: str, found: Registration | None) -> Holder | None:
    """Return the holder, None unless the process that signed the Lease is the one registered."""
    identity = HolderIdentity.parse(signed)
    if identity is None or found is None or found.incarnation != identity.incarnation:
        return None
    endpoint = found.endpoint(GRPC_LISTENER)
    return None if endpoint is None else Holder(identity=identity, endpoint=endpoint)
