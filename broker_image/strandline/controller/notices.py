"""All that the controller reports: logs, metrics and Events are views of these facts."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    LeaderEpoch,
    PartitionEpoch,
    Recovery,
    TopicId,
    TopicPartition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTaken:
    """The Lease names this process; the controller is active from `ControllerElected` on."""

    holder_identity: str
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLostOrLeft:
    """The Lease is not ours any more; reason is a constant phrase."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerElected:
    """The epoch is recorded and the cluster is loaded: decisions begin."""

    controller_epoch: ControllerEpoch
    partition_count: int
    broker_count: int
    takeover_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResigned:
    """The controller is no longer active; reason is a constant phrase."""

    controller_epoch: ControllerEpoch
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered:
    """A broker opened a session with this controller."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    hosted_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWithoutSession:
    """A broker responds to probes and opened no session for a session timeout."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDead:
    """A broker epoch is known dead; detect_ms counts from its last sign of life."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    reason: str
    detect_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElected:
    """A new leader is committed; elect_ms lasts from queueing the partition to the commit."""

    tp: TopicPartition
    topic_name: str
    kind: ElectionKind
    leader_before: BrokerId
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    detect_ms: int
    elect_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBegunAnew:
    """A partition to recover is new, for no assigned broker has data of it.

    recovery is UNCLEAN if one of these brokers once lost data, perhaps this partition's.
    """

    tp: TopicPartition
    topic_name: str
    replicas: tuple[BrokerId, ...]
    recovery: Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSetAside:
    """A Partition object has no effect: another object of its partition counts.

    name is that of the object without effect.
    """

    tp: TopicPartition
    topic_name: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffline:
    """No replica may lead; reason is the word in `Partition.status`."""

    tp: TopicPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAccepted:
    """An ISR change is committed; requester is the leader, NO_LEADER for the controller."""

    tp: TopicPartition
    topic_name: str
    requester: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr_before: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRefused:
    """The controller refused an ISR change and committed the next partition epoch (ADR 0006)."""

    tp: TopicPartition
    topic_name: str
    requester: BrokerId
    partition_epoch: PartitionEpoch
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MinIsrChanged:
    """The effective min ISR of a partition changed."""

    tp: TopicPartition
    topic_name: str
    min_insync_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConflicted:
    """A status write conflicted, or its outcome is unknown: the object is read again."""

    name: str
    outcome: str
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFenced:
    """An epoch refused a broker's message; fence is the metric label."""

    broker_id: BrokerId
    fence: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesRefused:
    """A broker refused states of partitions, for it has accepted higher epochs of them."""

    broker_id: BrokerId
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletionConfirmed:
    """The store had this topic, and a quorum list has it no more; the brokers delete its logs."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayFound:
    """Brokers have logs on disk of a topic id that no ReplicatedTopic has; they are kept."""

    topic_id: TopicId
    topic_name: str
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMoved:
    """A step of a move is stored: these are the replicas, those added and those to be removed."""

    tp: TopicPartition
    topic_name: str
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRemoved:
    """A broker was told to delete a log: the stored state does not name it as a replica."""

    broker_id: BrokerId
    tp: TopicPartition
    topic_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreAsked:
    """A broker shall take a partition's log back from its trash."""

    broker_id: BrokerId
    tp: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFailed:
    """A broker did not take a log back; its next report that names the log leads to another try."""

    broker_id: BrokerId
    tp: TopicPartition
    error: ErrorCode


ControllerNotice = (
    LeaseTaken
    | LeaseLostOrLeft
    | ControllerElected
    | ControllerResigned
    | BrokerRegistered
    | BrokerWithoutSession
    | BrokerDead
    | LeaderElected
    | PartitionBegunAnew
    | PartitionSetAside
    | PartitionOffline
    | IsrAccepted
    | IsrRefused
    | MinIsrChanged
    | StoreConflicted
    | RequestFenced
    | StatesRefused
    | TopicDeletionConfirmed
    | StrayFound
    | PartitionMoved
    | ReplicaRemoved
    | RestoreAsked
    | RestoreFailed
)
