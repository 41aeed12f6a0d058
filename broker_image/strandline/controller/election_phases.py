"""The phases of a candidate on its way to become the active controller; a type for each.

Candidate -> ReadingFloor -> AwaitingLease -> Recording (<-> CheckingRecord) -> Loading -> Active.
Every phase can fall back to Candidate. Changed by `ControllerElection` alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import ControllerEpoch, ControllerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """This broker is not the controller; another one may be."""


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
class Active:
    """This broker is the active controller and decides with this epoch."""

    epoch: ControllerEpoch
    since_ms: int


ElectionPhase = (
    Candidate | ReadingFloor | AwaitingLease | Recording | CheckingRecord | Loading | Active
)
