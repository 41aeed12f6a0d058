"""What followers and consumers may read, and the order of the checks."""

from __future__ import annotations

import pytest

from strandline.core.effects import LogReadInfo
from strandline.core.partition import Partition
from strandline.core.reads import (
    ConsumerReads,
    find_leader,
    read_for_follower,
)
from strandline.errors import ErrorCode
from strandline.model import UNKNOWN_EPOCH_END, LeaderEpoch

from .samples import TP, context, end, entries, fetch, log, state


def leading(*, end_offset: int = 10, start: int = 2, hw: int = 6, le: int = 3) -> Partition:
    partition = Partition(
        log=log(end_offset, start=start, high_watermark=hw, epochs="1@2 2@5"), context=context(1, 2)
    )
    partition.on_committed_state(state(le=le, isr=entries(0, 1)), 0)
    return partition


@pytest.mark.parametrize(
    ("requested", "error"),
    [
        (None, None),
        (3, None),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_epoch_of_the_request_must_be_ours(requested: int | None, error: ErrorCode | None) -> None:
    found = find_leader(leading(), None if requested is None else LeaderEpoch(requested))
    assert (found if isinstance(found, ErrorCode) else None) is error


def test_broker_that_does_not_lead_refuses() -> None:
    partition = leading()
    assert find_leader(None, None) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.on_committed_state(state(leader=1, le=4, pe=1), 0)
    assert find_leader(partition, LeaderEpoch(4)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert find_leader(partition, LeaderEpoch(3)) is ErrorCode.FENCED_LEADER_EPOCH
    partition.fail("gone")
    assert find_leader(partition, None) is ErrorCode.KAFKA_STORAGE_ERROR
    idle = Partition(log=log(), context=context())
    assert find_leader(idle, LeaderEpoch(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("offset", "last", "error", "diverging"),
    [
        (6, 2, ErrorCode.NONE, False),
        (10, 2, ErrorCode.NONE, False),
        (2, -1, ErrorCode.NONE, False),
        (1, 1, ErrorCode.OFFSET_OUT_OF_RANGE, False),  # checked before divergence (KAFKA-12996)
        (11, 2, ErrorCode.NONE, True),
        (6, 1, ErrorCode.NONE, True),
        (6, 9, ErrorCode.OFFSET_OUT_OF_RANGE, False),
        (11, -1, ErrorCode.OFFSET_OUT_OF_RANGE, False),
    ],
)
def test_follower_reads_what_continues_its_history(
    offset: int, last: int, error: ErrorCode, *, diverging: bool
) -> None:
    leader = find_leader(leading(), None)
    assert not isinstance(leader, ErrorCode)
    read = read_for_follower(leader, fetch(offset, le=3, last=last))
    assert (read.error, read.diverging is not None) == (error, diverging)
    refused = error is not ErrorCode.NONE or diverging
    assert read.up_to_offset == (offset if refused else 10)


def reads_over(partition: Partition | None) -> ConsumerReads:
    return ConsumerReads({} if partition is None else {TP: partition})


def consumed(offset: int, *, le: int | None = None, last: int | None = None) -> LogReadInfo:
    return reads_over(leading()).read(
        TP,
        fetch_offset=offset,
        leader_epoch=None if le is None else LeaderEpoch(le),
        last_fetched_epoch=None if last is None else LeaderEpoch(last),
    )


@pytest.mark.parametrize(("offset", "up_to"), [(2, 6), (6, 6), (8, 8), (10, 10)])
def test_consumer_reads_below_the_high_watermark(offset: int, up_to: int) -> None:
    read = consumed(offset)
    assert (read.error, read.from_offset, read.up_to_offset) == (ErrorCode.NONE, offset, up_to)


def test_consumer_is_refused_like_a_follower() -> None:
    assert consumed(11, le=3).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert consumed(5, le=2).error is ErrorCode.FENCED_LEADER_EPOCH
    assert consumed(11, le=3, last=2).diverging == end(2, 10)


def test_latest_is_unknown_until_the_epoch_start_is_committed() -> None:
    partition = leading()
    assert reads_over(partition).list_offset(TP, -1, None)[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    partition.log.raise_high_watermark(10)
    assert reads_over(partition).list_offset(TP, -1, None) == (ErrorCode.NONE, 10, 3)


def test_earliest_is_the_log_start() -> None:
    assert reads_over(leading()).list_offset(TP, -2, None) == (ErrorCode.NONE, 2, 1)
    assert (
        reads_over(leading()).list_offset(TP, -2, LeaderEpoch(9))[0]
        is ErrorCode.UNKNOWN_LEADER_EPOCH
    )
    assert (
        reads_over(leading()).list_offset(TP, 0, None)[0]
        is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    )


def test_only_the_leader_returns_the_end_of_an_epoch() -> None:
    assert reads_over(leading()).end_offset_for_epoch(TP, LeaderEpoch(1), None) == (
        ErrorCode.NONE,
        end(1, 5),
    )
    assert reads_over(None).end_offset_for_epoch(TP, LeaderEpoch(1), None) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UNKNOWN_EPOCH_END,
    )


def test_a_consumer_of_a_partition_that_moved_away_is_to_look_for_its_leader() -> None:
    """The library librdkafka takes UNKNOWN_TOPIC_OR_PARTITION for final, and resets its offset."""
    gone = reads_over(None)
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert gone.list_offset(TP, -2, None)[0] is refused
    assert gone.visible_range(TP, LeaderEpoch(1)) is refused
