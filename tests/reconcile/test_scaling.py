"""Plans of a cluster that gets more brokers, or fewer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from strandline.model import BrokerId, TopicId
from strandline_operator import kinds
from strandline_operator.actions import MovePartition
from strandline_operator.balance import moves_to_new
from strandline_operator.placement import Assigned, place_topic
from tests.chart.cases import COMPLETE

from .samples import World, cluster, topic
from .test_plan import cluster_plan, topic_plan

PARTITIONS = 6


def led(world: World, *, without: tuple[int, ...] = ()) -> None:
    """Let the controller follow every spec, but for some partitions."""
    for number in range(PARTITIONS):
        found = world.get(kinds.PARTITION, f"orders-{number}")
        replicas = found["spec"]["replicas"]
        status = {**COMPLETE["Partition"]["status"], "replicas": replicas, "leader": replicas[0]}
        status |= {"isr": replicas, "isrBrokerEpochs": [1] * len(replicas), "reason": ""}
        status |= {"elr": [], "elrBrokerEpochs": []}
        status |= {"addingReplicas": [], "removingReplicas": []}
        if number not in without:
            world.put({**found, "status": status})


def registered(world: World, brokers: int) -> None:
    """Let brokers register, and their pods be ready."""
    for number in range(brokers):
        found = world.get(kinds.BROKER, f"default-{number}")
        world.put({**found, "status": COMPLETE["Broker"]["status"] | {"volumeFull": False}})
    found = world.get(kinds.STATEFUL_SET, "default")
    world.put({**found, "status": {"readyReplicas": brokers}})


def whole(brokers: int, factor: int = 2) -> World:
    """Return a cluster at rest, with a topic."""
    world = World(cluster(replicas=brokers), topic(partitions=PARTITIONS, replicationFactor=factor))
    world.perform(cluster_plan(world))
    world.perform(topic_plan(world))
    led(world)
    registered(world, brokers)
    settle(world)
    return world


def settle(world: World) -> None:
    """Let the operator write what it wants, without moves."""
    for _ in range(3):
        world.perform([each for each in cluster_plan(world) if not isinstance(each, MovePartition)])


def scale(world: World, brokers: int) -> None:
    found = world.get(kinds.CLUSTER, "default")
    world.put({**found, "spec": {**found["spec"], "replicas": brokers}})


def moves(world: World) -> list[MovePartition]:
    return [each for each in cluster_plan(world) if isinstance(each, MovePartition)]


def scaling(world: World) -> dict[str, Any]:
    status = world.get(kinds.CLUSTER, "default")["status"]
    (found,) = [each for each in status["conditions"] if each["type"] == "Scaling"]
    return {**found, "spreadOver": status["spreadOver"], "replicas": status["replicas"]}


def pods(world: World) -> int:
    return int(world.get(kinds.STATEFUL_SET, "default")["spec"]["replicas"])


def held(world: World) -> Counter[int]:
    found = (
        world.get(kinds.PARTITION, f"orders-{n}")["spec"]["replicas"] for n in range(PARTITIONS)
    )
    return Counter(broker for replicas in found for broker in replicas)


def test_new_brokers_get_their_share_once_they_are_ready_and_nothing_else_moves() -> None:
    world = whole(3)
    before = held(world)
    scale(world, 5)
    settle(world)
    assert (pods(world), scaling(world)["reason"], moves(world)) == (5, "BrokersStart", [])
    registered(world, 5)
    world.perform(cluster_plan(world))
    share = PARTITIONS * 2 // 5
    after = held(world)
    assert after[3] == after[4] == share
    assert sum((before - after).values()) == 2 * share
    assert moves(world) == []
    settle(world)
    assert (scaling(world)["reason"], scaling(world)["spreadOver"]) == ("ReplicasMove", 3)
    led(world)
    settle(world)
    assert (scaling(world)["reason"], scaling(world)["spreadOver"]) == ("ScalingDone", 5)
    assert cluster_plan(world) == []


def test_the_highest_broker_gives_its_replicas_away_before_it_goes_and_then_the_next() -> None:
    world = whole(5)
    scale(world, 3)
    for broker in (4, 3):
        planned = moves(world)
        assert {broker} == {each for move in planned for each in move.former if each >= broker}
        world.perform(planned)
        assert held(world)[broker] == 0
        settle(world)
        assert (pods(world), moves(world)) == (broker + 1, [])
        assert scaling(world)["reason"] == "BrokerLeaves"
        assert f"broker {broker} goes" in scaling(world)["message"]
        led(world)
        settle(world)
        assert pods(world) == broker
        registration = world.get(kinds.BROKER, f"default-{broker}")
        assert (registration["spec"]["removed"], "status" in registration) == (True, True)
    assert (scaling(world)["reason"], scaling(world)["spreadOver"]) == ("ScalingDone", 3)
    assert max(held(world).values()) - min(held(world).values()) <= 1
    assert cluster_plan(world) == []


def test_a_broker_that_a_partition_names_again_comes_back() -> None:
    world = whole(4)
    scale(world, 3)
    world.perform(moves(world))
    led(world)
    settle(world)
    assert pods(world) == 3
    found = world.get(kinds.PARTITION, "orders-0")
    world.put({**found, "spec": {**found["spec"], "replicas": [3, 0]}})
    settle(world)
    assert pods(world) == 4
    assert "removed" not in world.get(kinds.BROKER, "default-3")["spec"]
    world.put({**found, "spec": {**found["spec"], "replicas": [9, 0]}})
    settle(world)
    assert pods(world) == 3, "there never was a broker 9"


def test_fewer_brokers_than_a_partition_has_replicas_are_refused_and_nothing_moves() -> None:
    world = whole(3, factor=3)
    scale(world, 2)
    settle(world)
    assert (pods(world), moves(world)) == (3, [])
    found = world.get(kinds.CLUSTER, "default")["status"]
    conditions = {each["type"]: each for each in found["conditions"]}
    assert conditions["Scaling"]["reason"] == conditions["Reconciled"]["reason"] == "ScalingRefused"
    assert "set spec.replicas to 3 again" in conditions["Scaling"]["message"]
    world.perform(topic_plan(world))
    told = world.get(kinds.TOPIC, "orders")["status"]["conditions"][0]
    assert told["reason"] == "AllPartitionsOnline", "the topic has what it wants"
    scale(world, 3)
    settle(world)
    assert scaling(world)["reason"] == "ScalingDone"


@pytest.mark.parametrize("is_lost", [True, False], ids=["missing", "without a state"])
def test_no_broker_goes_while_the_state_of_a_partition_is_not_known(is_lost: bool) -> None:
    world = whole(4)
    found = world.get(kinds.TOPIC, "orders")
    world.put({**found, "status": {**found["status"], "partitionsInitialised": PARTITIONS}})
    lost = world.get(kinds.PARTITION, "orders-1")
    lost["spec"]["replicas"] = [0, 1]
    del lost["status"]
    if is_lost:
        world.remove(kinds.PARTITION, "orders-1")
    else:
        world.put(lost)
    scale(world, 3)
    settle(world)
    assert (pods(world), moves(world)) == (4, [])
    assert scaling(world)["reason"] == "WaitingForPartitions"
    assert "orders-1" in scaling(world)["message"]


def test_a_new_partition_of_a_cluster_that_shrinks_is_placed_on_brokers_that_stay() -> None:
    world = whole(5)
    scale(world, 3)
    found = world.get(kinds.TOPIC, "orders")
    world.put({**found, "spec": {**found["spec"], "partitions": PARTITIONS + 3}})
    world.perform(topic_plan(world))
    for number in range(PARTITIONS, PARTITIONS + 3):
        assert max(world.get(kinds.PARTITION, f"orders-{number}")["spec"]["replicas"]) < 3


@pytest.mark.parametrize(("before", "after", "factor"), [(1, 3, 1), (3, 4, 3), (3, 9, 2)])
def test_moves_to_new_brokers_are_few_and_even(before: int, after: int, factor: int) -> None:
    old = [BrokerId(each) for each in range(before)]
    assigned = [
        Assigned(topic_id=TopicId(name), partition=number, replicas=replicas)
        for name in ("a", "b")
        for number, replicas in place_topic(
            TopicId(name), range(30), brokers=old, replication_factor=factor
        ).items()
    ]
    brokers = [BrokerId(each) for each in range(after)]
    new = brokers[before:]
    share = len(assigned) * factor // after
    moved = moves_to_new(assigned, brokers=brokers, new=new, limit=1_000)
    present = [moved.get(each, each.replicas) for each in assigned]
    counts = Counter(broker for replicas in present for broker in replicas)
    changes = sum(len(set(after) - set(each.replicas)) for each, after in moved.items())
    assert [counts[each] for each in new] == [share] * len(new)
    assert changes == share * len(new)
    assert all(len(set(replicas)) == factor for replicas in present)
    firsts = Counter(replicas[0] for replicas in present)
    assert max(firsts.values()) - min(firsts[each] for each in brokers) <= len(assigned) // after

    def one_by_one() -> list[Assigned]:
        now = list(assigned)
        while step := moves_to_new(now, brokers=brokers, new=new, limit=1):
            now = [
                Assigned(
                    topic_id=each.topic_id,
                    partition=each.partition,
                    replicas=step.get(each, each.replicas),
                )
                for each in now
            ]
        return now

    again = Counter(broker for each in one_by_one() for broker in each.replicas)
    assert [again[each] for each in new] == [share] * len(new)
