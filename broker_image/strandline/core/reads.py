"""What may be read from a leader: by followers up to the log end, by consumers below the HW.

Nothing here changes a partition: a response that was read again after a wait must not look like a
second fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    UNKNOWN_EPOCH_END,
    EpochEndOffset,
    LeaderEpoch,
    TopicPartition,
)

from .effects import LogReadInfo
from .fetch_changes import FetchPartition
from .leader import LeaderReplica
from .local_log import LocalLog
from .partition import Failed, Partition
from .truncation import diverging_epoch


def find_leader(
    partition: Partition | None, leader_epoch: LeaderEpoch | None
) -> LeaderReplica | ErrorCode:
    """Return the leading replica, or the error of a request that it cannot serve.

    The epoch is compared before the role: a requester with an older view must learn that
    first, one with a newer view must try again later (KIP-320).
    A partition without a replica here may well exist: NOT_LEADER_OR_FOLLOWER makes a client look
    for its leader, where librdkafka's ListOffsets takes UNKNOWN_TOPIC_OR_PARTITION for final.

    Source: Kafka ReplicaManager.getPartitionOrError
    """
    if partition is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    role = partition.role
    # The common case first: a requester with our own view.
    if isinstance(role, LeaderReplica) and (
        leader_epoch is None or leader_epoch == role.leader_epoch
    ):
        return role
    if isinstance(role, Failed):
        return ErrorCode.KAFKA_STORAGE_ERROR
    state = partition.state
    if state is not None and leader_epoch is not None:
        if leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > state.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return role if isinstance(role, LeaderReplica) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def read_for_follower(leader: LeaderReplica, fetch: FetchPartition) -> LogReadInfo:
    """Return what a follower may read: all records behind its end, or the refusal."""
    return _read(
        leader, fetch.fetch_offset, fetch.last_fetched_epoch, up_to_offset=leader.log.log_end_offset
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleRange:
    """What consumers may see of a log: the offsets in [log_start_offset, high_watermark).

    end_is_unknown: a new leader does not know yet which records behind it are committed.
    """

    log_start_offset: int
    high_watermark: int
    end_is_unknown: bool


class ConsumerReads:
    """What consumers may ask of the replicas of this broker."""

    def __init__(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        self._partitions = partitions

    def read(
        self,
        tp: TopicPartition,
        *,
        fetch_offset: int,
        leader_epoch: LeaderEpoch | None,
        last_fetched_epoch: LeaderEpoch | None,
    ) -> LogReadInfo:
        """Return what a consumer may read: never a record at or above the high watermark.

        Shape:   an epoch is None if the consumer sent none
        Returns: an empty range if the offset is not below the high watermark: the consumer waits
        """
        leader = find_leader(self._partitions.get(tp), leader_epoch)
        if isinstance(leader, ErrorCode):
            return refused(tp, fetch_offset, leader)
        epoch = NO_EPOCH if last_fetched_epoch is None else last_fetched_epoch
        return _read(leader, fetch_offset, epoch, up_to_offset=leader.log.high_watermark)

    def end_offset_for_epoch(
        self, tp: TopicPartition, asked: LeaderEpoch, leader_epoch: LeaderEpoch | None
    ) -> tuple[ErrorCode, EpochEndOffset]:
        """Return where the greatest epoch not above `asked` ends (KIP-101, KIP-320)."""
        leader = find_leader(self._partitions.get(tp), leader_epoch)
        if isinstance(leader, ErrorCode):
            return leader, UNKNOWN_EPOCH_END
        return ErrorCode.NONE, leader.log.epochs.end_offset_for(asked, leader.log.log_end_offset)

    def visible_range(
        self, tp: TopicPartition, leader_epoch: LeaderEpoch | None
    ) -> VisibleRange | ErrorCode:
        """Return the range in which a search by time may look, or the refusal."""
        leader = find_leader(self._partitions.get(tp), leader_epoch)
        if isinstance(leader, ErrorCode):
            return leader
        return VisibleRange(
            log_start_offset=leader.log.log_start_offset,
            high_watermark=leader.log.high_watermark,
            end_is_unknown=leader.end_is_unknown,
        )

    def list_offset(
        self, tp: TopicPartition, timestamp: int, leader_epoch: LeaderEpoch | None
    ) -> tuple[ErrorCode, int, LeaderEpoch]:
        """Return the earliest offset, or the latest that consumers may see, and its epoch.

        The latest offset never goes back: until a new leader's high watermark has reached the start
        of its epoch, the leader does not know the committed end.

        Returns: UNSUPPORTED_FOR_MESSAGE_FORMAT for any other timestamp
        """
        leader = find_leader(self._partitions.get(tp), leader_epoch)
        if isinstance(leader, ErrorCode):
            return leader, -1, NO_EPOCH
        if timestamp == EARLIEST_TIMESTAMP:
            entries = leader.log.epochs.entries
            first = entries[0].leader_epoch if entries else NO_EPOCH
            return ErrorCode.NONE, leader.log.log_start_offset, first
        if timestamp != LATEST_TIMESTAMP:
            return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1, NO_EPOCH
        if leader.end_is_unknown:
            return ErrorCode.OFFSET_NOT_AVAILABLE, -1, NO_EPOCH
        return ErrorCode.NONE, leader.log.high_watermark, leader.leader_epoch


def _read(
    leader: LeaderReplica, fetch_offset: int, last_fetched_epoch: LeaderEpoch, *, up_to_offset: int
) -> LogReadInfo:
    """Return the records of a range if its offset continues our history, or the refusal.

    Source:  Kafka 3.9 Partition.readRecords; below the start before divergence (KAFKA-12996)
    """
    log = leader.log
    # The common case first: in our newest epoch, within our log, nothing can diverge.
    continues = (
        last_fetched_epoch == log.epochs.newest != NO_EPOCH
        and log.log_start_offset <= fetch_offset <= log.log_end_offset
    )
    objection = ErrorCode.NONE if continues else _objection(log, fetch_offset, last_fetched_epoch)
    if isinstance(objection, EpochEndOffset):
        return refused(log.tp, fetch_offset, ErrorCode.NONE, leader, diverging=objection)
    if objection is not ErrorCode.NONE:
        return refused(log.tp, fetch_offset, objection, leader)
    return LogReadInfo(
        tp=log.tp,
        error=ErrorCode.NONE,
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
        from_offset=fetch_offset,
        up_to_offset=max(fetch_offset, up_to_offset),
    )


def _objection(
    log: LocalLog, fetch_offset: int, last_fetched_epoch: LeaderEpoch
) -> ErrorCode | EpochEndOffset:
    """Return why a fetch does not continue our history, or where it diverges; NONE if it does."""
    if fetch_offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if last_fetched_epoch != NO_EPOCH:
        diverging = diverging_epoch(
            log.epochs,
            log_end_offset=log.log_end_offset,
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
        )
        if diverging == UNKNOWN_EPOCH_END:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if diverging is not None:
            return diverging
    if fetch_offset <= log.log_end_offset:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_OUT_OF_RANGE


def refused(
    tp: TopicPartition,
    fetch_offset: int,
    error: ErrorCode,
    leader: LeaderReplica | None = None,
    *,
    diverging: EpochEndOffset | None = None,
) -> LogReadInfo:
    """Return a read without records; a leader still sends its high watermark and start."""
    return LogReadInfo(
        tp=tp,
        error=error,
        high_watermark=-1 if leader is None else leader.log.high_watermark,
        log_start_offset=-1 if leader is None else leader.log.log_start_offset,
        from_offset=fetch_offset,
        up_to_offset=fetch_offset,
        diverging=diverging,
    )
