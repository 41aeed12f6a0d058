"""A request enters the purgatory once and leaves it once."""

from __future__ import annotations

import pytest

from strandline.core.fetch_session import FetchSession
from strandline.core.purgatory import (
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedFollowerFetch,
    DelayedOperation,
    DelayedProduce,
    Purgatory,
)
from strandline.errors import InvariantViolation
from strandline.model import BrokerEpoch, BrokerId

from .samples import OTHER_TP, TP, fetched


def append(request_id: int, required: int, deadline_ms: int = 100) -> DelayedProduce:
    return DelayedProduce(
        request_id=request_id,
        tp=TP,
        base_offset=required - 1,
        required_offset=required,
        deadline_ms=deadline_ms,
    )


def deletion(request_id: int, offset: int, deadline_ms: int = 100) -> DelayedDeleteRecords:
    return DelayedDeleteRecords(
        request_id=request_id, tp=TP, offset=offset, deadline_ms=deadline_ms
    )


def consumer(request_id: int, seen: int, deadline_ms: int = 100) -> DelayedFetch:
    return DelayedFetch(
        request_id=request_id, watches=((TP, seen), (OTHER_TP, 0)), deadline_ms=deadline_ms
    )


def follower(request_id: int, broker: int = 1, deadline_ms: int = 100) -> DelayedFollowerFetch:
    return DelayedFollowerFetch(
        request_id=request_id,
        follower=BrokerId(broker),
        broker_epoch=BrokerEpoch(1),
        session=FetchSession.begun_by(fetched(broker), 0),
        watched=frozenset({TP}),
        without_records=False,
        deadline_ms=deadline_ms,
    )


def full_of(*waiting: DelayedOperation, requests_max: int = 100) -> Purgatory:
    purgatory = Purgatory(requests_max=requests_max)
    for each in waiting:
        purgatory.add(each)
    return purgatory


def test_append_leaves_when_its_own_offset_is_committed() -> None:
    purgatory = full_of(append(1, 5), append(2, 7), append(3, 4))
    taken = purgatory.take_produce(TP, high_watermark=5, durable_end=9)
    assert [each.request_id for each in taken] == [1, 3]
    assert purgatory.take_produce(TP, high_watermark=5, durable_end=9) == []
    assert [each.request_id for each in purgatory.take_all_produce(TP)] == [2]


def test_request_leaves_once() -> None:
    waiting = consumer(1, seen=3)
    purgatory = full_of(waiting)
    assert purgatory.take_fetches(TP, high_watermark=3) == []
    assert purgatory.take_fetches(TP, high_watermark=4) == [waiting]
    assert purgatory.take_all_fetches(OTHER_TP) == []
    assert purgatory.expire(10_000) == []
    assert purgatory.next_deadline_ms is None


def test_expired_requests_come_by_deadline() -> None:
    purgatory = full_of(append(1, 5, 30), consumer(2, 0, 10), follower(3, deadline_ms=20))
    assert purgatory.next_deadline_ms == 10
    assert [each.request_id for each in purgatory.expire(20)] == [2, 3]
    assert purgatory.next_deadline_ms == 30


def test_followers_wait_for_partitions_and_one_at_a_time_each() -> None:
    purgatory = full_of(follower(1, broker=2), follower(2, broker=1))
    assert purgatory.waiting_follower(BrokerId(3)) is None
    assert purgatory.take_follower_fetches([OTHER_TP]) == []
    assert [each.request_id for each in purgatory.take_follower_fetches([TP])] == [2, 1]
    assert purgatory.waiting_follower(BrokerId(1)) is None


def test_second_fetch_of_a_follower_may_wait_only_after_the_first_left() -> None:
    first = follower(1)
    purgatory = full_of(first, follower(2, broker=2))
    with pytest.raises(InvariantViolation):
        purgatory.add(follower(3))
    assert purgatory.waiting_follower(BrokerId(1)) is first
    purgatory.take(first)
    purgatory.add(follower(3))
    assert [each.request_id for each in purgatory.expire(10_000)] == [2, 3]
    assert purgatory.sizes() == {"produce": 0, "delete_records": 0, "fetch": 0, "follower_fetch": 0}


def test_cancelled_request_is_gone_everywhere() -> None:
    purgatory = full_of(append(1, 5), consumer(2, 0), follower(3), deletion(5, 5))
    for request_id in (1, 2, 3, 4, 5):
        purgatory.cancel(request_id)
    assert purgatory.sizes() == {"produce": 0, "delete_records": 0, "fetch": 0, "follower_fetch": 0}
    assert purgatory.expire(10_000) == []


def test_bound_counts_clients_only() -> None:
    purgatory = full_of(follower(1), append(2, 1), requests_max=2)
    before = purgatory.is_full
    purgatory.add(consumer(3, 0))
    assert (before, purgatory.is_full) == (False, True)
    assert purgatory.sizes() == {"produce": 1, "delete_records": 0, "fetch": 1, "follower_fetch": 1}


def test_deadlines_of_completed_requests_do_not_pile_up() -> None:
    purgatory = Purgatory(requests_max=10)
    for request_id in range(1_000):
        waiting = append(request_id, 1)
        purgatory.add(waiting)
        purgatory.take(waiting)
    assert len(purgatory._deadlines) < 100
