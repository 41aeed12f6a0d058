"""Placement: Kafka's worked example, an even spread, and the same result when a topic grows."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.model import BrokerId, TopicId
from strandline_operator.placement import (
    Assigned,
    Takers,
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


KAFKAS_RACKS = dict(zip(brokers(6), ["r1", "r3", "r3", "r2", "r2", "r1"], strict=True))
KAFKAS_PLACES = [(0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2)]


@pytest.mark.parametrize(("partition", "expected"), list(enumerate(KAFKAS_PLACES)))
def test_six_brokers_in_three_racks_give_kafkas_example(
    partition: int, expected: tuple[int, ...]
) -> None:
    placed = place_partition(
        partition,
        brokers=brokers(6),
        replication_factor=3,
        start=0,
        shift=0,
        racks=KAFKAS_RACKS,
    )
    assert placed == expected


@st.composite
def topics(draw: st.DrawFn) -> tuple[TopicId, list[BrokerId], int]:
    """Draw a topic, brokers with gaps between their ids, and a number of replicas that fits."""
    everyone = draw(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True))
    factor = draw(st.integers(1, len(everyone)))
    return TopicId(draw(st.text(max_size=8))), [BrokerId(each) for each in everyone], factor


def _as_before_racks(
    partition: int, everyone: list[BrokerId], factor: int, start: int, shift: int
) -> tuple[BrokerId, ...]:
    """Return what Kafka's rule without racks says, as it was written before there were any."""
    ordered = sorted(everyone)
    count = len(ordered)
    first = (partition + start) % count
    steps = [1 + (shift + partition // count + each) % (count - 1) for each in range(factor - 1)]
    return (ordered[first], *(ordered[(first + step) % count] for step in steps))


@given(topics(), st.data())
def test_racks_that_are_not_known_of_every_broker_change_nothing(
    topic: tuple[TopicId, list[BrokerId], int], data: st.DataObject
) -> None:
    topic_id, everyone, factor = topic
    some = st.dictionaries(st.sampled_from(everyone), st.sampled_from(["", "a", "b"]))
    racks = data.draw(some)
    racks[data.draw(st.sampled_from(everyone))] = ""
    seed, count = zlib.crc32(topic_id.encode()), len(everyone)
    for found in (racks, {}, dict.fromkeys(everyone, "the only one")):
        placed = place_topic(
            topic_id, range(30), brokers=everyone, replication_factor=factor, racks=found
        )
        assert placed == {
            each: _as_before_racks(each, everyone, factor, seed % count, seed // count % count)
            for each in range(30)
        }


@given(topics(), st.data())
def test_replicas_lie_in_as_many_racks_as_there_are_and_leaders_stay_even(
    topic: tuple[TopicId, list[BrokerId], int], data: st.DataObject
) -> None:
    topic_id, everyone, factor = topic
    racks = {each: data.draw(st.sampled_from("abcd")) for each in everyone}
    rounds = 3 * len(everyone)
    placed = place_topic(
        topic_id, range(rounds), brokers=everyone, replication_factor=factor, racks=racks
    )
    again = place_topic(
        topic_id, range(rounds), brokers=everyone[::-1], replication_factor=factor, racks=racks
    )
    assert placed == again
    sizes = Counter(racks.values())
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        inside = Counter(racks[each] for each in replicas)
        assert len(inside) == min(factor, len(sizes))
        # No rack has two more than another that has a broker left.
        for rack, size in sizes.items():
            assert inside[rack] == size or max(inside.values()) <= inside[rack] + 1
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert leaders == dict.fromkeys(everyone, 3)


@pytest.mark.parametrize(("count", "factor"), [(3, 2), (3, 3), (6, 2), (6, 3), (9, 3), (12, 5)])
def test_brokers_of_racks_of_one_size_hold_about_as_many_replicas(count: int, factor: int) -> None:
    racks = {each: "abc"[each * 3 // count] for each in brokers(count)}
    placed = place_topic(
        TopicId("6f1d"),
        range(count * (count - 1)),
        brokers=brokers(count),
        replication_factor=factor,
        racks=racks,
    )
    held = Counter(each for replicas in placed.values() for each in replicas)
    fair = (count - 1) * factor
    assert max(held.values()) - min(held.values()) <= fair // 4, held


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


RACKS = dict(zip(brokers(6), "aabbcc", strict=True))


@pytest.mark.parametrize(
    ("current", "usual", "in_sync", "expected"),
    [
        ((0, 1), (0, 1, 2), (0, 1), (0, 1, 2)),
        ((0, 2), (0, 2, 4), (0, 2), (0, 2, 4)),
        ((1,), (0, 2, 4), (1,), (1, 2, 4)),
        ((1, 3), (0, 2, 4), (1, 3), (1, 3, 4)),
        ((0, 1, 2), (0, 2), (0, 1, 2), (0, 2)),
        ((0, 1, 2, 3, 4), (0, 2, 4), (0, 1, 2, 3, 4), (0, 2, 4)),
        ((0, 1, 2), (0, 2), (0, 1), (0, 1)),
        ((0, 1, 2, 4), (0, 2), (1, 4), (1, 4)),
        ((0, 2, 3, 4), (0, 2, 4), (2,), (0, 2, 4)),
    ],
)
def test_a_resized_partition_is_in_as_many_racks_as_replicas_in_sync_allow(
    current: tuple[int, ...],
    usual: tuple[int, ...],
    in_sync: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    found = resized(ids(current), ids(usual), in_sync=ids(in_sync), racks=RACKS)
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


# --- a broker that is to hold nothing -----------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Assigned], list[BrokerId], dict[BrokerId, str]]:
    """Partitions on any brokers, brokers, and racks of some; replicas always fit without one."""
    count = draw(st.integers(3, 7))
    everyone = brokers(count)
    replicas = st.lists(st.sampled_from(everyone), min_size=1, max_size=count - 1, unique=True)
    placed = draw(st.lists(replicas, max_size=30))
    assigned = [
        Assigned(topic_id=TopicId(f"topic-{n % 3}"), partition=n, replicas=tuple(each))
        for n, each in enumerate(placed)
    ]
    racks = draw(st.dictionaries(st.sampled_from(everyone), st.sampled_from(["a", "b", "c"])))
    return assigned, everyone, racks


@given(clusters())
def test_a_broker_is_left_by_one_replica_of_each_partition_and_nothing_else_moves(
    cluster: tuple[list[Assigned], list[BrokerId], dict[BrokerId, str]],
) -> None:
    assigned, everyone, racks = cluster
    away = everyone[-1]
    leaving = [each for each in assigned if away in each.replicas]
    takers = Takers(assigned, away=away, brokers=everyone, fit=everyone, racks=racks)
    options = {each: takers.options(each) for each in leaving}
    moved = takers.choose(leaving)
    assert moved.keys() == set(leaving)
    taken: dict[Assigned, BrokerId] = {}
    for each, after in moved.items():
        assert len(set(after)) == len(each.replicas), "no broker has two"
        (place,) = [n for n, one in enumerate(after) if one != each.replicas[n]]
        assert each.replicas[place] == away
        taken[each] = after[place]
        assert taken[each] in options[each]
    held = Counter(
        one for each in assigned for one in moved.get(each, each.replicas) if one != away
    )

    def repeats(each: Assigned, taker: BrokerId) -> bool:
        return taker in racks and racks[taker] in {
            racks[one] for one in each.replicas if one != away and one in racks
        }

    for each, taker in taken.items():
        for other in options[each]:
            assert repeats(each, other) >= repeats(each, taker), "another rack comes first"
            if repeats(each, other) == repeats(each, taker):
                assert held[other] + 1 >= held[taker], "no single change spreads it better"


def test_leaders_stay_spread_and_brokers_that_are_not_fit_take_nothing() -> None:
    topic = TopicId("d3b07384-d9a0-4c9b-8f0a-000000000001")
    placed = place_topic(topic, range(60), brokers=brokers(6), replication_factor=3)
    assigned = [
        Assigned(topic_id=topic, partition=number, replicas=replicas)
        for number, replicas in placed.items()
    ]
    leaving = [each for each in assigned if 5 in each.replicas]

    def moved(*fit: int) -> list[tuple[BrokerId, ...]]:
        takers = Takers(
            assigned,
            away=BrokerId(5),
            brokers=brokers(6),
            fit=[BrokerId(one) for one in fit],
            racks={},
        )
        after = takers.choose(leaving)
        return [after.get(each, each.replicas) for each in assigned]

    spread = Counter(one for replicas in moved(0, 1, 2, 3, 4, 5) for one in replicas)
    assert spread == dict.fromkeys(range(5), 36)
    firsts = Counter(replicas[0] for replicas in moved(0, 1, 2, 3, 4))
    assert firsts == dict.fromkeys(range(5), 12)
    before = sum(4 in each.replicas for each in assigned)
    assert sum(4 in replicas for replicas in moved(0, 1, 2, 3)) == before


def test_the_only_broker_has_nobody_to_give_its_replicas_to() -> None:
    alone = Assigned(topic_id=TopicId("6f1d"), partition=0, replicas=(BrokerId(0),))
    takers = Takers([alone], away=BrokerId(0), brokers=brokers(1), fit=brokers(1), racks={})
    assert takers.options(alone) == []
    assert takers.choose([]) == {}
