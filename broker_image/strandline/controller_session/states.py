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
    """The Lease is unseen, released, or its holder is no broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookingUp:
    """A read of the holder's registration is out."""

    lookup_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Redialling:
    """A pause before the holder is looked up again."""

    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A stream is open; the heartbeat at due_ms has a hosted report from report_due_ms on."""

    session_id: int
    holder: Holder
    due_ms: int
    report_due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """The stream broke, and probes look for the holder; due_ms is None while one is out."""

    holder: Holder
    probe_id: int
    refusals: int
    due_ms: int | None


ConnectionState = NoHolder | LookingUp | Redialling | Open | Probing


def due_of(state: ConnectionState) -> int | None:
    """Return when `on_time` is due in a state, None if the state waits for an event alone."""
    return None if isinstance(state, NoHolder | LookingUp) else state.due_ms


def holder_of(signed: str, found: Registration | None) -> Holder | None:
    """Return the holder, None unless the registered process signed the Lease."""
    identity = HolderIdentity.parse(signed)
    if identity is None or found is None or found.incarnation != identity.incarnation:
        return None
    endpoint = found.endpoint(GRPC_LISTENER)
    return None if endpoint is None else Holder(identity=identity, endpoint=endpoint)
