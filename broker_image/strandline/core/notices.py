"""What the core reports: facts, for logs, metrics and the output of tests.

A notice asks for nothing, and the core reports in no other way. Notices and commands travel in one
list, `Effect` of `effects`.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import BrokerId, IsrEntry, LeaderEpoch, PartitionEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameLeader:
    """This replica leads from leader_epoch on, starting at start_offset."""

    tp: TopicPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    start_offset: int
    isr: tuple[IsrEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameFollower:
    """This replica follows leader from leader_epoch on; NO_LEADER means it waits."""

    tp: TopicPartition
    topic_name: str
    leader: BrokerId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """The leader adopted a committed ISR: `isr_before` became `isr_after`."""

    tp: TopicPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr_before: tuple[BrokerId, ...]
    isr_after: tuple[BrokerId, ...]
    log_end_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposalRefused:
    """The controller did not accept a proposal, or another change overtook it."""

    tp: TopicPartition
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableEndAdvanced:
    """Records below durable_end count as written on the leader's own disk; reported by it only."""

    tp: TopicPartition
    durable_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    """Records below high_watermark are committed; reported by the leader only."""

    tp: TopicPartition
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartAdvanced:
    """A log begins at a later offset; reason is retention, delete_records or leader."""

    tp: TopicPartition
    topic_name: str
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LowWatermarkAdvanced:
    """The logs of all live replicas begin at or above low_watermark; the leader reports it."""

    tp: TopicPartition
    low_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """A replica removed records; below_high_watermark > 0 means that some were committed."""

    tp: TopicPartition
    topic_name: str
    leader_epoch: LeaderEpoch
    from_offset: int
    to_offset: int
    below_high_watermark: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """An epoch refused a request; `fence` is the metric label."""

    fence: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestExpired:
    """A waiting request reached its deadline; operation is one of `purgatory.Operation`."""

    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFailed:
    """A replica went offline; reason is a constant word or phrase."""

    tp: TopicPartition
    reason: str


_FENCES = {
    ErrorCode.STALE_BROKER_EPOCH: "broker_epoch",
    ErrorCode.STALE_CONTROLLER_EPOCH: "controller_epoch",
    ErrorCode.FENCED_LEADER_EPOCH: "leader_epoch",
}


def fenced(error: ErrorCode, request: str) -> list[Fenced]:
    """Return the notice of a refusal by an epoch, none for another error."""
    return [Fenced(fence=_FENCES[error], detail=request)] if error in _FENCES else []


Notice = (
    BecameLeader
    | BecameFollower
    | IsrChanged
    | IsrProposalRefused
    | DurableEndAdvanced
    | HighWatermarkAdvanced
    | LogStartAdvanced
    | LowWatermarkAdvanced
    | Truncated
    | Fenced
    | RequestExpired
    | ReplicaFailed
)
