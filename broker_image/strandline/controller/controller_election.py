"""Controller election: Lease, controller epoch, record, quorum lists.

A candidate becomes active in this order (ADR 0003): read the epoch floor; take the Lease and
the epoch with one write; record both in the BrokerCluster by compare-and-swap; load the cluster;
only then decide. Two processes can not record one epoch: the second one's write fails, and it
releases the Lease and tries with a higher epoch. A controller that sees a higher epoch resigns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from strandline.model import BrokerId, ControllerEpoch, ControllerRecord

from . import store_events
from .effects import (
    ControllerEffect,
    LoadCluster,
    ReadControllerRecord,
    ReadEpochFloor,
    StopWatching,
    WriteControllerRecord,
)
from .events import ElectionEvent, LeaseHolderProbed, StopRequested
from .lease_election import LeaseEffect, LeaseElector
from .lease_observation import HolderSilent, LeaseLost, LeaseWon, MayTake
from .notices import ControllerResigned, LeaseLostOrLeft, LeaseTaken
from .silent_holder import HolderSilence
from .store_events import StoreOutcome
from .timing import LeaseTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """This broker is not the controller; another one may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFloor:
    """The Lease may be taken; a read of the epochs in use is out."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingLease:
    """A write of the Lease is out; our record will replace this one by compare-and-swap."""

    record: ControllerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What the later phases share: the Lease is ours since then, with this epoch."""

    epoch: ControllerEpoch
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(Holding):
    """A write of the record is out."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckingRecord(Holding):
    """A read shows whether our record is stored; retry_ms is set after a failed read."""

    request_id: int
    retry_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading(Holding):
    """The epoch is recorded; quorum lists are out; retry_ms is set after a failed list."""

    request_id: int
    retry_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Active(Holding):
    """This broker is the active controller and decides with this epoch."""


ElectionPhase = (
    Candidate | ReadingFloor | AwaitingLease | Recording | CheckingRecord | Loading | Active
)
"""The phases, in this order; Recording and CheckingRecord alternate, every one can fall back to
Candidate. `ControllerElection` alone makes these."""


class ControllerElection:
    """The election of the controller as one broker takes part in it."""

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
        self.highest_epoch_seen = ControllerEpoch(0)
        self.elector = LeaseElector(
            identity=identity, rank=rank, timing=timing, new_request_id=new_request_id
        )
        self.silence = HolderSilence(probe_deadline_ms=timing.probe_deadline_ms)
        self.phase: ElectionPhase = Candidate()

    @property
    def epoch(self) -> ControllerEpoch | None:
        """The epoch to decide with; None while inactive."""
        return self.phase.epoch if isinstance(self.phase, Active) else None

    @property
    def next_wakeup_ms(self) -> int | None:
        """The elector's wakeup or the retry of a failed read."""
        due = [self.elector.next_wakeup_ms]
        if isinstance(self.phase, CheckingRecord | Loading):
            due.append(self.phase.retry_ms)
        return min((ms for ms in due if ms is not None), default=None)

    def handle(self, event: ElectionEvent, now_ms: int) -> list[ControllerEffect]:
        """Take one event of the election."""
        match event:
            case store_events.LeaseObserved():
                return self._follow(self.elector.observe(event.lease, now_ms), now_ms)
            case store_events.LeaseResponseReceived():
                return self._follow(self.elector.on_lease_response(event, now_ms), now_ms)
            case store_events.ControllerEpochSeen():
                return self.see_epoch(event.controller_epoch, now_ms)
            case store_events.EpochFloorRead():
                return self._on_floor(event, now_ms)
            case store_events.ControllerRecordResponseReceived():
                return self._on_record(event, now_ms)
            case store_events.HolderDied():
                self.elector.holder_died(event.holder_identity, now_ms)
                return []
            case LeaseHolderProbed():
                self.silence.on_probed(event)
                return []
            case StopRequested():
                return self._leave("stopped") + self._follow(self.elector.stop(now_ms), now_ms)
            case _:
                assert_never(event)

    def tick(self, now_ms: int) -> list[ControllerEffect]:
        """Renew or lose the Lease; repeat a failed read."""
        effects = self._follow(self.elector.tick(now_ms), now_ms)
        match self.phase:
            case CheckingRecord(retry_ms=int(retry_ms)) as phase if retry_ms <= now_ms:
                effects.extend(self._check_record(phase))
            case Loading(retry_ms=int(retry_ms)) as phase if retry_ms <= now_ms:
                effects.extend(self._load(phase))
            case _:
                pass
        return effects

    def _follow(self, decisions: list[LeaseEffect], now_ms: int) -> list[ControllerEffect]:
        """Turn the elector's decisions into phases; pass its store calls on."""
        effects: list[ControllerEffect] = []
        for decision in decisions:
            match decision:
                case HolderSilent():
                    effects.append(self.silence.probe(decision, self._new_request_id()))
                case MayTake():
                    self.silence.on_may_take(decision.lease, changed_ms=self.elector.changed_ms)
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

    def _on_floor(self, event: store_events.EpochFloorRead, now_ms: int) -> list[ControllerEffect]:
        """Take the Lease with an epoch above every known one."""
        if not isinstance(self.phase, ReadingFloor) or self.phase.request_id != event.request_id:
            return []
        self.phase = Candidate()
        lease, record = self.elector.lease, event.record
        if event.outcome is not StoreOutcome.OK or record is None or lease is None:
            self.silence.forget()
            self.elector.decline(now_ms)
            return []
        known = (lease.controller_epoch, record.controller_epoch, event.partitions_epoch)
        floor = max(self.highest_epoch_seen, *known)
        writes = self.elector.take(ControllerEpoch(floor + 1), now_ms)
        if writes:
            self.phase = AwaitingLease(record=record)
        return self._follow(writes, now_ms)

    def _on_won(self, won: LeaseWon, now_ms: int) -> list[ControllerEffect]:
        epoch, phase = won.lease.controller_epoch, self.phase
        taken = LeaseTaken(holder_identity=won.lease.holder_identity, controller_epoch=epoch)
        if not isinstance(phase, AwaitingLease):
            return [taken, *self.resign("lease without an epoch floor", now_ms)]
        return [taken, *self._record(epoch, phase.record, now_ms)]

    def _record(
        self, epoch: ControllerEpoch, found: ControllerRecord, since_ms: int
    ) -> list[ControllerEffect]:
        """Write our record over the found one, whose epoch is lower."""
        record = replace(
            found,
            holder_identity=self.elector.identity,
            broker_id=self._broker_id,
            controller_epoch=epoch,
        )
        request_id = self._new_request_id()
        self.phase = Recording(epoch=epoch, since_ms=since_ms, request_id=request_id)
        return [WriteControllerRecord(request_id=request_id, record=record)]

    def _on_record(
        self, event: store_events.ControllerRecordResponseReceived, now_ms: int
    ) -> list[ControllerEffect]:
        """Load the cluster when the record is ours; otherwise read it, try again, or resign."""
        phase, record = self.phase, event.record
        if not isinstance(phase, Recording | CheckingRecord):
            return []
        if phase.request_id != event.request_id:
            return []
        is_ok = event.outcome is StoreOutcome.OK
        if isinstance(phase, Recording):
            return self._load(phase) if is_ok else self._check_record(phase)
        if not is_ok:
            self.phase = replace(phase, retry_ms=now_ms + self._timing.retry_period_ms)
            return []
        if record is None:
            return self.resign("no BrokerCluster", now_ms)
        ours = record.holder_identity == self.elector.identity
        if ours and record.controller_epoch == phase.epoch:
            return self._load(phase)
        if record.controller_epoch >= phase.epoch:
            self.highest_epoch_seen = max(self.highest_epoch_seen, record.controller_epoch)
            return self.resign("controller epoch taken by another holder", now_ms)
        return self._record(phase.epoch, record, phase.since_ms)

    def _check_record(self, phase: Holding) -> list[ControllerEffect]:
        request_id = self._new_request_id()
        self.phase = CheckingRecord(
            epoch=phase.epoch, since_ms=phase.since_ms, request_id=request_id
        )
        return [ReadControllerRecord(request_id=request_id)]

    def _load(self, phase: Holding) -> list[ControllerEffect]:
        self.highest_epoch_seen = max(self.highest_epoch_seen, phase.epoch)
        request_id = self._new_request_id()
        self.phase = Loading(epoch=phase.epoch, since_ms=phase.since_ms, request_id=request_id)
        return [LoadCluster(request_id=request_id)]

    def on_loaded(self, event: store_events.ClusterLoaded, now_ms: int) -> list[ControllerEffect]:
        """Become active with the lists, unless they show a higher epoch."""
        phase = self.phase
        if not isinstance(phase, Loading) or phase.request_id != event.request_id:
            return []
        if event.outcome is not StoreOutcome.OK:
            self.phase = replace(phase, retry_ms=now_ms + self._timing.retry_period_ms)
            return []
        for partition in event.partitions:
            if partition.state is not None and partition.state.controller_epoch > phase.epoch:
                return self.see_epoch(partition.state.controller_epoch, now_ms)
        self.phase = Active(epoch=phase.epoch, since_ms=phase.since_ms)
        return []

    def see_epoch(self, epoch: ControllerEpoch, now_ms: int) -> list[ControllerEffect]:
        """Remember an epoch; resign if it is above ours."""
        self.highest_epoch_seen = max(self.highest_epoch_seen, epoch)
        if isinstance(self.phase, Holding) and epoch > self.phase.epoch:
            return self.resign("higher controller epoch seen", now_ms)
        return []

    def resign(self, reason: str, now_ms: int) -> list[ControllerEffect]:
        """Resign and release the Lease, staying a candidate."""
        effects = self._leave(reason)
        return effects + self._follow(self.elector.release(now_ms), now_ms)

    def _leave(self, reason: str) -> list[ControllerEffect]:
        phase, self.phase = self.phase, Candidate()
        effects: list[ControllerEffect] = []
        if isinstance(phase, Loading | Active):
            effects.append(StopWatching())
        if isinstance(phase, Active):
            effects.append(ControllerResigned(controller_epoch=phase.epoch, reason=reason))
        if not isinstance(phase, Candidate):
            effects.append(LeaseLostOrLeft(reason=reason))
        return effects
