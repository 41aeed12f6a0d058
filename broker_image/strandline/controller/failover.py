"""A new controller's first steps: Lease, controller epoch, record, quorum lists.

The way into office, in this order (ADR 0003): read the epoch floor; take the Lease and the
epoch with one write; record both in the BrokerCluster by compare-and-swap; list everything;
only then decide. Two processes can not record one epoch: the record's write fails for the
second, which gives the Lease up and tries with a higher one. Who learns of a higher epoch
leaves office.

Phases: Candidate -> ReadingFloor -> AwaitingLease -> Recording (<-> CheckingRecord)
-> Loading -> InOffice; every phase can fall back to Candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from strandline.model import BrokerId, ControllerEpoch, ControllerRecord

from .effects import (
    Effect,
    LoadCluster,
    ReadControllerRecord,
    ReadEpochFloor,
    StopWatching,
    WriteControllerRecord,
)
from .lease_election import LeaseEffect, LeaseElector
from .lease_observation import LeaseLost, LeaseWon, MayTake
from .notices import ControllerResigned, LeaseLostOrLeft, LeaseTaken
from .store_events import ClusterLoaded, ControllerRecordAnswered, EpochFloorRead, Outcome
from .timing import LeaseTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Somebody else, or nobody, is the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFloor:
    """The Lease may be taken; the epochs in use are being read."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingLease:
    """The Lease is being written; record is what its compare-and-swap starts from."""

    record: ControllerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The Lease is ours; the record is being written, or is written again at retry_ms."""

    epoch: ControllerEpoch
    record: ControllerRecord
    request_id: int
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckingRecord:
    """Whether our record is stored is being read; retry_ms is set after a failed read."""

    epoch: ControllerEpoch
    request_id: int
    since_ms: int
    retry_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """The epoch is recorded; everything is being listed; retry_ms is set after a failed list."""

    epoch: ControllerEpoch
    request_id: int
    since_ms: int
    retry_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InOffice:
    """Decisions may be made with this epoch."""

    epoch: ControllerEpoch
    since_ms: int


Phase = Candidate | ReadingFloor | AwaitingLease | Recording | CheckingRecord | Loading | InOffice


class Office:
    """The office of the controller as one broker sees it."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        identity: str,
        rank: int,
        timing: LeaseTiming,
        new_request_id: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._timing = timing
        self._new_request_id = new_request_id
        self._seen_epoch = ControllerEpoch(0)
        self.elector = LeaseElector(
            identity=identity, rank=rank, timing=timing, new_request_id=new_request_id
        )
        self.phase: Phase = Candidate()

    @property
    def epoch(self) -> ControllerEpoch | None:
        """The epoch to decide with; None outside of office."""
        return self.phase.epoch if isinstance(self.phase, InOffice) else None

    @property
    def since_ms(self) -> int:
        """When the Lease was won, valid in office."""
        return self.phase.since_ms if isinstance(self.phase, InOffice) else 0

    @property
    def highest_epoch_known(self) -> ControllerEpoch:
        """What a refused broker is told; never above an epoch that somebody took."""
        return self._seen_epoch

    @property
    def next_wakeup_ms(self) -> int | None:
        """The elector's wakeup or the retry of a failed read."""
        due = [self.elector.next_wakeup_ms]
        if isinstance(self.phase, (CheckingRecord, Loading)):
            due.append(self.phase.retry_ms)
        return min((ms for ms in due if ms is not None), default=None)

    def tick(self, now_ms: int) -> list[Effect]:
        """Renew or lose the Lease; repeat a failed read."""
        effects = self.follow(self.elector.tick(now_ms), now_ms)
        phase = self.phase
        if isinstance(phase, CheckingRecord | Loading) and phase.retry_ms is not None:
            effects.extend(self._read_again(phase) if phase.retry_ms <= now_ms else [])
        return effects

    def follow(self, decisions: list[LeaseEffect], now_ms: int) -> list[Effect]:
        """Turn what the elector decided into phases; pass its calls on."""
        effects: list[Effect] = []
        for decision in decisions:
            match decision:
                case MayTake():
                    request_id = self._new_request_id()
                    self.phase = ReadingFloor(request_id=request_id)
                    effects.append(ReadEpochFloor(request_id=request_id))
                case LeaseWon():
                    effects.extend(self._on_won(decision, now_ms))
                case LeaseLost():
                    effects.extend(self._leave(decision.reason))
                case _:
                    effects.append(decision)
        return effects

    def on_floor(self, event: EpochFloorRead, now_ms: int) -> list[Effect]:
        """Take the Lease with an epoch above everything that is known."""
        if not isinstance(self.phase, ReadingFloor) or self.phase.request_id != event.request_id:
            return []
        self.phase = Candidate()
        lease = self.elector.lease
        if event.outcome is not Outcome.OK or event.record is None or lease is None:
            self.elector.decline(now_ms)
            return []
        floor = max(
            lease.controller_epoch,
            event.record.controller_epoch,
            event.partitions_epoch,
            self._seen_epoch,
        )
        writes = self.elector.take(ControllerEpoch(floor + 1), now_ms)
        if writes:
            self.phase = AwaitingLease(record=event.record)
        return self.follow(writes, now_ms)

    def _on_won(self, won: LeaseWon, now_ms: int) -> list[Effect]:
        effects: list[Effect] = [
            LeaseTaken(
                holder_identity=won.lease.holder_identity,
                controller_epoch=won.lease.controller_epoch,
            )
        ]
        if not isinstance(self.phase, AwaitingLease):
            return effects + self.resign("lease without an epoch floor", now_ms)
        epoch = won.lease.controller_epoch
        return effects + self._record(epoch, self.phase.record, now_ms)

    def _record(
        self, epoch: ControllerEpoch, found: ControllerRecord, since_ms: int
    ) -> list[Effect]:
        """Write our record over the one found, which is lower."""
        record = replace(
            found,
            holder_identity=self.elector.identity,
            broker_id=self._broker_id,
            controller_epoch=epoch,
        )
        request_id = self._new_request_id()
        self.phase = Recording(epoch=epoch, record=record, request_id=request_id, since_ms=since_ms)
        return [WriteControllerRecord(request_id=request_id, record=record)]

    def on_record(self, event: ControllerRecordAnswered, now_ms: int) -> list[Effect]:
        """Go on when the record is ours; otherwise find out, try again, or give up."""
        phase = self.phase
        if isinstance(phase, Recording) and phase.request_id == event.request_id:
            if event.outcome is Outcome.OK:
                return self._load(phase.epoch, phase.since_ms)
            request_id = self._new_request_id()
            self.phase = CheckingRecord(
                epoch=phase.epoch, request_id=request_id, since_ms=phase.since_ms
            )
            return [ReadControllerRecord(request_id=request_id)]
        if isinstance(phase, CheckingRecord) and phase.request_id == event.request_id:
            return self._on_record_read(phase, event, now_ms)
        return []

    def _on_record_read(
        self, phase: CheckingRecord, event: ControllerRecordAnswered, now_ms: int
    ) -> list[Effect]:
        if event.outcome is not Outcome.OK:
            self.phase = replace(phase, retry_ms=now_ms + self._timing.retry_period_ms)
            return []
        record = event.record
        if record is None:
            return self.resign("no BrokerCluster", now_ms)
        ours = record.holder_identity == self.elector.identity
        if ours and record.controller_epoch == phase.epoch:
            return self._load(phase.epoch, phase.since_ms)
        if record.controller_epoch >= phase.epoch:
            self._seen_epoch = max(self._seen_epoch, record.controller_epoch)
            return self.resign("controller epoch taken by another holder", now_ms)
        return self._record(phase.epoch, record, phase.since_ms)

    def _load(self, epoch: ControllerEpoch, since_ms: int) -> list[Effect]:
        self._seen_epoch = max(self._seen_epoch, epoch)
        request_id = self._new_request_id()
        self.phase = Loading(epoch=epoch, request_id=request_id, since_ms=since_ms)
        return [LoadCluster(request_id=request_id)]

    def _read_again(self, phase: CheckingRecord | Loading) -> list[Effect]:
        request_id = self._new_request_id()
        self.phase = replace(phase, request_id=request_id, retry_ms=None)
        if isinstance(phase, Loading):
            return [LoadCluster(request_id=request_id)]
        return [ReadControllerRecord(request_id=request_id)]

    def on_loaded(self, event: ClusterLoaded, now_ms: int) -> list[Effect]:
        """Enter office with the lists, unless they show a higher epoch."""
        phase = self.phase
        if not isinstance(phase, Loading) or phase.request_id != event.request_id:
            return []
        if event.outcome is not Outcome.OK:
            self.phase = replace(phase, retry_ms=now_ms + self._timing.retry_period_ms)
            return []
        for partition in event.partitions:
            if partition.state is not None and partition.state.controller_epoch > phase.epoch:
                return self.see_epoch(partition.state.controller_epoch, now_ms)
        self.phase = InOffice(epoch=phase.epoch, since_ms=phase.since_ms)
        return []

    def see_epoch(self, epoch: ControllerEpoch, now_ms: int) -> list[Effect]:
        """Remember an epoch somebody told; leave office if it is above ours."""
        self._seen_epoch = max(self._seen_epoch, epoch)
        phase = self.phase
        if isinstance(phase, Candidate | ReadingFloor | AwaitingLease):
            return []
        if epoch > phase.epoch:
            return self.resign("higher controller epoch seen", now_ms)
        return []

    def resign(self, reason: str, now_ms: int) -> list[Effect]:
        """Leave office and give the Lease up, staying a candidate."""
        effects = self._leave(reason)
        return effects + self.follow(self.elector.release(now_ms), now_ms)

    def stop(self, now_ms: int) -> list[Effect]:
        """Leave office for good."""
        effects = self._leave("stopped")
        return effects + self.follow(self.elector.stop(now_ms), now_ms)

    def _leave(self, reason: str) -> list[Effect]:
        phase, self.phase = self.phase, Candidate()
        effects: list[Effect] = []
        if isinstance(phase, (Loading, InOffice)):
            effects.append(StopWatching())
        if isinstance(phase, InOffice):
            effects.append(ControllerResigned(controller_epoch=phase.epoch, reason=reason))
        if not isinstance(phase, Candidate):
            effects.append(LeaseLostOrLeft(reason=reason))
        return effects
