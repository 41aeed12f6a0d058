"""Answers of a store: applied, refused, or nobody knows."""

from __future__ import annotations

from strandline.controller.effects import (
    Effect,
    LoadCluster,
    ReadBroker,
    ReadControllerRecord,
    ReadEpochFloor,
    ReadLease,
    ReadPartition,
    ReadTopics,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.controller.events import Event
from strandline.controller.store_events import (
    BrokerRead,
    ClusterLoaded,
    ControllerRecordAnswered,
    EpochFloorRead,
    LeaseAnswered,
    Outcome,
    PartitionAnswered,
    TopicsRead,
)


def outcome_of(stored: object) -> Outcome:
    return Outcome.CONFLICT if stored is None else Outcome.OK


def unknown_answer(effect: Effect) -> Event:
    """Return the answer of a call of which nobody knows whether it was applied."""
    match effect:
        case ReadLease() | WriteLease():
            return LeaseAnswered(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case ReadEpochFloor():
            return EpochFloorRead(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case ReadControllerRecord() | WriteControllerRecord():
            return ControllerRecordAnswered(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case ReadPartition() | WritePartitionStatus():
            return PartitionAnswered(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case LoadCluster():
            return ClusterLoaded(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case ReadBroker():
            return BrokerRead(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case ReadTopics():
            return TopicsRead(request_id=effect.request_id, outcome=Outcome.UNKNOWN)
        case _:
            raise AssertionError(effect)
