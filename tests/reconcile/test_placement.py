"""Placement: Kafka's worked example, an even spread, and the same result when a topic grows."""

from __future__ import annotations

from collections import Counter

import pytest

from strandline.model import BrokerId, TopicId
from strandline_operator.placement import (
    TooFewBrokers,
    on_logs,
    place_partition,
    place_topic,
    resized,
)


def brokers(count: int) -> list[BrokerId]:
    return [BrokerId(number) for number in range(count)]


KAFKAS_EXAMPLE = [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1), (0, 2, 3), (1, 3, 4)]


@pytest.mark.parametrize(("partition", "expected"), list(enumerate(KAFKAS_EXAMPLE)))
def test_five_brokers_from_start_zero_give_kafkas_example(
    partition: int, expected: tuple[int, ...]
) -> None:
    placed = place_partition(partition, brokers=brokers(5), replication_factor=3, start=0, shift=0)
    assert placed == expected


def test_the_order_in_which_brokers_are_given_does_not_matter() -> None:
    placed = place_partition(5, brokers=brokers(5)[::-1], replication_factor=3, start=0, shift=0)
    assert placed == (0, 2, 3)


def test_start_moves_the_first_replica_and_shift_the_others() -> None:
    moved = place_partition(0, brokers=brokers(5), replication_factor=3, start=2, shift=1)
    assert moved == (2, 4, 0)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_replicas_are_distinct_and_leaders_balanced(count: int) -> None:
    for factor in range(1, count + 1):
        placed = place_topic(
            TopicId("6f1d"), range(3 * count), brokers=brokers(count), replication_factor=factor
        )
        assert all(len(set(replicas)) == factor for replicas in placed.values())
        leaders = Counter(replicas[0] for replicas in placed.values())
        assert set(leaders.values()) == {3}


def test_added_partitions_continue_and_a_lost_one_keeps_its_brokers() -> None:
    topic = TopicId("d3b07384-d9a0-4c9b-8f0a-000000000001")
    whole = place_topic(topic, range(20), brokers=brokers(5), replication_factor=3)
    added = place_topic(topic, range(6, 20), brokers=brokers(5), replication_factor=3)
    lost = place_topic(topic, [4], brokers=brokers(5), replication_factor=3)
    assert added == {number: whole[number] for number in range(6, 20)}
    assert lost == {4: whole[4]}


def test_topics_begin_at_different_brokers() -> None:
    firsts = {
        place_topic(TopicId(f"topic-{n}"), [0], brokers=brokers(3), replication_factor=1)[0]
        for n in range(30)
    }
    assert len(firsts) == 3


@pytest.mark.parametrize(("factor", "count"), [(4, 3), (1, 0), (0, 3), (-1, 3)])
def test_more_replicas_than_brokers_are_refused(factor: int, count: int) -> None:
    with pytest.raises(TooFewBrokers) as refused:
        place_topic(TopicId("t"), [0], brokers=brokers(count), replication_factor=factor)
    assert refused.value.brokers == count


@pytest.mark.parametrize(
    ("having", "expected"),
    [
        ([], (3, 0, 1)),
        ([1, 0, 3], (3, 0, 1)),
        ([4, 0], (0, 4, 3)),
        ([4, 2], (2, 4, 3)),
        ([1, 2, 4], (1, 2, 4)),
    ],
)
def test_a_partition_is_placed_where_its_logs_are(
    having: list[int], expected: tuple[int, ...]
) -> None:
    usual = {7: tuple(map(BrokerId, (3, 0, 1)))}
    assert on_logs(usual, {7: [*map(BrokerId, having)], 8: [BrokerId(9)]}) == {7: expected}


@pytest.mark.parametrize(
    ("current", "usual", "in_sync", "expected"),
    [
        ((0, 1), (0, 1, 2), (0, 1), (0, 1, 2)),
        ((4, 1), (0, 1, 2), (4, 1), (4, 1, 0)),
        ((3, 4), (0, 1, 2), (), (3, 4, 0)),
        ((0, 1, 2), (0, 1), (0, 1, 2), (0, 1)),
        ((0, 1, 2), (0, 1), (2, 0), (0, 2)),
        ((0, 1, 2), (0,), (2,), (2,)),
    ],
    ids=["grown", "grown elsewhere", "all elsewhere", "shrunk", "one behind", "one in sync"],
)
def test_a_resized_partition_keeps_its_replicas_and_first_those_in_sync(
    current: tuple[int, ...],
    usual: tuple[int, ...],
    in_sync: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    found = resized(ids(current), ids(usual), in_sync=ids(in_sync))
    assert found == ids(expected)


def ids(numbers: tuple[int, ...]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def test_a_topic_that_was_never_moved_stays_at_its_usual_place_when_it_is_resized() -> None:
    topic, five = TopicId("d3b07384-d9a0-4c9b-8f0a-000000000001"), brokers(5)
    placed = [
        place_topic(topic, range(20), brokers=five, replication_factor=n) for n in range(1, 6)
    ]
    for before in placed:
        for after in placed:
            for number in range(20):
                found = resized(before[number], after[number], in_sync=before[number])
                assert found == after[number]
