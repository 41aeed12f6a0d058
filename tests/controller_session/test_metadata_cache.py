"""A broker's metadata of the cluster: newer updates win, in any order of arrival."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from strandline.controller_session.messages import MetadataUpdate
from strandline.controller_session.metadata_cache import DEAD_LISTED_MS, MetadataCache
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
    TopicSettings,
)

OLD, NEW, OTHER = (TopicId(name) for name in ("old", "new", "other"))


def tp(topic_id: TopicId, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic_id=topic_id, partition=partition)


def command(
    topic_id: TopicId, *, name: str = "orders", partition: int = 0, leader: int = 0, pe: int = 0
) -> PartitionCommand:
    return PartitionCommand(
        tp=tp(topic_id, partition),
        topic_name=name,
        state=PartitionState(
            replicas=(BrokerId(0), BrokerId(1)),
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(pe),
            partition_epoch=PartitionEpoch(pe),
            isr=(),
            min_insync_replicas=1,
            controller_epoch=ControllerEpoch(1),
        ),
        settings=TopicSettings(),
    )


def update(
    *commands: PartitionCommand,
    epoch: int = 1,
    full: bool = False,
    removed: tuple[TopicPartition, ...] = (),
) -> MetadataUpdate:
    return MetadataUpdate(
        controller_epoch=ControllerEpoch(epoch),
        broker_epoch=BrokerEpoch(1),
        controller_id=BrokerId(epoch),
        live_brokers=(),
        partitions=commands,
        removed=removed,
        full=full,
    )


def knowing(*updates: MetadataUpdate) -> MetadataCache:
    cache = MetadataCache("demo", now_ms=lambda: 0)
    for each in updates:
        assert cache.apply(each)
    return cache


def led(cache: MetadataCache) -> list[tuple[str, int, int]]:
    """Return each partition's topic name, leader and leader epoch."""
    return [
        (topic.name, partition.leader, partition.leader_epoch)
        for topic in cache.snapshot("INTERNAL").topics
        for partition in topic.partitions
    ]


def test_older_controller_is_ignored() -> None:
    cache = knowing(update(command(OLD, leader=1), epoch=2))
    assert not cache.apply(update(command(OLD, leader=0, pe=5), epoch=1, full=True))
    assert led(cache) == [("orders", 1, 0)]
    assert cache.snapshot("INTERNAL").controller == 2


def test_controller_older_than_the_state_file_is_ignored_from_the_start() -> None:
    cache = MetadataCache("demo", now_ms=lambda: 0, controller_epoch=ControllerEpoch(7))
    assert not cache.apply(update(command(OLD), epoch=6, full=True))
    assert cache.resolve("orders", 0) is None
    assert cache.apply(update(command(OLD), epoch=7, full=True))
    assert cache.resolve("orders", 0) == tp(OLD)


def test_partition_epoch_never_goes_back() -> None:
    cache = knowing(update(command(OLD, leader=1, pe=5)), update(command(OLD, leader=0, pe=4)))
    assert led(cache) == [("orders", 1, 5)]
    cache.apply(update(command(OLD, leader=0, pe=6)))
    assert led(cache) == [("orders", 0, 6)]


def test_full_state_replaces_everything() -> None:
    cache = knowing(
        update(command(OLD, pe=5), command(OTHER, name="clicks")),
        update(command(OLD, pe=3), full=True),
    )
    assert led(cache) == [("orders", 0, 3)]
    assert cache.resolve("clicks", 0) is None


@pytest.mark.parametrize("order", list(permutations((OLD, NEW))))
def test_name_stays_with_the_topic_that_is_left(order: tuple[TopicId, ...]) -> None:
    cache = knowing(update(*(command(topic_id) for topic_id in order), full=True))
    cache.apply(update(removed=(tp(OLD),)))
    assert cache.resolve("orders", 0) == tp(NEW)
    cache.apply(update(removed=(tp(NEW),)))
    assert cache.resolve("orders", 0) is None
    assert cache.snapshot("INTERNAL").topics == ()


