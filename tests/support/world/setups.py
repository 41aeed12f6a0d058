"""Worlds for directed tests: three registered brokers without a core, and a topic."""

from __future__ import annotations

from strandline.model import PartitionState, StoredTopic

from .values import topic
from .world import World


def three_brokers(
    found: PartitionState | None = None,
    *,
    partitions: int = 1,
    nodes: tuple[int, ...] = (0, 1),
    found_topic: StoredTopic | None = None,
) -> World:
    """Return a world of brokers 0, 1, 2 and a topic, without an active controller yet."""
    world = World()
    for broker_id in (0, 1, 2):
        world.register(broker_id)
    world.put_topic(found_topic or topic())
    for number in range(partitions):
        world.put_partition(found, number=number)
    for node in nodes:
        world.add_node(node)
    return world


def with_active_controller(
    found: PartitionState | None = None,
    *,
    partitions: int = 1,
    nodes: tuple[int, ...] = (0, 1),
    sessions: tuple[int, ...] = (0, 1, 2),
    found_topic: StoredTopic | None = None,
) -> World:
    """Return this world with node 0 as active controller; `sessions` are the brokers connected."""
    world = three_brokers(found, partitions=partitions, nodes=nodes, found_topic=found_topic)
    world.advance(10)
    assert world.nodes[0].controller.epoch is not None
    for broker_id in sessions:
        world.hello(broker_id, 0)
    world.advance(1)
    return world
