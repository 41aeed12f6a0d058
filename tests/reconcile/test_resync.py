"""A resync never brings back what watches have shown to be over, and never loses what is newer."""

from __future__ import annotations

from typing import Any

from strandline_operator import kinds

from .samples import Manifest, World, topic


def at(version: int, name: str = "orders", **spec: Any) -> Manifest:
    """Return a topic as the API server showed it with this resourceVersion."""
    found = topic(name, **spec)
    found["metadata"]["resourceVersion"] = str(version)
    return found


def partitions_of(world: World) -> dict[str, int]:
    return {each.ref.name: each.partitions for each in world.cache.topics()}


def test_a_change_seen_during_the_list_is_not_undone_by_it() -> None:
    world = World(at(7, partitions=1))
    with world.cache.listing(kinds.TOPIC):
        world.cache.put(kinds.TOPIC, at(9, partitions=5))
        world.cache.replace(kinds.TOPIC, [at(7, partitions=1)], version="8")
    assert partitions_of(world) == {"orders": 5}


def test_an_object_created_during_the_list_stays() -> None:
    world = World(at(7))
    with world.cache.listing(kinds.TOPIC):
        world.cache.put(kinds.TOPIC, at(9, "later"))
        world.cache.replace(kinds.TOPIC, [at(7)], version="8")
    assert set(partitions_of(world)) == {"orders", "later"}


def test_an_object_deleted_during_the_list_does_not_come_back() -> None:
    world = World(at(7), at(6, "gone"))
    with world.cache.listing(kinds.TOPIC):
        world.cache.remove(kinds.TOPIC, "gone")
        world.cache.replace(kinds.TOPIC, [at(7), at(6, "gone")], version="8")
    assert set(partitions_of(world)) == {"orders"}


def test_an_object_created_again_during_the_list_stays() -> None:
    world = World(at(6, partitions=1))
    with world.cache.listing(kinds.TOPIC):
        world.cache.remove(kinds.TOPIC, "orders")
        world.cache.put(kinds.TOPIC, at(9, partitions=4))
        world.cache.replace(kinds.TOPIC, [at(6, partitions=1)], version="8")
    assert partitions_of(world) == {"orders": 4}


def test_a_deletion_that_a_watch_missed_is_found() -> None:
    world = World(at(7), at(6, "missed"))
    with world.cache.listing(kinds.TOPIC):
        world.cache.replace(kinds.TOPIC, [at(10)], version="12")
    assert set(partitions_of(world)) == {"orders"}


def test_a_list_later_than_a_deletion_has_the_object_that_follows_it() -> None:
    world = World(at(6))
    with world.cache.listing(kinds.TOPIC):
        world.cache.remove(kinds.TOPIC, "orders")
    with world.cache.listing(kinds.TOPIC):
        world.cache.replace(kinds.TOPIC, [at(9, partitions=4)], version="10")
    assert partitions_of(world) == {"orders": 4}
