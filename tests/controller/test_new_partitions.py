"""Clients hear of a new topic as a whole, and of its present partitions in any case (ADR 0077)."""

from __future__ import annotations

from strandline.controller.effects import (
    SendFullState,
    SendLeaderAndIsr,
    SendUpdateMetadata,
    WritePartitionStatus,
)
from strandline.controller.new_partitions import NewPartitions
from strandline.model import TopicPartition
from tests.support.world.network import Mode
from tests.support.world.setups import with_active_controller
from tests.support.world.values import state, topic, tp
from tests.support.world.world import World

WAIT_MS = 5_000


def announced(world: World) -> set[TopicPartition]:
    """Return the partitions that broker 1 was told of in metadata since its session began."""
    sent = [each for each in world.nodes[0].sent(SendUpdateMetadata) if each.broker_id == 1]
    return {command.tp for each in sent for command in each.partitions}


def in_the_making(*, partitions: int = 3) -> World:
    """Return a world in which the last partition of a new topic has no state yet."""
    world = with_active_controller(state(), nodes=(0,), found_topic=topic(partitions=1))
    world.put_topic(topic(partitions=1 + partitions))
    last = f"orders-{partitions}"
    world.hold(WritePartitionStatus, Mode.DELAY, lambda call: getattr(call, "name", "") == last)
    for number in range(1, partitions + 1):
        world.put_partition(None, number=number)
    world.advance(100)
    return world


def test_new_partitions_are_announced_together_once_all_have_a_state() -> None:
    world = in_the_making()
    assert announced(world) == set()
    known = {each.tp for sent in world.nodes[0].sent(SendLeaderAndIsr) for each in sent.partitions}
    assert known >= {tp(1), tp(2)}, "replicas learn of their states at once"
    world.release()
    world.advance(100)
    told = [s for s in world.nodes[0].sent(SendUpdateMetadata) if s.broker_id == 1 and s.partitions]
    assert [[command.tp for command in each.partitions] for each in told] == [[tp(1), tp(2), tp(3)]]


def test_a_broker_that_comes_meanwhile_is_told_of_none_that_is_held() -> None:
    world = in_the_making()
    world.hello(2, 0)
    full = world.nodes[0].sent(SendFullState)[-1]
    assert [command.tp for command in full.metadata] == [tp(0)]
    assert {command.tp for command in full.partitions} == {tp(0), tp(1), tp(2)}


def test_a_topic_that_does_not_become_whole_is_announced_after_a_while() -> None:
    world = in_the_making()
    world.advance(WAIT_MS - 300)
    assert announced(world) == set()
    world.advance(300)
    assert announced(world) == {tp(1), tp(2)}


def test_partitions_that_were_found_are_announced_at_once() -> None:
    found = with_active_controller(
        state(), nodes=(0,), partitions=2, found_topic=topic(partitions=3)
    )
    full = found.nodes[0].sent(SendFullState)[-1]
    assert [command.tp for command in full.metadata] == [tp(0), tp(1)]


def test_a_topic_that_goes_while_it_is_made_leaves_nothing_held() -> None:
    held = NewPartitions(wait_ms=WAIT_MS)
    assert held.learn(tp(0), 2, is_new=True, now_ms=0) == set()
    assert tp(0) in held
    held.forget(tp(0))
    assert tp(0) not in held
    assert held.next_wakeup_ms is None
    assert held.learn(tp(0), 1, is_new=True, now_ms=1) == {tp(0)}
