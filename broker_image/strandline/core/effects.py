"""What the core wants done, and what it tells.

Commands must be performed in list order; whatever must be on disk stands before the
message that tells of it. If a command on the log fails, the rest of the list is dropped
and `LogDirectoryLost` follows. Notices are facts: logs, metrics and scenario output are
views of them. Every command is complete in itself: the performer decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    BrokerId,
    ControllerEpoch,
    EpochEndOffset,
    EpochStart,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    TopicSettings,
)

from .events import FetchPartition
from .notices import (
    BecameFollower,
    BecameLeader,
    Fenced,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposalRefused,
    Notice,
    ReplicaFailed,
    RequestExpired,
    Truncated,
)

__all__ = [
    "AnswerLeaderAndIsr",
    "AnswerStopReplica",
    "AppendAsFollower",
    "AppendAsLeader",
    "BecameFollower",
    "BecameLeader",
    "Command",
    "CreateReplica",
    "DeleteReplica",
    "Effect",
    "Fenced",
    "HighWatermarkAdvanced",
    "IsrChanged",
    "IsrProposalRefused",
    "Notice",
    "PersistState",
    "PersistedPartition",
    "ProposeIsr",
    "ReadPartition",
    "ReplicaFailed",
    "ReplyFetch",
    "ReplyProduce",
    "RequestExpired",
    "RestartLogAt",
    "SendFetch",
    "TruncateTo",
    "Truncated",
    "WakeFetch",
    "WriteEpochCheckpoint",
    "WriteHighWatermarkCheckpoint",
]


# --- commands on the disk ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReplica:
    """Make the folder of a replica that is new to this broker, or apply changed settings."""

    tp: TopicPartition
    topic_name: str
    settings: TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistedPartition:
    """What the state file keeps of one partition (ADR 0007)."""

    tp: TopicPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistState:
    """Write epochs to the state file and fsync it off the loop; then `StatePersisted(token)`."""

    token: int
    controller_epoch: ControllerEpoch
    partitions: tuple[PersistedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAsLeader:
    """Append the payload of (request_id, tp); base_offset and leader_epoch are to be stamped.

    Both lie outside the CRC. The core counts the records as written from now on.
    """

    request_id: int
    tp: TopicPartition
    base_offset: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAsFollower:
    """Append the first batch_count fetched batches of (request_id, tp) as they are.

    Their first offset is the log end offset.
    """

    request_id: int
    tp: TopicPartition
    batch_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Keep offsets below `offset`, the end of a batch; epochs follow in their own command."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLogAt:
    """Drop everything and start at `offset`: the leader no longer keeps what this log ends with."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEpochCheckpoint:
    """Replace the leader epoch checkpoint; written behind: batches carry epochs (ADR 0011)."""

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
    """Answer one partition of a produce request; offsets are -1 on error."""

    request_id: int
    tp: TopicPartition
    error: ErrorCode
    base_offset: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeFetch:
    """A waiting consumer fetch has something to see, or its time is over: read and answer."""

    request_id: int
    expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPartition:
    """One partition of an answer to a follower: read [from_offset, up_to_offset) without error.

    from_offset == up_to_offset means: no records, but the high watermark is news.
    """

    tp: TopicPartition
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    from_offset: int
    up_to_offset: int
    diverging: EpochEndOffset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFetch:
    """Answer a follower; partitions without news are left out, at the deadline none is.

    The performer may read less of a partition than its range, in the order given.
    """

    request_id: int
    follower: BrokerId
    partitions: tuple[ReadPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFetch:
    """Fetch from a leader; a later one to the same leader supersedes it.

    The leader ends a superseded fetch at once, and its answer is dropped by its request id.
    """

    request_id: int
    leader: BrokerId
    max_wait_ms: int
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Ask the controller for another ISR (AlterPartition); entries carry broker epochs."""

    request_id: int
    tp: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLeaderAndIsr:
    """Tell the controller what became of its command, per partition."""

    request_id: int
    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStopReplica:
    """Tell the controller that these logs are gone, or why not."""

    request_id: int
    error: ErrorCode
    partitions: tuple[tuple[TopicPartition, ErrorCode], ...]


Command = (
    CreateReplica
    | PersistState
    | AppendAsLeader
    | AppendAsFollower
    | TruncateTo
    | RestartLogAt
    | WriteEpochCheckpoint
    | WriteHighWatermarkCheckpoint
    | DeleteReplica
    | ReplyProduce
    | WakeFetch
    | ReplyFetch
    | SendFetch
    | ProposeIsr
    | AnswerLeaderAndIsr
    | AnswerStopReplica
)
Effect = Command | Notice
