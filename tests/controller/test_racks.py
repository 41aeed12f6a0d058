"""Racks of brokers: the controller announces what the operator wrote, while brokers run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.effects import SendLeaderAndIsr, SendUpdateMetadata
from strandline.controller.store_events import BrokerObserved
from strandline.model import BrokerId
from tests.support.world.values import topic
from tests.support.world.world import World


@pytest.fixture
def world() -> World:
    """Return two brokers in session with the controller, which is broker 0, and a partition."""
    world = World()
    world.add_node(0)
    for broker_id in range(2):
        world.register(broker_id)
    world.put_topic(topic())
    world.put_partition(None, assigned=(0, 1))
    world.advance(10)
    for broker_id in range(2):
        world.hello(broker_id, 0)
    world.advance(10)
    return world


def move_to(world: World, broker_id: int, rack: str) -> None:
    """Let the operator write another rack into the Broker's spec."""
    stored = world.store.brokers[BrokerId(broker_id)]
    assert stored.registration is not None
    world.store.brokers[BrokerId(broker_id)] = replace(
        stored,
        registration=replace(stored.registration, rack=rack),
        resource_version=world.store.next_version(),
    )
    world.show(BrokerObserved(broker=world.store.brokers[BrokerId(broker_id)]))
    world.settle()


def announced(world: World) -> list[SendUpdateMetadata]:
    return world.nodes[0].sent(SendUpdateMetadata)


def test_a_changed_rack_is_announced_to_every_broker_at_once(world: World) -> None:
    for rack in ("zone-a", "zone-b", ""):
        before = len(announced(world))
        move_to(world, 1, rack)
        news = announced(world)[before:]
        assert [each.broker_id for each in news] == [0, 1]
        assert [[broker.rack for broker in each.brokers] for each in news] == [["", rack]] * 2


def test_a_changed_rack_changes_no_leader_no_isr_and_no_session(world: World) -> None:
    state, commands = world.state(), len(world.nodes[0].sent(SendLeaderAndIsr))
    move_to(world, 0, "zone-a")
    world.advance(1_000)
    assert world.state() == state
    assert len(world.nodes[0].sent(SendLeaderAndIsr)) == commands


def test_the_same_rack_is_no_news(world: World) -> None:
    move_to(world, 1, "zone-a")
    before = len(announced(world))
    move_to(world, 1, "zone-a")
    assert len(announced(world)) == before
