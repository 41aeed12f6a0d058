"""Scales of brokers from any assignment: moves to new brokers, and whole scales step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.model import BrokerId, StoredPartition, TopicId
from strandline_operator.balance import moves_to_new
from strandline_operator.observed import DesiredCluster, ObservedCluster
from strandline_operator.placement import Assigned, Replicas, repeats_rack
from strandline_operator.scaling import scaling_step

from .test_scaling import PARTITIONS, whole

BROKERS_MAX = 6
PARTITIONS_MAX = 24
SCALES_MAX = 50
"""Examples of whole scales, each of up to a hundred steps."""


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Assigned], list[BrokerId], list[BrokerId]]:
    """Draw any replicas of partitions, the brokers that there are, and those of them that are new.

    New brokers may have replicas already: some moves were made, or people made some.
    """
    brokers = [BrokerId(each) for each in range(draw(st.integers(2, BROKERS_MAX)))]
    old = draw(st.integers(1, len(brokers) - 1))
    replicas = st.lists(st.sampled_from(brokers), min_size=1, max_size=4, unique=True)
    drawn = draw(st.lists(st.tuples(st.sampled_from("ab"), replicas), max_size=PARTITIONS_MAX))
    assigned = [
        Assigned(topic_id=TopicId(topic), partition=number, replicas=tuple(each))
        for number, (topic, each) in enumerate(drawn)
    ]
    return assigned, brokers, brokers[old:]


def applied(assigned: list[Assigned], moves: Mapping[Assigned, Replicas]) -> list[Assigned]:
    return [
        Assigned(
            topic_id=each.topic_id,
            partition=each.partition,
            replicas=moves.get(each, each.replicas),
        )
        for each in assigned
    ]


def held(assigned: list[Assigned]) -> Counter[BrokerId]:
    return Counter(broker for each in assigned for broker in each.replicas)


def until_none_is_left(
    assigned: list[Assigned], step: Callable[[list[Assigned]], Mapping[Assigned, Replicas]]
) -> list[Assigned]:
    """Apply moves until there are none; each replica could move once, so that must end."""
    for _ in range(sum(held(assigned).values()) + 1):
        moves = step(assigned)
        if not moves:
            return assigned
        assert all(each.replicas != after for each, after in moves.items()), "a move moves"
        assigned = applied(assigned, moves)
    raise AssertionError("there are always moves left")


@settings(deadline=None)
@given(clusters(), st.integers(1, 5))
def test_moves_to_new_brokers_end_with_a_share_for_each(
    cluster: tuple[list[Assigned], list[BrokerId], list[BrokerId]], limit: int
) -> None:
    before, brokers, new = cluster

    def step(now: list[Assigned]) -> Mapping[Assigned, Replicas]:
        moves = moves_to_new(now, brokers=brokers, new=new, limit=limit)
        assert len(moves) <= limit
        return moves

    after = until_none_is_left(before, step)
    share = sum(held(before).values()) // len(brokers)
    counts = held(after)
    for was, now in zip(before, after, strict=True):
        assert len(set(now.replicas)) == len(was.replicas)
        changed = [
            pair for pair in zip(was.replicas, now.replicas, strict=True) if len({*pair}) > 1
        ]
        assert all(taker in new for _, taker in changed)
    # One who has more than a share has a partition that one with less does not have.
    assert all(counts[taker] >= share for taker in new), (counts, share)
    for broker in brokers:
        # Whoever gives keeps its share, and whoever takes gets no more than it.
        assert counts[broker] >= min(share, held(before)[broker])
        assert counts[broker] <= max(share, held(before)[broker])


def repeats(replicas: Replicas, racks: Mapping[BrokerId, str]) -> int:
    """Count the replicas that share their rack with an earlier one."""
    known = [racks[each] for each in replicas if racks.get(each)]
    return len(known) - len(set(known))


@settings(deadline=None)
@given(clusters(), st.data())
def test_moves_to_new_brokers_keep_racks_different_and_take_what_shares_one_first(
    cluster: tuple[list[Assigned], list[BrokerId], list[BrokerId]], data: st.DataObject
) -> None:
    before, brokers, new = cluster
    racks = {each: data.draw(st.sampled_from(["", "a", "b", "c"])) for each in brokers}
    racks = {each: rack for each, rack in racks.items() if rack}
    step = partial(moves_to_new, brokers=brokers, new=new, limit=100, racks=racks)
    after = until_none_is_left(before, step)
    share = sum(held(before).values()) // len(brokers)
    for was, now in zip(before, after, strict=True):
        assert repeats(now.replicas, racks) <= repeats(was.replicas, racks)
    for taker in new:
        if held(after)[taker] >= share:
            continue
        # Whoever could give it something would put two replicas into one rack, or has no more.
        for each in after:
            for giver in each.replicas:
                has = held(after)[giver]
                can_give = has > share or (any(racks.values()) and has >= held(after)[taker] + 2)
                if can_give and taker not in each.replicas:
                    there = tuple(taker if one == giver else one for one in each.replicas)
                    assert repeats_rack(racks, each.replicas, giver=giver, taker=taker), there


def test_a_new_broker_shares_the_load_of_its_rack_where_others_cannot_give_it_any() -> None:
    racks = dict(zip(map(BrokerId, range(4)), "abca", strict=True))
    before = [
        Assigned(topic_id=TopicId("t"), partition=n, replicas=tuple(map(BrokerId, (0, 1, 2))))
        for n in range(12)
    ]
    moves = moves_to_new(before, brokers=list(racks), new=[BrokerId(3)], limit=99, racks=racks)
    assert held(applied(before, moves)) == {0: 6, 1: 12, 2: 12, 3: 6}


def test_a_new_broker_in_a_rack_of_its_own_takes_replicas_that_share_one() -> None:
    topic, racks = TopicId("t"), dict(zip(map(BrokerId, range(4)), "aabc", strict=True))
    together, apart = (
        Assigned(topic_id=topic, partition=number, replicas=tuple(map(BrokerId, replicas)))
        for number, replicas in enumerate([(0, 1), (0, 2)])
    )
    found = {
        name: moves_to_new(
            [apart, together], brokers=list(racks), new=[BrokerId(3)], limit=9, racks=known
        )
        for name, known in (("racks", racks), ("none", {}))
    }
    assert found["racks"] == {together: (3, 1)}
    assert len(found["none"]) == 1


@cache
def sample() -> tuple[DesiredCluster, ObservedCluster]:
    """Return a cluster at rest whose brokers, as many as any example has, are registered."""
    found = whole(BROKERS_MAX).cache.cluster("default")
    assert found is not None
    return found


@settings(max_examples=SCALES_MAX, deadline=None)
@given(st.data(), st.integers(1, BROKERS_MAX), st.integers(1, BROKERS_MAX))
def test_a_scale_ends_whatever_part_of_a_step_is_done_and_no_named_broker_goes(
    data: st.DataObject, before: int, wanted: int
) -> None:
    desired, observed = sample()
    desired = replace(desired, replicas=wanted)
    fewest = min(before, wanted)
    old = [BrokerId(each) for each in range(before)]
    replicas = st.lists(st.sampled_from(old), min_size=1, max_size=fewest, unique=True)
    first = [at(each, tuple(data.draw(replicas))) for each in observed.partitions]
    observed = replace(observed, partitions=tuple(first), spread_over=before, ready_brokers=before)
    moved = 0
    # Each replica moves at most once from each broker that goes.
    for _ in range(2 * PARTITIONS * BROKERS_MAX * BROKERS_MAX):
        step = scaling_step(desired, observed)
        now = {each.name: each for each in observed.partitions}
        assert max(each for one in now.values() for each in named(one)) < step.brokers
        assert step.refusal is None
        if step.readiness.reason == "ScalingDone" and observed.spread_over == wanted:
            break
        # An operator may be killed after each of its writes, the last of which is the status.
        done = data.draw(st.integers(min(1, len(step.moves)), len(step.moves)))
        for move in step.moves[:done]:
            found = now[move.body["metadata"]["name"]]
            after = tuple(move.body["spec"]["replicas"])
            assert len(set(after)) == len(found.assigned)
            assert max(set(after) - set(found.assigned)) < wanted
            now[found.name] = replace(found, assigned=after)
            # One write may move several replicas of a partition.
            moved += len(set(after) - set(found.assigned))
        if done == len(step.moves):
            observed = replace(observed, spread_over=step.spread_over, ready_brokers=step.brokers)
        behind = [each for each in now.values() if named(each) != set(each.assigned)]
        if behind:
            chosen = data.draw(st.sampled_from(behind))
            now[chosen.name] = at(chosen, chosen.assigned)
        observed = replace(observed, partitions=tuple(now.values()))
    else:
        raise AssertionError(f"it never ends: {step}")
    held_before = Counter(each for one in first for each in one.assigned)
    held_after = Counter(each for one in observed.partitions for each in one.assigned)
    share = sum(held_after.values()) // wanted
    new = range(before, wanted)
    assert all(held_after[BrokerId(each)] >= share for each in new)
    # As few as possible: those of brokers that go, or the shares of new ones.
    leaving = sum(held_before[BrokerId(each)] for each in range(wanted, before))
    assert moved == (leaving if wanted < before else share * len(new))
    assert (max(held_after) < wanted, step.brokers) == (True, wanted)


def at(partition: StoredPartition, replicas: tuple[BrokerId, ...]) -> StoredPartition:
    """Let the controller bring a partition to these replicas."""
    assert partition.state is not None
    return replace(partition, assigned=replicas, state=replace(partition.state, replicas=replicas))


def named(partition: StoredPartition) -> set[BrokerId]:
    assert partition.state is not None
    return {*partition.assigned, *partition.state.replicas}
