"""The phases of a candidate on its way to become the active controller; a type for each.

Candidate -> ReadingFloor -> AwaitingLease -> Recording (<-> CheckingRecord) -> Loading -> Active.
Every phase can fall back to Candidate. `ControllerElection` alone changes the phase.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import ControllerEpoch, ControllerRecord


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
