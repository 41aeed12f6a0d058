"""Deleted topics, strays and the topic revision come into the BrokerCluster by compare-and-swap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.effects import (
    ReadClusterRecord,
    ReadTopics,
    SendStopReplica,
    WriteClusterRecord,
)
from strandline.controller.notices import StrayFound
from strandline.controller.store_events import WatchLost
from strandline.model import DeletedTopic, TopicId
from tests.support.world.network import Mode
from tests.support.world.timings import demo_timing
from tests.support.world.values import NAME, TOPIC, replica, topic, tp
from tests.support.world.world import World

STRAY = TopicId("uid-stray")


def running(world: World | None = None) -> World:
    """Return a world in which broker 0 controls, and hosts partition 0 of the topic."""
    made = world or World()
    made.add_node(0)
    made.register(0)
    made.put_topic(topic(min_isr=1))
    made.put_partition(None, assigned=(0,))
    made.advance(10)
    made.hello(0, 0)
    made.advance(100)
    return made


def deleted_names(world: World) -> list[str]:
    return [each.topic_name for each in world.store.cluster.deleted_topics]


@pytest.mark.parametrize("mode", [Mode.LOSE, Mode.LOSE_RESPONSE])
def test_no_log_goes_before_its_topic_is_recorded(mode: Mode) -> None:
    world = running()
    world.hold(WriteClusterRecord, mode)
    world.delete_topic()
    world.settle()
    assert world.nodes[0].sent(SendStopReplica) == []
    world.advance(2_000)
    (stop,) = world.nodes[0].sent(SendStopReplica)
    assert stop.partitions == (tp(),)
    assert deleted_names(world) == [NAME]
    assert world.store.cluster.deleted_topics[0].deleted_at


def test_a_change_of_the_operator_meanwhile_leads_to_a_read_and_another_write() -> None:
    world = running()
    assert world.store.record is not None
    world.store.record = replace(world.store.record, resource_version=world.store.next_version())
    world.delete_topic()
    world.advance(2_000)
    assert len(world.nodes[0].sent(ReadClusterRecord)) == 1
    assert len(world.nodes[0].sent(SendStopReplica)) == 1


@pytest.mark.parametrize("is_there", [True, False])
def test_without_a_broker_cluster_that_stays_nothing_is_deleted(is_there: bool) -> None:
    world = running()
    if is_there:
        world.store.cluster = replace(world.store.cluster, is_deleting=True)
    else:
        world.store.record = None
    world.delete_topic()
    world.advance(3_000)
    assert world.nodes[0].sent(SendStopReplica) == []


def test_the_oldest_deleted_topics_make_room() -> None:
    world = World(timing=replace(demo_timing(), deleted_topics_max=2))
    old = [DeletedTopic(topic_id=TopicId(f"{n}"), topic_name=f"t{n}", deleted_at="t") for n in "12"]
    world.store.cluster = replace(world.store.cluster, deleted_topics=tuple(old))
    running(world).delete_topic()
    world.advance(1_000)
    assert deleted_names(world) == ["t2", NAME]


def test_an_adopted_topic_leaves_the_deleted_ones() -> None:
    world = running()
    world.delete_topic()
    world.advance(1_000)
    world.put_topic(topic(min_isr=1))
    world.advance(1_000)
    assert deleted_names(world) == []
    assert world.nodes[0].controller.stray_topic_counts == (0, 0)


def test_a_stray_on_disk_is_kept_told_of_once_and_counted() -> None:
    world = running()
    world.hello(0, 0, hosted=(replica(tp()), replica(tp(3, STRAY))))
    world.advance(6_000)
    world.hello(0, 0, hosted=(replica(tp()), replica(tp(3, STRAY))))
    world.advance(6_000)
    (stray,) = world.store.cluster.strays
    assert (stray.topic_id, stray.partition_count, stray.in_trash) == (STRAY, 4, False)
    assert [each.topic_id for each in world.nodes[0].sent(StrayFound)] == [STRAY]
    assert world.nodes[0].controller.stray_topic_counts == (1, 0)
    assert world.nodes[0].sent(SendStopReplica) == []


@pytest.mark.parametrize("mode", [Mode.LOSE, Mode.LOSE_RESPONSE])
def test_a_lost_write_of_strays_is_repeated_without_another_report(mode: Mode) -> None:
    world = running()
    world.hello(0, 0, hosted=(replica(tp()), replica(tp(3, STRAY))))
    world.hold(WriteClusterRecord, mode)
    world.advance(12_000)
    assert [each.topic_id for each in world.store.cluster.strays] == [STRAY]


def test_many_reports_of_strays_make_one_write_each_period() -> None:
    world = running()
    before = len(world.nodes[0].sent(WriteClusterRecord))
    for number in range(5):
        world.hello(0, 0, hosted=(replica(tp()), replica(tp(number, STRAY))))
        world.advance(500)
    world.advance(4_000)
    assert len(world.nodes[0].sent(WriteClusterRecord)) == before + 1


def test_topics_that_are_known_while_another_is_committed_share_the_next_write() -> None:
    world = running()
    for number in range(5):
        world.put_topic(topic(min_isr=1, topic_id=TopicId(f"uid-{number}")))
    world.advance(1_000)
    assert world.store.cluster.topic_revision == 2
    assert len(world.nodes[0].sent(ReadTopics)) <= 2
    assert TOPIC in world.store.topics


@pytest.mark.parametrize("mode", [Mode.LOSE, Mode.LOSE_RESPONSE, Mode.DELAY, Mode.DELAY_RESPONSE])
def test_a_topic_of_a_former_store_is_a_stray_although_its_revision_rose(mode: Mode) -> None:
    world = running()
    backup = world.store.back_up()
    world.hold(WriteClusterRecord, mode)
    world.put_topic(topic(min_isr=1, topic_id=STRAY))
    world.settle()
    world.store = world.store.restored(backup)
    while world.held:
        world.release()
    world.advance(3_000)
    world.deliver(0, WatchLost())
    world.hello(0, 0, hosted=(replica(tp()), replica(tp(0, STRAY))))
    world.advance(12_000)
    assert world.nodes[0].sent(SendStopReplica) == []
    assert deleted_names(world) == []


def test_no_revision_rises_in_a_broker_cluster_that_is_being_deleted() -> None:
    world = running()
    assert world.store.record is not None
    world.store.record = replace(world.store.record, resource_version=world.store.next_version())
    world.store.cluster = replace(world.store.cluster, is_deleting=True)
    world.put_topic(topic(min_isr=1, topic_id=STRAY))
    world.advance(3_000)
    written = len(world.nodes[0].sent(WriteClusterRecord))
    world.put_topic(topic(min_isr=1, topic_id=TopicId("uid-later")))
    world.advance(3_000)
    assert len(world.nodes[0].sent(WriteClusterRecord)) == written <= 2
