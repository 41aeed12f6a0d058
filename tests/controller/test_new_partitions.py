"""Clients hear of a new topic as a whole, and of its present partitions in any case (ADR 0077).

New partitions get a state once their topic counts, so that nothing of it stays (ADR 0037).
"""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.effects import (
    SendFullState,
    SendLeaderAndIsr,
    SendUpdateMetadata,
    WriteClusterRecord,
    WritePartitionStatus,
)
from strandline.controller.new_partitions import NewPartitions
from strandline.controller.store_events import PartitionDeleted
from strandline.model import TopicId, TopicPartition
from tests.support.world.network import Mode
from tests.support.world.setups import with_active_controller
from tests.support.world.values import state, topic, tp
from tests.support.world.world import World

WAIT_MS = 5_000
COMMIT_WAIT_MS = 10_000
LATER = TopicId("uid-later")


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


def with_a_topic_that_does_not_count(mode: Mode) -> World:
    """Return a world in which the record of a new topic, named later, was lost or is under way."""
    world = with_active_controller(state(), nodes=(0,), found_topic=topic())
    world.hold(WriteClusterRecord, mode)
    world.put_topic(replace(topic(topic_id=LATER), name="later"))
    world.put_partition(None, topic_id=LATER, name="later-0")
    world.settle()
    return world


def states_of_later(world: World) -> list[WritePartitionStatus]:
    return [e for e in world.nodes[0].sent(WritePartitionStatus) if e.tp.topic_id == LATER]


def test_a_new_partition_gets_a_state_as_soon_as_its_topic_counts() -> None:
    world = with_a_topic_that_does_not_count(Mode.DELAY)
    assert states_of_later(world) == []
    world.release()
    assert len(states_of_later(world)) == 1


def test_a_topic_that_goes_before_it_counts_gets_no_log_and_clients_never_hear_of_it() -> None:
    world = with_a_topic_that_does_not_count(Mode.DELAY)
    del world.store.partitions["later-0"]
    world.delete_topic(LATER)
    world.release()
    world.show(PartitionDeleted(name="later-0", tp=tp(0, LATER)))
    world.advance(2 * COMMIT_WAIT_MS)
    assert states_of_later(world) == []
    assert announced(world) == set()


def test_a_partition_that_outlives_its_topic_gets_no_log_until_the_topic_returns() -> None:
    world = with_a_topic_that_does_not_count(Mode.LOSE)
    for _ in range(100):
        world.hold(WriteClusterRecord, Mode.LOSE)
    later = world.store.topics[LATER]
    world.delete_topic(LATER)
    world.advance(3 * COMMIT_WAIT_MS)
    assert states_of_later(world) == []
    world.put_topic(later)
    world.advance(100)
    assert len(states_of_later(world)) == 1


def test_a_partition_whose_topic_cannot_be_recorded_gets_a_state_after_a_while() -> None:
    world = with_a_topic_that_does_not_count(Mode.LOSE)
    for _ in range(100):
        world.hold(WriteClusterRecord, Mode.LOSE)
    world.advance(COMMIT_WAIT_MS - 500)
    assert states_of_later(world) == []
    world.advance(1_000)
    assert len(states_of_later(world)) == 1
