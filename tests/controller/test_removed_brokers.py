"""A broker that the cluster has no more: a lost Partition does not wait for it."""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.broker_entry import Awaited, InSession
from strandline.controller.lost_partitions import asked_about_lost
from strandline.controller.store_events import BrokerObserved
from strandline.model import BrokerId, StoredPartition
from tests.support.world.values import registration, topic, tp
from tests.support.world.world import World

AWAY = BrokerId(3)


def lost(*, is_removed: bool = False) -> World:
    """Return a world with a Partition to recover on brokers 0 and 1; broker 3 is away."""
    world = World()
    world.add_node(0)
    for broker_id in range(4):
        world.register(broker_id)
    if is_removed:
        mark(world, is_removed=True)
    world.put_topic(topic(min_isr=1))
    world.put_partition(None, recover=True, assigned=(0, 1))
    world.advance(10)
    for broker_id in range(3):
        world.hello(broker_id, 0)
    world.advance(20_000)
    return world


def mark(world: World, *, is_removed: bool) -> None:
    """Let the operator say whether the cluster has the broker that is away."""
    stored = world.store.brokers[AWAY]
    assert stored.registration is not None
    marked = replace(stored.registration, is_removed=is_removed)
    world.store.brokers[AWAY] = replace(
        stored, registration=marked, resource_version=world.store.next_version()
    )
    world.show(BrokerObserved(broker=world.store.brokers[AWAY]))
    world.settle()


def has_leader(world: World) -> bool:
    found = world.store.partitions[next(iter(world.store.partitions))].state
    return found is not None and found.leader >= 0


def test_a_lost_partition_waits_for_a_broker_until_the_cluster_has_it_no_more() -> None:
    world = lost()
    assert not has_leader(world)
    mark(world, is_removed=True)
    assert has_leader(world)


def test_a_lost_partition_waits_for_a_broker_that_the_cluster_has_again() -> None:
    world = lost(is_removed=True)
    assert has_leader(world)
    world = lost(is_removed=False)
    world.advance(20_000)
    assert not has_leader(world)


def test_a_removed_broker_that_is_in_session_is_asked_like_any_other() -> None:
    found = replace(registration(3), is_removed=True)
    there = InSession(registration=found, heard_ms=0, session_id=1, reported_ms=0)
    away = Awaited(registration=found, heard_ms=0)
    assert (there.is_gone, away.is_gone) == (False, True)
    stored = StoredPartition(
        name="orders-0",
        resource_version="1",
        tp=tp(),
        topic_name="orders",
        assigned=(BrokerId(0),),
        recover=True,
        state=None,
    )
    assert asked_about_lost(stored, {AWAY: there}) == [None, there]
    assert asked_about_lost(stored, {AWAY: away}) == [None]
