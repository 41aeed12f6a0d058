"""Everything that can happen to the replicas of one broker.

The shells (`rpc`, `kafka_listener`, `runtime`) and the simulator make events; `Replicas.step` alone
consumes them. Values are frozen, and their makers checked their shape: offsets are not negative,
ids are well-formed. Offsets count records, ends are exclusive; times are ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from strandline.errors import ErrorCode
from strandline.model import (
    TOPIC_DELETED,
    Acks,
    BatchSpan,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochEndOffset,
    HostedPartition,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)

from .copy_quota import CopyIntakeChanged
from .fetch_changes import FetchChanges, FetchPartition

RecordsHandle = NewType("RecordsHandle", object)
"""Records that a shell holds, checked; the core carries the handle and never looks into it."""
NO_RECORDS = RecordsHandle(())

SequenceCheck = BatchSpan | ErrorCode
"""What a log says of a producer's next batch: NONE if it is new and in order, the error that
refuses it, or where the log already has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoaded:
    """A replica was found on disk at start, or came back from the trash.

    It is idle until the controller's first request.
    """

    hosted: HostedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrReceived:
    """The controller decided; `full` marks the FullState that opens a session.

    A full state deletes no hosted partition that it leaves out.
    """

    request_id: int
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: tuple[PartitionCommand, ...]
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaReceived:
    """The controller wants these logs deleted: no topic with that uid exists any more.

    Or the state of removed_at has no replica on this broker, which may know a later one (ADR 0057).
    """

    request_id: int
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: tuple[TopicPartition, ...]
    removed_at: PartitionEpoch = TOPIC_DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePersisted:
    """The state file is on disk up to and including the `PersistState` with this token."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartPersisted:
    """The log start checkpoint is on disk with this offset, as a `PersistLogStart` asked."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed:
    """All records of a log below an offset are fsynced, and no cut came since the fsync began.

    Where a topic has `flush.messages` 1, the last one after an append, a cut or a `CreateReplica`
    tells of all that the log then holds.
    """

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReached:
    """Retention keeps nothing below an offset, the base of a segment; the leader alone obeys."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBrokersChanged:
    """The controller announced the live brokers (not fenced, not shutting down), with epochs."""

    controller_epoch: ControllerEpoch
    brokers: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceReceived:
    """A validated batch for one partition; `AppendAsLeader` carries its records back.

    record_count is last offset delta + 1. A batch that is already in the log is not appended again:
    the response carries its offsets there, and waits for the same high watermark.
    """

    request_id: int
    tp: TopicPartition
    acks: Acks
    record_count: int
    records: RecordsHandle
    timeout_ms: int
    sequence: SequenceCheck = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedFetchReceived:
    """A consumer's fetch found too little; it waits until a high watermark passes the one it saw.

    watches maps a partition to the high watermark that the consumer saw. The core returns
    `CompleteFetch` when a high watermark passes, a leadership changes, or the deadline comes.
    """

    request_id: int
    watches: tuple[tuple[TopicPartition, int], ...]
    max_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsReceived:
    """A client wants the records below an offset deleted; TO_HIGH_WATERMARK means all it can read.

    The response waits until every live replica's log begins there.
    """

    request_id: int
    tp: TopicPartition
    offset: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    """The client behind a waiting request is gone; there will be no response."""

    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetchReceived:
    """A follower asks for records; its fetch offsets say what it has.

    without_records: the follower has no room for records (ADR 0050). It tells what it has, so that
    the leader can commit it, and learns high watermarks and where to truncate.
    copies_after_ms: records of a copy (`LogReadInfo`) are no reason to respond sooner (ADR 0061).
    partitions is the whole fetch; changes tells a leader that remembers the last one what is new
    (ADR 0067).
    """

    request_id: int
    follower: BrokerId
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    max_wait_ms: int
    partitions: tuple[FetchPartition, ...]
    changes: FetchChanges | None = None
    without_records: bool = False
    copies_after_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """One partition of a leader's response; batches are contiguous, ascending, CRC-checked.

    `AppendAsFollower` carries their records back, of record_bytes. A response with diverging has
    no batches.
    """

    tp: TopicPartition
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    batches: tuple[BatchSpan, ...] = ()
    records: RecordsHandle = NO_RECORDS
    record_bytes: int = 0
    diverging: EpochEndOffset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseReceived:
    """The response to the one outstanding fetch; partitions without news are absent."""

    request_id: int
    leader: BrokerId
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed:
    """The fetch did not come back: the stream broke or the leader stayed silent."""

    request_id: int
    leader: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponseReceived:
    """The controller's response, errors included, carries what is stored (ADR 0006).

    stored is None only when the transport failed or the controller knows no such partition.
    """

    request_id: int
    tp: TopicPartition
    error: ErrorCode
    stored: PartitionState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryLost:
    """The log directory failed; every replica on it is offline from now on."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time passed; sent at or after `Replicas.next_wakeup_ms`."""


ControlEvent = (
    AlterPartitionResponseReceived
    | LeaderAndIsrReceived
    | StopReplicaReceived
    | LiveBrokersChanged
    | StatePersisted
    | ReplicaLoaded
    | LogDirectoryLost
    | CopyIntakeChanged
)
"""Events that change roles, which followers count, or how fast copies come."""

LogEvent = DeleteRecordsReceived | RetentionReached | LogStartPersisted | LogFlushed
"""Events that move the start or the durable end of a log."""

Event = (
    FollowerFetchReceived
    | FetchResponseReceived
    | ProduceReceived
    | DelayedFetchReceived
    | Ticked
    | FetchFailed
    | RequestCancelled
    | LogEvent
    | ControlEvent
)
