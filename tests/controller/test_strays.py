"""Which topic ids are stray, and where their logs are."""

from __future__ import annotations

from strandline.controller.strays import shorten
from strandline.model import BrokerId, StrayReplicas, StrayTopic, TopicId, TrashedReplica
from tests.support.world.values import NAME, TOPIC, replica, topic, tp
from tests.support.world.world import World

LOST = TopicId("uid-lost")


def trashed(partition: int, deleted_at_ms: int, topic_id: TopicId = LOST) -> TrashedReplica:
    return TrashedReplica(
        tp=tp(partition, topic_id), topic_name="lost", deleted_at_ms=deleted_at_ms
    )


def running(*brokers: int) -> World:
    world = World()
    world.add_node(0)
    for broker_id in brokers:
        world.register(broker_id)
    world.advance(10)
    return world


def stray(topic_id: str, rows: int) -> StrayTopic:
    return StrayTopic(
        topic_id=TopicId(topic_id),
        topic_name="lost",
        partition_count=rows,
        in_trash=True,
        deleted_at_ms=0,
        replicas=tuple(
            StrayReplicas(partition=number, brokers=(BrokerId(0),)) for number in range(rows)
        ),
    )


def test_logs_on_disk_and_in_the_trash_are_one_stray() -> None:
    world = running(0, 1)
    world.hello(0, 0, trashed=(trashed(0, 50), trashed(2, 70)))
    world.hello(1, 0, hosted=(replica(tp(0, LOST)),))
    world.advance(6_000)
    (found,) = world.store.cluster.strays
    assert (found.partition_count, found.in_trash, found.deleted_at_ms) == (3, False, 70)
    assert [(each.partition, each.brokers) for each in found.replicas] == [(0, (0, 1)), (2, (0,))]


def test_strays_on_disk_come_before_those_deleted_last() -> None:
    world = running(0)
    world.hello(
        0,
        0,
        hosted=(replica(tp(0, TopicId("a"))),),
        trashed=(trashed(0, 50, TopicId("b")), trashed(0, 70, TopicId("c"))),
    )
    world.advance(6_000)
    assert [each.topic_id for each in world.store.cluster.strays] == ["a", "c", "b"]


def test_what_an_absent_broker_had_stays_told_and_what_a_present_one_lost_does_not() -> None:
    world = running(0, 1)
    for broker_id in (0, 1):
        world.hello(broker_id, 0, trashed=(trashed(0, 50),))
    world.advance(6_000)
    world.break_session(1)
    world.hello(0, 0)
    world.advance(6_000)
    (found,) = world.store.cluster.strays
    assert (found.in_trash, found.deleted_at_ms) == (True, 50)
    assert found.replicas == (StrayReplicas(partition=0, brokers=(BrokerId(1),)),)
    world.hello(1, 0)
    world.advance(6_000)
    assert world.store.cluster.strays == ()


def test_an_adopted_topic_stays_told_until_its_partitions_exist() -> None:
    world = running(0)
    world.hello(0, 0, trashed=(trashed(0, 50, TOPIC),))
    world.advance(6_000)
    world.put_topic(topic(min_isr=1))
    world.hello(0, 0, trashed=(trashed(0, 50, TOPIC),))
    world.advance(6_000)
    assert [each.topic_id for each in world.store.cluster.strays] == [TOPIC]
    world.put_partition(None, assigned=(0,), recover=True)
    world.hello(0, 0, hosted=(replica(tp()),))
    world.advance(6_000)
    assert world.store.cluster.strays == ()


def test_a_topic_whose_list_is_not_read_yet_is_no_stray() -> None:
    world = running(0)
    world.put_topic(topic(min_isr=1))
    world.put_partition(None, assigned=(0,))
    world.hello(0, 0, hosted=(replica(tp()),))
    world.advance(6_000)
    assert world.store.cluster.strays == ()
    assert world.store.topics[TOPIC].topic_name == NAME


def test_the_first_strays_have_room_and_the_first_always() -> None:
    strays = [stray("a", 3), stray("b", 2), stray("c", 1)]
    assert shorten(strays, topics_max=2, rows_max=10) == strays[:2]
    assert shorten(strays, topics_max=9, rows_max=5) == strays[:2]
    assert shorten(strays, topics_max=9, rows_max=1) == strays[:1]
    assert shorten([], topics_max=9, rows_max=1) == []
