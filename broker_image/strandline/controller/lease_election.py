"""Who holds a Lease: the elector of the controller.

The API server never expires a Lease, so a candidate judges by its own monotonic clock from
the moment it saw the last change. Epochs make decisions safe; the Lease decides only when to try.
The elector lives on the times and responses that it is given; it knows no brokers and no
partitions.

Invariants: at most one write is in flight; each carries the resourceVersion of the last
Lease seen; a holder counts the validity of a renewal from the moment it was *sent*.
Source: client-go tools/leaderelection, changed where its documentation admits holes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from strandline.model import ControllerEpoch, LeaseRecord

from .effects import ReadLease, WriteLease
from .lease_observation import LeaseDecision, LeaseLost, LeaseObservation, LeaseWon, MayTake
from .store_events import LeaseResponseReceived, StoreOutcome
from .timing import LeaseTiming

LeaseEffect = ReadLease | WriteLease | LeaseDecision


class _Call(Enum):
    READ = "read"
    TAKE = "take"
    RENEW = "renew"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    call: _Call
    request_id: int
    sent_ms: int
    contested: bool = False
    """The watch showed another holder after this call left: an OK proves nothing."""


class _Role(Enum):
    """WATCHING -> OFFERED -> TAKING -> HOLDING -> (RELEASING ->) WATCHING; STOPPED is final.

    OFFERED: the elector returned `MayTake`. TAKING ends with the response to the write, or with a
    quorum read when that response proves nothing. HOLDING ends with the renew deadline, with a
    quorum read that names another holder or another controller epoch, or with `release`.
    """

    WATCHING = "watching"
    OFFERED = "offered"
    TAKING = "taking"
    HOLDING = "holding"
    RELEASING = "releasing"
    STOPPED = "stopped"


_RELEASE_TRIES_MAX = 3


class LeaseElector:
    """One candidate for one Lease."""

    def __init__(
        self, *, identity: str, rank: int, timing: LeaseTiming, new_request_id: Callable[[], int]
    ) -> None:
        self.identity = identity
        self._seen = LeaseObservation(identity=identity, rank=rank, timing=timing)
        self._timing = timing
        self._new_request_id = new_request_id
        self._role = _Role.WATCHING
        self._in_flight: _InFlight | None = None
        self._read_due_ms: int | None = 0
        self._take_not_before_ms = 0
        self._taken_sent_ms = 0
        self._taken_epoch = ControllerEpoch(0)
        self._renewed_ms = 0
        self._renew_due_ms = 0
        self._release_tries = 0
        self._stopping = False

    @property
    def lease(self) -> LeaseRecord | None:
        """The Lease as last seen; None before the first read and without a Lease."""
        return self._seen.lease

    @property
    def changed_ms(self) -> int:
        """When the Lease was last seen to change."""
        return self._seen.changed_ms

    @property
    def is_stopped(self) -> bool:
        """Whether the release after `stop` is done."""
        return self._role is _Role.STOPPED

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `tick` has something to do; None while only a response can change anything."""
        due_ms = self._due_ms()
        if self._role is not _Role.HOLDING:
            return due_ms
        deadline_ms = self._renewed_ms + self._timing.renew_deadline_ms
        return deadline_ms if due_ms is None else min(due_ms, deadline_ms)

    def _due_ms(self) -> int | None:
        if self._role not in (_Role.WATCHING, _Role.HOLDING) or self._in_flight is not None:
            return None
        if self._read_due_ms is not None:
            return self._read_due_ms
        if self._role is _Role.HOLDING:
            return self._renew_due_ms
        if self.lease is None:
            return None
        silent_due_ms = self._seen.silent_due_ms(self.lease)
        takeable_ms = self._takeable_ms(self.lease)
        return takeable_ms if silent_due_ms is None else min(takeable_ms, silent_due_ms)

    def tick(self, now_ms: int) -> list[LeaseEffect]:
        """Do what is due: read, report a silent holder, offer, renew, or give up the Lease."""
        holding = self._role is _Role.HOLDING
        if holding and now_ms - self._renewed_ms >= self._timing.renew_deadline_ms:
            return self._lose("renew deadline passed", now_ms)
        due_ms = self._due_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        if self._read_due_ms is not None or self.lease is None:
            return self._read(now_ms)
        if holding:
            renewed = replace(self.lease, renew_time="")
            return self._write(_Call.RENEW, renewed, now_ms)
        silent_due_ms = self._seen.silent_due_ms(self.lease)
        if silent_due_ms is not None and silent_due_ms <= now_ms:
            return [*self._seen.note_silence(self.lease)]
        self._role = _Role.OFFERED
        return [MayTake(lease=self.lease)]

    def observe(self, lease: LeaseRecord | None, now_ms: int) -> list[LeaseEffect]:
        """Take note of a watch event, which may be late.

        A quorum read checks another holder while this one holds, takes or releases the Lease.
        """
        foreign = lease is None or lease.holder_identity not in ("", self.identity)
        if self._role in (_Role.TAKING, _Role.HOLDING, _Role.RELEASING):
            if foreign and self._in_flight is not None:
                self._in_flight = replace(self._in_flight, contested=True)
            elif foreign and self._role is _Role.HOLDING:
                return self._read(now_ms)
            return []
        self._note(lease, now_ms)
        return []

    def holder_died(self, holder_identity: str, now_ms: int) -> None:
        """Allow an early take from a holder that a probe proved to be gone."""
        self._seen.note_death(holder_identity, now_ms)

    def take(self, controller_epoch: ControllerEpoch, now_ms: int) -> list[LeaseEffect]:
        """Try to take the offered Lease with this epoch; do nothing if it is no longer free."""
        if self._role is not _Role.OFFERED:
            return []
        lease = self.lease
        if lease is None or self._takeable_ms(lease) > now_ms:
            self._role = _Role.WATCHING
            return []
        changed = lease.holder_identity != self.identity
        self._role, self._taken_sent_ms = _Role.TAKING, now_ms
        self._taken_epoch = controller_epoch
        return self._write(
            _Call.TAKE,
            replace(
                lease,
                holder_identity=self.identity,
                lease_duration_seconds=max(1, self._timing.lease_duration_ms // 1000),
                acquire_time="",
                renew_time="",
                lease_transitions=lease.lease_transitions + (1 if changed else 0),
                controller_epoch=controller_epoch,
            ),
            now_ms,
        )

    def decline(self, now_ms: int) -> None:
        """Do not take the offered Lease now; offer it again after a retry period."""
        if self._role is _Role.OFFERED:
            self._role = _Role.WATCHING
            self._take_not_before_ms = now_ms + self._timing.retry_period_ms

    def release(self, now_ms: int) -> list[LeaseEffect]:
        """Give the Lease up and stay a candidate; do nothing if it is not ours."""
        if self._role is not _Role.HOLDING:
            return []
        in_doubt = self._in_flight is not None
        self._role, self._release_tries, self._in_flight = _Role.RELEASING, 0, None
        return self._read(now_ms) if in_doubt else self._write_release(now_ms)

    def stop(self, now_ms: int) -> list[LeaseEffect]:
        """Release the Lease if it is ours, and take none any more."""
        self._stopping = True
        if self._role is _Role.TAKING:
            self._role, self._release_tries, self._in_flight = _Role.RELEASING, 0, None
            return self._read(now_ms)
        if self._role is _Role.HOLDING:
            return self.release(now_ms)
        if self._role is not _Role.RELEASING:
            self._role = _Role.STOPPED
        return []

    def on_lease_response(self, event: LeaseResponseReceived, now_ms: int) -> list[LeaseEffect]:
        """Take the response to the one request in flight; ignore any other response."""
        sent, is_ok = self._in_flight, event.outcome is StoreOutcome.OK
        if sent is None or sent.request_id != event.request_id:
            return []
        self._in_flight = None
        if sent.call is _Call.READ:
            return self._on_read(event.lease, now_ms) if is_ok else self._read_failed(now_ms)
        if not is_ok:
            return self._read(now_ms)
        if sent.call is _Call.RELEASE:
            self._note(event.lease, now_ms)
            return self._released()
        if event.lease is None or sent.contested:
            return self._read(now_ms)
        return self._confirm(event.lease, sent.sent_ms, now_ms)

    def _confirm(self, lease: LeaseRecord, sent_ms: int, now_ms: int) -> list[LeaseEffect]:
        """Hold the Lease by a write that is proved stored, from the time of its sending."""
        self._note(lease, now_ms)
        won = self._role is _Role.TAKING
        self._role = _Role.HOLDING
        self._renewed_ms = sent_ms
        self._renew_due_ms = sent_ms + self._timing.retry_period_ms
        return [LeaseWon(lease=lease)] if won else []

    def _on_read(self, lease: LeaseRecord | None, now_ms: int) -> list[LeaseEffect]:
        self._note(lease, now_ms)
        ours = lease is not None and lease.holder_identity == self.identity
        # A store that went back may show an earlier term of this process: its epoch is not ours.
        of_this_term = lease is not None and lease.controller_epoch == self._taken_epoch
        if self._role is _Role.RELEASING:
            return self._write_release(now_ms) if ours else self._released()
        if self._role is _Role.TAKING:
            if lease is not None and ours and of_this_term:
                return self._confirm(lease, self._taken_sent_ms, now_ms)
            self._role = _Role.WATCHING
        elif self._role is _Role.HOLDING:
            if not ours:
                return self._lose("another holder", now_ms)
            if not of_this_term:
                return self._lose("another controller epoch", now_ms)
            self._renew_due_ms = now_ms
        return []

    def _read_failed(self, now_ms: int) -> list[LeaseEffect]:
        """Read again later; a write in doubt then counts like any other holder's."""
        self._read_due_ms = now_ms + self._timing.retry_period_ms
        if self._role is _Role.TAKING:
            self._role = _Role.WATCHING
        elif self._role is _Role.RELEASING:
            return self._released()
        return []

    def _released(self) -> list[LeaseEffect]:
        self._role = _Role.STOPPED if self._stopping else _Role.WATCHING
        return []

    def _lose(self, reason: str, now_ms: int) -> list[LeaseEffect]:
        """Stop acting; forget a renewal in flight, whose fate the next read shows."""
        self._role, self._in_flight, self._read_due_ms = _Role.WATCHING, None, now_ms
        return [LeaseLost(reason=reason)]

    def _read(self, now_ms: int) -> list[LeaseEffect]:
        self._read_due_ms = None
        request_id = self._new_request_id()
        self._in_flight = _InFlight(call=_Call.READ, request_id=request_id, sent_ms=now_ms)
        return [ReadLease(request_id=request_id)]

    def _write_release(self, now_ms: int) -> list[LeaseEffect]:
        self._release_tries += 1
        if self.lease is None or self._release_tries > _RELEASE_TRIES_MAX:
            return self._released()
        released = replace(self.lease, holder_identity="", renew_time="")
        return self._write(_Call.RELEASE, released, now_ms)

    def _write(self, call: _Call, lease: LeaseRecord, now_ms: int) -> list[LeaseEffect]:
        request_id = self._new_request_id()
        self._in_flight = _InFlight(call=call, request_id=request_id, sent_ms=now_ms)
        return [WriteLease(request_id=request_id, lease=lease)]

    def _note(self, lease: LeaseRecord | None, now_ms: int) -> None:
        self._seen.note(lease, now_ms)
        retry_ms = now_ms + self._timing.retry_period_ms
        self._read_due_ms = retry_ms if lease is None else None

    def _takeable_ms(self, lease: LeaseRecord) -> int:
        return max(self._seen.takeable_ms(lease), self._take_not_before_ms)
