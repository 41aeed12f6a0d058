"""The ISR as its leader holds it: accepted, or with one proposal in flight.

A leader changes nothing by itself: it proposes, and the controller commits (ADR 0001).
While a proposal is in flight the leader counts with the larger of both sets, because the controller
may choose the next leader from either. Only a higher partition epoch settles a proposal, a refusal
included (ADR 0006).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from strandline.model import BrokerId, IsrEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The proposal as it was last sent, and when to send it again."""

    request_id: int
    retry_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accepted:
    """The accepted entries, which every state of the ISR has."""

    entries: tuple[IsrEntry, ...]

    @property
    def isr(self) -> frozenset[BrokerId]:
        """The accepted members."""
        return _ids(self.entries)

    @property
    def maximal_entries(self) -> tuple[IsrEntry, ...]:
        """The entries that hold the high watermark back."""
        return self.entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Stable(_Accepted):
    """No proposal is in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExpand(_Accepted):
    """The joiner already holds the high watermark back; the controller has not responded yet."""

    joiner: IsrEntry
    in_flight: InFlight

    @property
    def proposed(self) -> tuple[IsrEntry, ...]:
        """The ISR that was proposed to the controller."""
        return (*self.entries, self.joiner)

    maximal_entries = proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingShrink(_Accepted):
    """Leavers still count until the controller has responded."""

    leavers: frozenset[BrokerId]
    in_flight: InFlight

    @property
    def proposed(self) -> tuple[IsrEntry, ...]:
        """The ISR that was proposed to the controller."""
        return tuple(entry for entry in self.entries if entry.broker_id not in self.leavers)


IsrState = Stable | PendingExpand | PendingShrink
Pending = PendingExpand | PendingShrink


def maximal_isr(isr: IsrState) -> frozenset[BrokerId]:
    """Return the members that hold the high watermark back."""
    return _ids(isr.maximal_entries)


def not_applied(isr: Pending, committed: tuple[IsrEntry, ...]) -> frozenset[BrokerId]:
    """Return the brokers whose proposed change is not in what was committed."""
    ids = _ids(committed)
    match isr:
        case PendingExpand():
            return frozenset({isr.joiner.broker_id}) - ids
        case PendingShrink():
            return isr.leavers & ids
        case _:
            assert_never(isr)


def _ids(entries: tuple[IsrEntry, ...]) -> frozenset[BrokerId]:
    return frozenset(entry.broker_id for entry in entries)