def test_name_goes_to_a_new_topic_and_no_update_of_the_old_one_takes_it_back() -> None:
    cache = knowing(update(command(OLD)), update(command(NEW)), update(command(OLD, pe=1)))
    assert cache.resolve("orders", 0) == tp(NEW)
    cache.apply(update(removed=(tp(NEW),)))
    assert led(cache) == [("orders", 0, 1)]


@pytest.mark.parametrize("order", list(permutations((OLD, NEW))))
def test_full_state_does_not_take_the_name_back(order: tuple[TopicId, ...]) -> None:
    both = update(*(command(topic_id) for topic_id in order), full=True)
    assert knowing(update(command(OLD)), update(command(NEW)), both).resolve("orders", 0) == tp(NEW)
    assert knowing(update(command(OLD)), both).resolve("orders", 0) == tp(NEW)


def test_removal_of_one_partition_keeps_the_others() -> None:
    cache = knowing(update(command(OLD), command(OLD, partition=1)))
    cache.apply(update(removed=(tp(OLD, 1), tp(OTHER))))
    assert cache.resolve("orders", 0) == tp(OLD)
    assert cache.resolve("orders", 1) is None


def test_a_snapshot_is_made_once_per_update_and_listener() -> None:
    cache = knowing(update(command(NEW)))
    shown = cache.snapshot("INTERNAL")
    assert cache.snapshot("INTERNAL") is shown
    assert cache.snapshot("EXTERNAL") is not shown
    assert not cache.apply(update(command(NEW), epoch=0))
    assert cache.snapshot("INTERNAL") is shown, "an update that is ignored changes nothing"
    assert cache.apply(update(command(NEW)))
    assert cache.snapshot("INTERNAL") is not shown


def live(broker_id: int, *, host: str = "10.0.0.1") -> LiveBroker:
    return LiveBroker(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(1),
        clean_since_epoch=BrokerEpoch(1),
        endpoints=(Endpoint(listener="INTERNAL", host=host, port=9092),),
    )


def listed(cache: MetadataCache) -> list[tuple[int, str, bool]]:
    """Return each listed broker: its id, its host, and whether it is live."""
    return [
        (each.broker_id, each.endpoint.host, each.is_live)
        for each in cache.snapshot("INTERNAL").brokers
    ]


def test_a_broker_that_is_live_no_more_stays_listed_for_a_while() -> None:
    """A client that finds it missing drops what waits for its partitions' next leaders."""
    now_ms = 5
    cache = MetadataCache("demo", now_ms=lambda: now_ms)
    both = (live(0), live(1))
    assert cache.apply(replace(update(), live_brokers=both))
    assert cache.apply(replace(update(), live_brokers=both[:1]))
    died = [(0, "10.0.0.1", True), (1, "10.0.0.1", False)]
    assert listed(cache) == died
    assert cache.live_broker(BrokerId(1)) is None
    now_ms += DEAD_LISTED_MS - 1
    assert cache.apply(replace(update(), live_brokers=both[:1]))
    assert listed(cache) == died, "an update begins no other time"
    now_ms += 1
    assert listed(cache) == died[:1]


def test_a_broker_that_returns_is_listed_with_its_new_address_alone() -> None:
    cache = MetadataCache("demo", now_ms=lambda: 5)
    for brokers in ((live(1),), (), (live(1, host="10.0.0.9"),)):
        assert cache.apply(replace(update(), live_brokers=brokers))
    assert listed(cache) == [(1, "10.0.0.9", True)]


def test_metadata_carries_the_rack_that_was_announced_last() -> None:
    cache = MetadataCache("demo", now_ms=lambda: 0)
    for rack in ("zone-a", "", "zone-b"):
        here = replace(live(3), rack=rack)
        assert cache.apply(replace(update(), live_brokers=(here,)))
        assert [(it.broker_id, it.rack) for it in cache.snapshot("INTERNAL").brokers] == [(3, rack)]
