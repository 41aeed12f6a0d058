"""What the core wants done: commands; `Effect` joins them with the core's notices.

A shell performs commands in list order; a write stands before the message that reports it. If a
command on the log fails, the shell drops the rest of the list and submits `LogDirectoryLost`.
Every command is complete in itself: the shell decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    NO_TERM,
    BrokerId,
    ControllerEpoch,
    EpochEndOffset,
    EpochStart,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    TopicPartition,
    TopicSettings,
)

from .events import RecordsHandle
from .fetch_changes import FetchChanges, FetchPartition
from .notices import Notice

# --- commands on the disk ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReplica:
    """Make the folder of a replica that is new to this broker, or apply changed settings.

    With `flush.messages` 1, `LogFlushed` follows for what the log holds.
    """

    tp: TopicPartition
    topic_name: str
    settings: TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedPartition:
    """The newest state of a partition that this broker accepted, for the state file (ADR 0007)."""

    topic_name: str
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]
    term: LeaderTerm = NO_TERM


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistState:
    """Write epochs to the state file and fsync it off the loop; then `StatePersisted(token)`."""

    token: int
    controller_epoch: ControllerEpoch
    partitions: tuple[tuple[TopicPartition, PersistedPartition], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAsLeader:
    """Append a produced batch; the shell stamps base_offset and leader_epoch, outside the CRC.

    The records count as written from now on, with `flush.messages` 1 from `LogFlushed` on.
    """

    request_id: int
    tp: TopicPartition
    records: RecordsHandle
    base_offset: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAsFollower:
    """Append the first batch_count of the fetched batches as they are, at the log end offset."""

    tp: TopicPartition
    records: RecordsHandle
    batch_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Keep offsets below `offset`, the end of a batch; epochs follow in their own command."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLogAt:
    """Drop all records and start at `offset`: the leader has none of them."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistLogStart:
    """Begin a log at a later offset, and fsync the checkpoint that says so; no record goes yet.

    The file is written off the loop; then `LogStartPersisted`.
    """

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSegmentsBelow:
    """Delete the sealed segments that end at or below an offset, which the checkpoint holds."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEpochCheckpoint:
    """Replace the leader epoch checkpoint; it may lag: batches carry epochs (ADR 0011)."""

    tp: TopicPartition
    epochs: tuple[EpochStart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteHighWatermarkCheckpoint:
    """Replace the high watermark checkpoint of the log directory: (partition, offset) ascending."""

    high_watermarks: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReplica:
    """Delete a replica and its entry in the state file."""

    tp: TopicPartition


# --- commands on the network ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyProduce:
    """Respond to one partition of a produce request; offsets are -1 on error."""

    request_id: int
    tp: TopicPartition
    error: ErrorCode
    base_offset: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDeleteRecords:
    """Respond to a deletion; low_watermark is the least log start of the live replicas."""

    request_id: int
    tp: TopicPartition
    error: ErrorCode
    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteFetch:
    """End the wait of a consumer's fetch: there is something to read, or its time is over."""

    request_id: int
    expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReadInfo:
    """What may be read of one partition: [from_offset, up_to_offset), or an error.

    from_offset == up_to_offset means: no records, but the high watermark is news.
    is_copy: for a replica that is being added and that no commit waits for.
    """

    tp: TopicPartition
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    from_offset: int
    up_to_offset: int
    diverging: EpochEndOffset | None = None
    is_copy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFetch:
    """Respond to a follower; partitions without news are left out.

    The shell reads the partitions in this order, and may read less than a range, of a copy nothing.
    """

    request_id: int
    follower: BrokerId
    partitions: tuple[LogReadInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFetch:
    """Fetch from a leader; a later fetch from the same leader supersedes this one.

    The leader ends a superseded fetch at once; the follower drops its response by the request id.
    changes is what the fetch before it lacked, None if the core does not know.
    """

    request_id: int
    leader: BrokerId
    max_wait_ms: int
    partitions: tuple[FetchPartition, ...]
    changes: FetchChanges | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Propose another ISR to the controller (AlterPartition); entries carry broker epochs."""

    request_id: int
    tp: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLeaderAndIsr:
    """Respond to the controller's LeaderAndIsr, per partition."""

    request_id: int
    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyStopReplica:
    """Respond to the controller's StopReplica, per partition: NONE for a log that is gone."""

    request_id: int
    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]


Effect = (
    CreateReplica
    | PersistState
    | AppendAsLeader
    | AppendAsFollower
    | TruncateTo
    | RestartLogAt
    | PersistLogStart
    | DeleteSegmentsBelow
    | WriteEpochCheckpoint
    | WriteHighWatermarkCheckpoint
    | DeleteReplica
    | ReplyProduce
    | ReplyDeleteRecords
    | CompleteFetch
    | ReplyFetch
    | SendFetch
    | ProposeIsr
    | ReplyLeaderAndIsr
    | ReplyStopReplica
    | Notice
)
