"""The plan that evens out replicas and preferred leaders, from any assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.model import BrokerId, TopicId
from strandline_operator.placement import Assigned, Replicas
from strandline_operator.rebalance import even_moves

from .test_balance import applied, held

BROKERS_MAX = 7
PARTITIONS_MAX = 24
Spread = tuple[list[Assigned], list[BrokerId]]


def ids(count: int) -> list[BrokerId]:
    return [BrokerId(each) for each in range(count)]


@st.composite
def spreads(draw: st.DrawFn, *, one_factor: bool = False) -> Spread:
    """Draw any replicas of partitions on brokers, some of which may have none."""
    brokers = ids(draw(st.integers(1, BROKERS_MAX)))
    factor = draw(st.integers(1, len(brokers)))
    fewest = factor if one_factor else 1
    replicas = st.lists(st.sampled_from(brokers), min_size=fewest, max_size=factor, unique=True)
    drawn = draw(st.lists(st.tuples(st.sampled_from("ab"), replicas), max_size=PARTITIONS_MAX))
    return [
        Assigned(topic_id=TopicId(topic), partition=number, replicas=tuple(each))
        for number, (topic, each) in enumerate(drawn)
    ], brokers


def evened(
    assigned: list[Assigned],
    brokers: Collection[BrokerId],
    *,
    fit: Collection[BrokerId] | None = None,
    movable: Collection[Assigned] | None = None,
    racks: Mapping[BrokerId, str] | None = None,
) -> dict[Assigned, Replicas]:
    return even_moves(
        assigned,
        movable=assigned if movable is None else movable,
        brokers=brokers,
        fit=brokers if fit is None else fit,
        racks=racks or {},
    )


def differ(counts: Mapping[BrokerId, int], brokers: Collection[BrokerId]) -> int:
    having = [counts.get(each, 0) for each in brokers]
    return max(having) - min(having)


def firsts(assigned: list[Assigned]) -> Counter[BrokerId]:
    return Counter(each.replicas[0] for each in assigned)


def moved(before: list[Assigned], after: list[Assigned]) -> int:
    return sum(
        len(set(now.replicas) - set(was.replicas)) for was, now in zip(before, after, strict=True)
    )


@settings(deadline=None)
@given(spreads())
def test_brokers_end_even_by_as_few_moves_as_there_are_replicas_too_many(spread: Spread) -> None:
    before, brokers = spread
    moves = evened(before, brokers)
    after = applied(before, moves)
    for was, now in zip(before, after, strict=True):
        assert len(set(now.replicas)) == len(was.replicas)
        assert set(now.replicas) <= set(brokers)
    assert all(each.replicas != replicas for each, replicas in moves.items()), "a move moves"
    assert differ(held(after), brokers) <= 1
    share, more = divmod(sum(held(before).values()), len(brokers))
    most = sorted((held(before)[each] for each in brokers), reverse=True)
    targets = [share + (place < more) for place in range(len(brokers))]
    surplus = sum(max(0, has - target) for has, target in zip(most, targets, strict=True))
    assert moved(before, after) == surplus
    assert evened(after, brokers) == {}, "the second plan is empty"


@settings(deadline=None)
@given(spreads(one_factor=True))
def test_preferred_leaders_end_even_where_partitions_have_as_many_replicas(spread: Spread) -> None:
    before, brokers = spread
    after = applied(before, evened(before, brokers))
    assert differ(firsts(after), brokers) <= 1


@settings(deadline=None)
@given(spreads(), st.data())
def test_who_is_not_fit_takes_nothing_and_what_may_not_move_stays(
    spread: Spread, data: st.DataObject
) -> None:
    before, brokers = spread
    fit = data.draw(st.lists(st.sampled_from(brokers), unique=True))
    movable = data.draw(st.lists(st.sampled_from(before), unique=True)) if before else []
    moves = evened(before, brokers, fit=fit, movable=movable)
    assert moves.keys() <= set(movable)
    after = applied(before, moves)
    for each in set(brokers) - set(fit):
        assert held(after)[each] <= held(before)[each]
        assert firsts(after)[each] <= max(firsts(before)[each], held(after)[each])
    for was, now in zip(before, after, strict=True):
        assert len(set(now.replicas)) == len(was.replicas)
        assert set(now.replicas) - set(was.replicas) <= set(fit)
    if len(movable) == len(before):
        assert not fit or differ(held(after), fit) <= 1


@settings(deadline=None)
@given(spreads(), st.data())
def test_replicas_go_to_as_many_racks_as_they_can_and_the_second_plan_is_empty(
    spread: Spread, data: st.DataObject
) -> None:
    before, brokers = spread
    racks = {each: data.draw(st.sampled_from(["", "a", "b", "c"])) for each in brokers}
    after = applied(before, evened(before, brokers, racks=racks))
    for was, now in zip(before, after, strict=True):
        assert len(set(now.replicas)) == len(was.replicas)
        assert _repeated(now.replicas, racks) <= _repeated(was.replicas, racks)
        assert not _could_be_apart(now.replicas, racks)
    if not any(_could_be_apart(each.replicas, racks) for each in before):
        assert differ(held(after), brokers) <= max(1, differ(held(before), brokers))
    assert evened(after, brokers, racks=racks) == {}


def _could_be_apart(replicas: Replicas, racks: Mapping[BrokerId, str]) -> bool:
    """Tell whether replicas share a rack although some rack has none of them."""
    there = {racks[each] for each in replicas}
    free = {racks[each] for each in racks if each not in replicas}
    return bool(_repeated(replicas, racks) and free - there - {""})


def test_replicas_that_share_a_rack_are_moved_apart_and_no_others() -> None:
    racks = dict(zip(map(BrokerId, range(4)), "aabc", strict=True))
    before = [
        Assigned(topic_id=TopicId("t"), partition=number, replicas=tuple(map(BrokerId, replicas)))
        for number, replicas in enumerate([(0, 1, 2), (0, 2, 3), (1, 2, 3), (0, 1, 3)])
    ]
    moves = evened(before, list(racks), racks=racks)
    assert [set(moves.get(each, each.replicas)) for each in before] == [
        {1, 2, 3},
        {0, 2, 3},
        {1, 2, 3},
        {0, 2, 3},
    ]
    assert moved(before, applied(before, evened(before, list(racks)))) == 0, "numbers are even"


def _repeated(replicas: Replicas, racks: Mapping[BrokerId, str]) -> int:
    there = Counter(racks[each] for each in replicas if racks[each])
    return sum(count - 1 for count in there.values())


def test_a_new_broker_gets_its_share_and_topics_stay_spread() -> None:
    before = [
        Assigned(topic_id=TopicId(topic), partition=number, replicas=tuple(ids(3)))
        for topic in "ab"
        for number in range(4)
    ]
    after = applied(before, evened(before, ids(4)))
    assert held(after) == Counter(dict.fromkeys(ids(4), 6))
    assert firsts(after) == Counter(dict.fromkeys(ids(4), 2))
    of_new = Counter(each.topic_id for each in after if BrokerId(3) in each.replicas)
    assert set(of_new.values()) == {3}
