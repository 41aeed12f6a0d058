"""Answers of a store: applied, refused, or unknown."""

from __future__ import annotations

from strandline.controller.effects import (
    ControllerEffect,
    LoadCluster,
    ReadBroker,
    ReadControllerRecord,
    ReadEpochFloor,
    ReadLease,
    ReadStoredPartition,
    ReadTopics,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.controller.events import ControllerEvent
from strandline.controller.store_events import (
    BrokerRead,
    ClusterLoaded,
    ControllerRecordResponseReceived,
    EpochFloorRead,
    LeaseResponseReceived,
    PartitionResponseReceived,
    StoreOutcome,
    TopicsRead,
)


def outcome_of(stored: object) -> StoreOutcome:
    return StoreOutcome.CONFLICT if stored is None else StoreOutcome.OK


def unknown_answer(effect: ControllerEffect) -> ControllerEvent:
    """Return the answer of a call that may or may not have been applied."""
    match effect:
        case ReadLease() | WriteLease():
            return LeaseResponseReceived(request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN)
        case ReadEpochFloor():
            return EpochFloorRead(request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN)
        case ReadControllerRecord() | WriteControllerRecord():
            return ControllerRecordResponseReceived(
                request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN
            )
        case ReadStoredPartition() | WritePartitionStatus():
            return PartitionResponseReceived(
                request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN
            )
        case LoadCluster():
            return ClusterLoaded(request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN)
        case ReadBroker():
            return BrokerRead(request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN)
        case ReadTopics():
            return TopicsRead(request_id=effect.request_id, outcome=StoreOutcome.UNKNOWN)
        case _:
            raise AssertionError(effect)
