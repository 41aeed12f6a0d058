"""How many partitions copy at once, and when the log of a removed replica goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.effects import SendStopReplica
from strandline.controller.events import HostedReported
from strandline.controller.store_events import PartitionObserved
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerId,
    IsrEntry,
    PartitionEpoch,
    PartitionState,
    TopicId,
)
from tests.support.world.timings import demo_timing
from tests.support.world.values import NAME, TOPIC, entry, replica, state, topic, tp
from tests.support.world.world import World

FIRST = state(replicas=(0, 1), isr=(entry(0), entry(1)), min_isr=1)
WITH_3, WITH_5 = (BrokerId(0), BrokerId(1), BrokerId(3)), (BrokerId(5), BrokerId(1))
AT_REST = replace(FIRST, partition_epoch=PartitionEpoch(4))


def led(*found: PartitionState, min_isr: int = 1) -> World:
    """Return a world in which controller 0 decides about partitions on brokers 0 and 1 of 4."""
    world = World()
    world.add_node(0)
    for broker_id in range(4):
        world.register(broker_id)
    world.put_topic(topic(min_isr=min_isr))
    for number, each in enumerate(found):
        world.put_partition(each, number=number, assigned=each.replicas)
    world.advance(10)
    for broker_id in range(4):
        world.hello(broker_id, 0)
    return world


def assign(world: World, number: int, *replicas: int) -> None:
    found = world.store.partitions[f"{NAME}-{number}"]
    wished = replace(
        found,
        assigned=tuple(map(BrokerId, replicas)),
        resource_version=world.store.next_version(),
        generation=found.generation + 1,
    )
    world.store.partitions[found.name] = wished
    world.show(PartitionObserved(partition=wished))
    world.settle()


def copying(world: World) -> list[int]:
    return [
        each.tp.partition
        for each in world.store.partitions.values()
        if each.state is not None and each.state.adding_replicas
    ]


def join(world: World, number: int, *members: IsrEntry) -> None:
    """Commit an ISR as another controller does."""
    found = world.store.partitions[f"{NAME}-{number}"]
    assert found.state is not None
    later = PartitionEpoch(found.state.partition_epoch + 1)
    joined = replace(found.state, isr=members, partition_epoch=later)
    world.put_partition(joined, number=number, assigned=found.assigned)
    world.settle()


def test_so_many_partitions_copy_at_once_and_the_next_begins_when_one_ends() -> None:
    limit = demo_timing().moves_at_once_max
    world = led(*[AT_REST] * (limit + 2))
    for number in range(limit + 2):
        assign(world, number, 2, 1)
    assert copying(world) == list(range(limit))
    join(world, 3, entry(0), entry(1), entry(2))
    assert world.state(3).replicas == (2, 1)
    assert copying(world) == [each for each in range(limit + 1) if each != 3]


def test_a_move_whose_added_broker_is_away_keeps_no_place() -> None:
    limit = demo_timing().moves_at_once_max
    world = led(*[AT_REST] * (limit + 1))
    for number in range(limit):
        assign(world, number, 3, 1)
    world.break_session(3)
    assign(world, limit, 2, 1)
    assert limit in copying(world)


def reported(
    found: PartitionState,
    *,
    assigned: tuple[int, ...] = (0, 1),
    accepted: int = 0,
    topic_id: TopicId = TOPIC,
) -> list[SendStopReplica]:
    """Return what broker 3 is told when it reports a log of a partition."""
    world = led(min_isr=found.min_insync_replicas)
    world.put_partition(found, assigned=assigned, topic_id=topic_id)
    world.advance(10)
    node, session = world.sessions[3]
    held = replica(tp(0, topic_id), partition_epoch=accepted)
    event = HostedReported(session_id=session, broker_id=BrokerId(3), hosted=(held,), trashed=())
    world.deliver(node, event)
    return [each for each in world.nodes[0].sent(SendStopReplica) if each.broker_id == 3]


def test_a_broker_that_is_no_replica_is_told_at_which_state_it_was_removed() -> None:
    (stop,) = reported(AT_REST)
    assert (stop.partitions, stop.removed_at) == ((tp(),), 4)


@pytest.mark.parametrize(
    ("found", "assigned"),
    [
        (replace(AT_REST, replicas=WITH_5, leader=NO_LEADER, isr=(entry(5),)), (5, 1)),
        (replace(AT_REST, leader=NO_LEADER, isr=(), reason=STATE_LOST), (0, 1)),
        (replace(AT_REST, isr=(entry(0),), min_insync_replicas=2), (0, 1)),
        (replace(AT_REST, replicas=WITH_3), (0, 1, 3)),
        (AT_REST, (0, 3)),
        (FIRST, (0, 1)),
    ],
    ids=["no leader", "lost", "under min ISR", "a replica", "a wanted replica", "a first state"],
)
def test_a_log_that_may_be_of_use_stays(found: PartitionState, assigned: tuple[int, ...]) -> None:
    assert not reported(found, assigned=assigned)


def test_a_log_of_a_broker_that_knows_a_later_state_stays() -> None:
    assert not reported(AT_REST, accepted=5)


def test_a_log_of_an_unknown_topic_stays() -> None:
    assert not reported(AT_REST, topic_id=TopicId("other"))
