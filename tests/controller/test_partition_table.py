"""Of several objects of one partition one counts, and the others have no effect."""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.notices import PartitionSetAside
from strandline.controller.store_events import PartitionDeleted, WatchLost
from strandline.model import STATE_LOST, PartitionState
from tests.support.world.setups import three_brokers, with_active_controller
from tests.support.world.values import TOPIC, entry, state, topic, tp
from tests.support.world.world import World

COPY = "copy-0"
ABC, A = (entry(0), entry(1), entry(2)), (entry(0),)


def names_set_aside(world: World) -> list[str]:
    return [notice.name for notice in world.nodes[0].sent(PartitionSetAside)]


def state_of_copy(world: World) -> PartitionState | None:
    return world.store.partitions[COPY].state


def without_topic() -> World:
    """Return a world whose active controller knows both objects, and not their topic."""
    world = three_brokers(state(leader_epoch=1, partition_epoch=1), nodes=(0,))
    world.put_partition(state(leader=1, leader_epoch=3, partition_epoch=3), name="a-0")
    world.store.topics.clear()
    world.advance(10)
    return world


def test_object_with_another_name_than_the_topics_gets_no_status() -> None:
    world = with_active_controller(None, nodes=(0,), partitions=0)
    world.put_partition(None, name=COPY)
    world.advance(10_000)
    assert (state_of_copy(world), names_set_aside(world)) == (None, [COPY])
    world.put_partition(None)
    world.settle()
    assert world.state().isr_ids == (0, 1, 2)
    assert state_of_copy(world) is None


def test_object_without_effect_is_told_of_once_and_keeps_its_status() -> None:
    world = with_active_controller(state(), nodes=(0,))
    copied = state(leader=2, leader_epoch=9, partition_epoch=9)
    for _ in range(3):
        world.put_partition(copied, name=COPY)
        world.deliver(0, WatchLost())
    world.kill(0)
    world.advance(61)
    assert names_set_aside(world) == [COPY]
    assert state_of_copy(world) == copied
    assert (world.state().leader, world.state().leader_epoch) == (1, 1)


def test_new_object_beside_a_copy_with_a_status_waits_for_all_its_brokers() -> None:
    world = with_active_controller(None, nodes=(0,), partitions=0, sessions=(0, 1))
    world.put_partition(state(), name=COPY)
    world.put_partition(None)
    world.advance(10_000)
    assert world.store.partitions["orders-0"].state is None
    world.hello(2, 0)
    world.hello(0, 0)
    world.hello(1, 0)
    assert world.state().isr_ids == (0, 1, 2)


def test_while_the_topic_is_unknown_one_object_counts_and_its_successor_is_fenced() -> None:
    world = without_topic()
    assert names_set_aside(world) == ["orders-0"]
    world.hello(1, 0)
    world.hello(2, 0)
    world.kill(1)
    world.advance(61)
    led = world.store.partitions["a-0"].state
    assert led is not None
    assert led.leader_epoch == 4
    world.put_topic(topic())
    world.settle()
    assert names_set_aside(world) == ["orders-0", "a-0"]
    fence = world.state()
    assert (fence.leader, fence.reason) == (-1, STATE_LOST)
    assert fence.leader_epoch > led.leader_epoch
    assert fence.partition_epoch > led.partition_epoch
    assert world.store.partitions["a-0"].state == led


def test_while_the_topic_is_unknown_the_next_object_follows_one_that_is_gone() -> None:
    world = without_topic()
    gone = world.store.partitions.pop("a-0")
    world.deliver(0, PartitionDeleted(name=gone.name, tp=gone.tp))
    assert world.state().reason == STATE_LOST


def test_copy_under_the_name_of_another_partitions_object_is_set_aside() -> None:
    world = with_active_controller(state(), nodes=(0,), partitions=2)
    replaced = replace(world.store.partitions["orders-1"], tp=tp(0))
    world.store.partitions["orders-1"] = replaced
    world.nodes[0].cut = True
    world.kill(0)
    world.advance(61)
    assert names_set_aside(world) == ["orders-1"]
    assert world.state().leader == 1


def test_objects_without_effect_go_with_their_topic() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.put_partition(None, name=COPY)
    world.delete_topic(TOPIC)
    world.put_partition(None, name=COPY)
    world.settle()
    assert names_set_aside(world) == [COPY]
