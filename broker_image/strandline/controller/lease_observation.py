"""What one candidate has seen of a Lease, and when the candidate may take it.

Used by `lease_election`. It compares no wall clocks: the times in a Lease are opaque strings whose
change is a sign of life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.model import HolderIdentity, LeaseRecord

from .timing import LeaseTiming

PROBES_OF_OTHERS: Final = 4
"""A former process of this broker keeps its Lease for so many probe deadlines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MayTake:
    """The Lease is free as far as this candidate knows: call `take` or `decline`."""

    lease: LeaseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderSilent:
    """The Lease runs out soon: its holder renewed it at heard_ms for the last time."""

    identity: HolderIdentity
    heard_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseWon:
    """The Lease names this candidate."""

    lease: LeaseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost:
    """The Lease is lost, or may be lost soon: stop acting."""

    reason: str


LeaseDecision = MayTake | HolderSilent | LeaseWon | LeaseLost


@dataclass(slots=True, kw_only=True)
class LeaseObservation:
    """The Lease as last seen, and when it changed; changed by its own methods alone."""

    identity: str
    rank: int
    timing: LeaseTiming
    lease: LeaseRecord | None = None
    changed_ms: int = 0
    dead_holder: str = ""
    dead_ms: int = 0
    silent_since_ms: int | None = None
    """The last change after which the holder was found silent."""

    def note(self, lease: LeaseRecord | None, now_ms: int) -> None:
        """Remember the Lease, None if there is none."""
        known = self.lease
        self.lease = lease
        if lease is None:
            return
        if known is None or (
            (known.resource_version, known.holder_identity, known.renew_time)
            != (lease.resource_version, lease.holder_identity, lease.renew_time)
        ):
            self.changed_ms = now_ms

    def note_death(self, holder_identity: str, now_ms: int) -> None:
        """Remember that a probe proved a holder to be gone."""
        self.dead_holder, self.dead_ms = holder_identity, now_ms

    def silent_due_ms(self, lease: LeaseRecord) -> int | None:
        """Return when the holder counts as silent; None if it did so already, or cannot."""
        if lease.holder_identity in (self.identity, self.dead_holder):
            return None
        is_broker = HolderIdentity.parse(lease.holder_identity) is not None
        if not is_broker or self.silent_since_ms == self.changed_ms:
            return None
        return self.changed_ms + self._duration_ms(lease) - self.timing.probe_deadline_ms

    def note_silence(self, lease: LeaseRecord) -> list[HolderSilent]:
        """Find the holder silent, once for each change of the Lease."""
        self.silent_since_ms = self.changed_ms
        identity = HolderIdentity.parse(lease.holder_identity)
        if identity is None:
            return []
        return [HolderSilent(identity=identity, heard_ms=self.changed_ms)]

    def takeable_ms(self, lease: LeaseRecord) -> int:
        """Return when this candidate may take the Lease.

        At once if the Lease is released, names a dead holder, or names this process (its abandoned
        write has landed). Soon if it names a former process of this broker, in whose place this one
        has registered: the others have time to prove it dead, and one of them then leads earlier.
        Otherwise a full duration after its last change. A rank delay is added.
        """
        if lease.holder_identity in ("", self.identity):
            free_ms = self.changed_ms
        elif lease.holder_identity == self.dead_holder:
            free_ms = max(self.dead_ms, self.changed_ms)
        elif self._is_former_process(lease.holder_identity):
            wait_ms = min(
                PROBES_OF_OTHERS * self.timing.probe_deadline_ms, self._duration_ms(lease)
            )
            free_ms = self.changed_ms + wait_ms
        else:
            free_ms = self.changed_ms + self._duration_ms(lease)
        return free_ms + self.rank * self.timing.rank_delay_ms

    def _is_former_process(self, holder_identity: str) -> bool:
        ours, holder = HolderIdentity.parse(self.identity), HolderIdentity.parse(holder_identity)
        return ours is not None and holder is not None and ours.broker_id == holder.broker_id

    def _duration_ms(self, lease: LeaseRecord) -> int:
        seconds = lease.lease_duration_seconds
        return seconds * 1000 if seconds > 0 else self.timing.lease_duration_ms
