"""What a broker and the active controller say to each other on their session.

`rpc` turns these values into protobuf and back; the simulator's network carries them as they are.
Messages for the replicas alone are events and effects of the core.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.controller.events import HostedReplica
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LiveBroker,
    PartitionCommand,
    TopicPartition,
    TrashedReplica,
)

# --- controller to broker -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataUpdate:
    """Live brokers and leaders; a full update replaces all earlier ones."""

    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    controller_id: BrokerId
    live_brokers: tuple[LiveBroker, ...]
    partitions: tuple[PartitionCommand, ...]
    removed: tuple[TopicPartition, ...]
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownResponse:
    """How many partitions the controller has not moved yet; valid if error is NONE."""

    request_id: int
    error: ErrorCode
    remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRefused:
    """The dialled broker is not the controller (yet), or refuses this broker's epoch."""

    error: ErrorCode
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReplica:
    """The controller wants the newest deleted logs of these partitions back from the trash."""

    request_id: int
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: tuple[TopicPartition, ...]


ControllerMessage = (
    LeaderAndIsrReceived
    | StopReplicaReceived
    | RestoreReplica
    | MetadataUpdate
    | AlterPartitionResponseReceived
    | ShutdownResponse
    | SessionRefused
)

# --- broker to controller -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message of a session: the broker's identity, its replicas on disk, its trash."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    incarnation: str
    highest_controller_epoch: ControllerEpoch
    hosted: tuple[HostedReplica, ...]
    trashed: tuple[TrashedReplica, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """This broker is alive; hosted is None unless a hosted report is due.

    trashed comes with it: what the trash holds, the newest logs up to a bound. is_full: this broker
    refuses records of clients, for its volume has no room (ADR 0023).
    """

    broker_epoch: BrokerEpoch
    hosted: tuple[HostedReplica, ...] | None
    is_full: bool = False
    trashed: tuple[TrashedReplica, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """AlterPartition: the leader of a partition proposes another ISR."""

    broker_epoch: BrokerEpoch
    proposal: ProposeIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRestoreReplica:
    """The result of a RestoreReplica, per partition: NONE for a log that is back on disk."""

    request_id: int
    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResponse:
    """The result of a command for replicas, and the highest epoch that this broker saw."""

    response: ReplyLeaderAndIsr | ReplyStopReplica | ReplyRestoreReplica
    highest_controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownRequest:
    """The broker is about to stop, and asks the controller to move its leaders."""

    request_id: int
    broker_epoch: BrokerEpoch


BrokerMessage = Hello | Heartbeat | IsrProposal | CommandResponse | ShutdownRequest
