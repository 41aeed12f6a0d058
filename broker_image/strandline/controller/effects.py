"""What the controller wants done; `notices.py` holds what it reports.

A shell performs them in list order. Every command is complete in itself: the shell decides nothing.
Store calls run concurrently; their responses come in any order. A session keeps the effects' order.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    TOPIC_DELETED,
    BrokerEpoch,
    BrokerId,
    ClusterRecord,
    ControllerEpoch,
    ControllerRecord,
    Endpoint,
    LeaseRecord,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)

from .notices import ControllerNotice
from .topic_effects import TellAppliedConfig

# --- commands on the store --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """What all calls of the store have: the id that their response carries."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLease(StoreRequest):
    """Quorum GET of the Lease (no resourceVersion); then `LeaseResponseReceived`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLease(StoreRequest):
    """PUT the Lease if it still has lease.resource_version; then `LeaseResponseReceived`.

    The shell stamps an empty acquire_time or renew_time with the wall clock's time. An empty holder
    releases the Lease. The write never creates one.
    """

    lease: LeaseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEpochFloor(StoreRequest):
    """Quorum list of Partitions, quorum GET of BrokerCluster; then `EpochFloorRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadControllerRecord(StoreRequest):
    """Quorum GET of `BrokerCluster.status.controller`; then `ControllerRecordResponseReceived`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteControllerRecord(StoreRequest):
    """PUT `BrokerCluster.status.controller` if it still has record.resource_version.

    The rest of the status stays as it was at that version. Then `ControllerRecordResponseReceived`.
    """

    record: ControllerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCluster(StoreRequest):
    """Quorum lists of all objects, and watches from there on in place of earlier ones.

    The BrokerCluster first; Partitions, Brokers and ReplicatedTopics; then `ClusterLoaded`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWatching:
    """End the watches that `LoadCluster` began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStoredPartition(StoreRequest):
    """Quorum GET of a Partition; then `PartitionResponseReceived`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePartitionStatus(StoreRequest):
    """PUT `Partition.status` if the object still has resource_version.

    tp is the identity the object had when it was read. Then `PartitionResponseReceived`.
    """

    name: str
    tp: TopicPartition
    resource_version: str
    state: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBroker(StoreRequest):
    """Quorum GET of a Broker; then `BrokerRead`."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopics(StoreRequest):
    """Quorum GET of the BrokerCluster, then a quorum list of all ReplicatedTopics; `TopicsRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadClusterRecord(StoreRequest):
    """Quorum GET of the BrokerCluster; then `ClusterRecordResponseReceived`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteClusterRecord(StoreRequest):
    """PUT the controller's lists in `BrokerCluster.status` at record.resource_version.

    The store stamps an empty deleted_at. Then `ClusterRecordResponseReceived`.
    """

    record: ClusterRecord


# --- commands on the network ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """Who the active controller is and where it listens, for a broker without a session."""

    holder_identity: str
    controller_epoch: ControllerEpoch
    endpoint: Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBroker:
    """Ask the gRPC listener for its incarnation; `ProbeResponseReceived` within deadline_ms.

    With an introduction the probed process may open its session without the API server (ADR 0028).
    """

    request_id: int
    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    incarnation: str
    deadline_ms: int
    introduction: Introduction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLeaseHolder:
    """Ask a holder that renews no longer for its incarnation; then `LeaseHolderProbed`.

    The shell finds the address; a holder without one counts as answering: nothing is proved.
    """

    request_id: int
    broker_id: BrokerId
    incarnation: str
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """Send the error with the highest known controller epoch, then end the stream.

    NOT_CONTROLLER: dial the present Lease holder again. STALE_BROKER_EPOCH: a newer process
    of that id is registered. BROKER_ID_NOT_REGISTERED: write the registration back first.
    No `SessionBroken` follows.
    """

    session_id: int
    error: ErrorCode
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToBroker:
    """What all messages to a broker have, beside `CloseSession`."""

    session_id: int
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command(_ToBroker):
    """What all commands to a broker have; it refuses one with an older epoch."""

    broker_epoch: BrokerEpoch
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFullState(_Command):
    """First command of a session: the partitions that the broker hosts, and all metadata.

    The broker deletes no hosted partition that `partitions` leaves out.
    """

    request_id: int
    brokers: tuple[LiveBroker, ...]
    partitions: tuple[PartitionCommand, ...]
    metadata: tuple[PartitionCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLeaderAndIsr(_Command):
    """Committed states of a broker's partitions; then `BrokerResponseReceived`."""

    request_id: int
    partitions: tuple[PartitionCommand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendUpdateMetadata(_Command):
    """Live brokers (replaces the list) and partitions (merged); without a response."""

    brokers: tuple[LiveBroker, ...]
    partitions: tuple[PartitionCommand, ...] = ()
    removed: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStopReplica(_Command):
    """Delete these logs, of no topic or of no replica any more; then `BrokerResponseReceived`."""

    request_id: int
    partitions: tuple[TopicPartition, ...]
    removed_at: PartitionEpoch = TOPIC_DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRestoreReplica(_Command):
    """Take these logs back from the trash (ADR 0037); then `BrokerResponseReceived`."""

    request_id: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAlterPartition(_ToBroker):
    """Respond to an AlterPartition; stored is the committed state, None if unknown."""

    request_id: int
    tp: TopicPartition
    error: ErrorCode
    stored: PartitionState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyControlledShutdown(_ToBroker):
    """Respond with how many partitions with other replicas a leaving broker still leads."""

    request_id: int
    error: ErrorCode
    remaining: int


SessionEffect = (
    CloseSession
    | SendFullState
    | SendLeaderAndIsr
    | SendUpdateMetadata
    | SendStopReplica
    | SendRestoreReplica
    | ReplyAlterPartition
    | ReplyControlledShutdown
)
_Election = ReadLease | WriteLease | ReadEpochFloor | ReadControllerRecord | WriteControllerRecord
ControllerEffect = (
    _Election
    | LoadCluster
    | StopWatching
    | ReadStoredPartition
    | WritePartitionStatus
    | ReadBroker
    | ReadTopics
    | ReadClusterRecord
    | WriteClusterRecord
    | TellAppliedConfig
    | ProbeBroker
    | ProbeLeaseHolder
    | SessionEffect
    | ControllerNotice
)
