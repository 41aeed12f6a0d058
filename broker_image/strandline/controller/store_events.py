"""Responses of the store and what its watches showed: the events that `kube` makes.

Each store call gets exactly one response, the event that the effect's docstring names; at the
shell's own time limit that event carries `StoreOutcome.UNKNOWN`. The controller ignores a response
to a call that is no longer open. Events named `...Observed` and `...Deleted` come from watches:
they are hints, and may be late, repeated or out of order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strandline.model import (
    ClusterRecord,
    ControllerEpoch,
    ControllerRecord,
    LeaseRecord,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    TopicPartition,
)


class StoreOutcome(Enum):
    """What is known of a call to the store.

    CONFLICT is every definite refusal (409, 404, 422): nothing was written. UNKNOWN is a
    time-out or a broken connection: a write may have been applied, or may be applied later.
    """

    OK = "ok"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResponse:
    """What all responses have: the id of the call, and its outcome."""

    request_id: int
    outcome: StoreOutcome


# --- the Lease and the controller epoch -------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseObserved:
    """The watch showed the controller Lease; None: it was deleted."""

    lease: LeaseRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseResponseReceived(StoreResponse):
    """Response to `ReadLease` (None: no such Lease) or `WriteLease` (the Lease as stored)."""

    lease: LeaseRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderDied:
    """Probes proved the process with that holder identity gone: its Lease may be taken."""

    holder_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFloorRead(StoreResponse):
    """Response to `ReadEpochFloor`.

    partitions_epoch is the greatest controllerEpoch in a quorum list of Partitions, 0 without
    any. record is None only when there is no BrokerCluster; a BrokerCluster without
    `status.controller` gives a record with an empty holder and epoch 0.
    """

    partitions_epoch: ControllerEpoch = ControllerEpoch(0)
    record: ControllerRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRecordResponseReceived(StoreResponse):
    """Response to a read or write of the controller record; record as in `EpochFloorRead`."""

    record: ControllerRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEpochSeen:
    """A controller epoch stood in a message, or in this broker's own state file."""

    controller_epoch: ControllerEpoch


# --- stored objects ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoaded(StoreResponse):
    """Response to `LoadCluster`: all objects, from quorum lists; cluster was read before them."""

    cluster: ClusterRecord | None = None
    partitions: tuple[StoredPartition, ...] = ()
    brokers: tuple[StoredBroker, ...] = ()
    topics: tuple[StoredTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLost:
    """A watch can not be resumed (410 Gone): the controller must load the cluster again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObserved:
    """The watch showed a Partition; any process may have written it."""

    partition: StoredPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDeleted:
    """The watch showed that a Partition object is gone; that deletes no data."""

    name: str
    tp: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponseReceived(StoreResponse):
    """Response to `ReadStoredPartition` (None: no object) or `WritePartitionStatus` (stored)."""

    partition: StoredPartition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerObserved:
    """The watch showed a Broker."""

    broker: StoredBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRead(StoreResponse):
    """Response to `ReadBroker`; None: no such object."""

    broker: StoredBroker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicObserved:
    """The watch showed a ReplicatedTopic with its effective configuration."""

    topic: StoredTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """The watch showed that a ReplicatedTopic is gone; a quorum list must confirm it."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRead(StoreResponse):
    """Response to `ReadTopics`.

    topic_ids holds the ids of all topics, topics those that have an effective configuration: only
    an id that is missing from topic_ids shows that a topic is gone. cluster was read before them;
    None: there is no BrokerCluster.
    """

    cluster: ClusterRecord | None = None
    topic_ids: frozenset[TopicId] = frozenset()
    topics: tuple[StoredTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecordResponseReceived(StoreResponse):
    """Response to `ReadClusterRecord` (None: no BrokerCluster) or `WriteClusterRecord` (stored)."""

    record: ClusterRecord | None = None


ObjectEvent = (
    PartitionObserved
    | PartitionResponseReceived
    | PartitionDeleted
    | TopicObserved
    | TopicDeleted
    | TopicsRead
    | ClusterRecordResponseReceived
    | WatchLost
    | ClusterLoaded
)
"""What an active controller learns of Partitions, ReplicatedTopics and its BrokerCluster."""
