"""Plans of topics that adopt logs: their Partitions, and ids that are in use (ADR 0038)."""

from __future__ import annotations

import pytest

from strandline_operator import kinds
from strandline_operator.actions import ApplyStatus, InitialisePartitions, RecreatePartitions
from tests.chart.cases import COMPLETE

from .samples import LATER, Manifest, World, cluster, partition, topic
from .test_plan import sentences, topic_plan


def adopting(name: str = "orders", **spec: str) -> Manifest:
    whole = topic(name, topicId="adopted")
    return {**whole, "spec": {**whole["spec"], **spec}}


def conflict(world: World, name: str = "orders") -> str:
    """Return the message of a plan that does nothing but refuse the adoption."""
    plan = topic_plan(world, name)
    assert sentences(plan)[1] == f"write status of ReplicatedTopic {name}: TopicIdInUse"
    assert isinstance(plan[1], ApplyStatus)
    status = plan[1].body["status"]
    assert len(plan) == 2, "an Event and the status"
    assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
        ("Ready", "False", "TopicIdInUse"),
        ("Reconciled", "False", "TopicIdInUse"),
        ("Stalled", "True", "TopicIdInUse"),
        ("Conflict", "True", "TopicIdInUse"),
    ]
    # Brokers would take a second topic's settings for those of the first.
    assert "effectiveConfig" not in status
    return str(status["conditions"][0]["message"])


def test_partitions_of_an_adopting_topic_may_have_data_whenever_they_are_created() -> None:
    world = World(cluster(), adopting())
    plan = topic_plan(world)
    assert sentences(plan) == ["create Partitions orders-0 to orders-2"]
    assert isinstance(plan[0], InitialisePartitions)
    assert plan[0].status_body["status"]["topicId"] == "adopted"
    for body in plan[0].bodies:
        assert (body["spec"]["recover"], body["spec"]["topicId"]) == (True, "adopted")
        assert body["metadata"]["labels"][kinds.TOPIC_ID_LABEL] == "adopted"
        assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-orders"
    world.perform(plan)
    assert sentences(topic_plan(world)) == [
        "write status of ReplicatedTopic orders: WaitingForBrokers"
    ]
    grown = world.get(kinds.TOPIC, "orders")
    world.put({**grown, "spec": {**grown["spec"], "partitions": 4}})
    (more,) = topic_plan(world)
    assert isinstance(more, InitialisePartitions)
    assert [body["spec"]["recover"] for body in more.bodies] == [True]


def test_an_adopted_topic_is_placed_as_it_was_before() -> None:
    before, after = (
        World(cluster(), topic()),
        World(cluster(), topic("again", topicId="uid-orders")),
    )
    (first,), (again,) = topic_plan(before), topic_plan(after, "again")
    assert isinstance(first, InitialisePartitions)
    assert isinstance(again, InitialisePartitions)
    replicas = [[body["spec"]["replicas"] for body in each.bodies] for each in (first, again)]
    assert replicas[0] == replicas[1]


def with_logs(*replicas: list[int]) -> Manifest:
    """Return the cluster with logs of the adopted id: the brokers of partition 0, 1, ..."""
    stray = {
        "topicId": "adopted",
        "topicName": "orders",
        "partitions": len(replicas),
        "inTrash": True,
        "replicas": [{"partition": n, "brokers": each} for n, each in enumerate(replicas)],
    }
    other = {**stray, "topicId": "other", "replicas": [{"partition": 0, "brokers": [4]}]}
    return {**cluster(replicas=5), "status": {"strays": [other, stray]}}


def test_an_adopted_topic_is_placed_on_the_brokers_that_have_its_logs() -> None:
    (usual,) = topic_plan(World(cluster(replicas=5), adopting()))
    world = World(with_logs([4, 3, 1], [], [2]), adopting())
    (plan,) = topic_plan(world)
    assert isinstance(plan, InitialisePartitions)
    assert isinstance(usual, InitialisePartitions)
    first, second, third = (body["spec"]["replicas"] for body in plan.bodies)
    assert sorted(first) == [1, 3, 4]
    assert second == usual.bodies[1]["spec"]["replicas"]
    assert third[0] == 2
    assert len(set(third)) == 3
    preferred = [each for each in usual.bodies[0]["spec"]["replicas"] if each in first]
    assert first[: len(preferred)] == preferred
    world.perform([plan])
    world.put({**cluster(replicas=5), "status": {}})
    assert sentences(topic_plan(world))[0].endswith("WaitingForBrokers")


def test_no_log_is_left_out_of_an_adoption() -> None:
    world = World(with_logs([0, 1, 2], [0, 1, 2, 3]), adopting())
    plan = topic_plan(world)
    assert sentences(plan)[1].endswith("orders: InvalidReplicationFactor")
    assert sentences(plan)[0].endswith(
        "spec.replicationFactor is 3, but brokers [0, 1, 2, 3] have a log of partition 1, and each "
        "may have records that the others lack; create the topic with at least 4"
    )
    assert len(plan) == 2


def test_the_id_of_a_topic_that_exists_is_not_adopted() -> None:
    thief = topic("a-thief", topicId="uid-orders")
    world = World(cluster(), topic(), thief)
    assert (
        conflict(world, "a-thief") == "ReplicatedTopic orders has the topic id uid-orders already"
    )
    assert sentences(topic_plan(world)) == ["create Partitions orders-0 to orders-2"]


@pytest.mark.parametrize("cluster_of_second", ["default", "other"])
def test_of_two_topics_that_adopt_one_id_the_older_gets_it(cluster_of_second: str) -> None:
    second = adopting("a-second", clusterRef=cluster_of_second)
    second["metadata"]["creationTimestamp"] = LATER
    world = World(cluster(), adopting(), second)
    assert conflict(world, "a-second") == "ReplicatedTopic orders has the topic id adopted already"
    world.perform(topic_plan(world))
    assert sentences(topic_plan(world)) == [
        "write status of ReplicatedTopic orders: WaitingForBrokers"
    ]


def test_the_one_with_partitions_keeps_the_id_also_if_both_are_of_one_second() -> None:
    world = World(cluster(), adopting())
    world.perform(topic_plan(world))
    world.put(adopting("a-second"))
    assert "orders has the topic id" in conflict(world, "a-second")


def test_the_name_and_the_id_of_another_topic_leave_no_settings_behind() -> None:
    second = adopting("a-second", topicName="orders")
    second["metadata"]["creationTimestamp"] = LATER
    (_, status) = topic_plan(World(cluster(), adopting(), second), "a-second")
    assert isinstance(status, ApplyStatus)
    assert status.reason == "Conflict"
    assert "effectiveConfig" not in status.body["status"]


@pytest.mark.parametrize("name", ["orders-1", "before-1"])
def test_an_adoption_waits_until_partitions_of_the_deleted_topic_are_gone(name: str) -> None:
    # Its status speaks of logs that were deleted: nothing of it may be taken over.
    old = {**partition(name, "adopted", 1, owner="uid-before")}
    old["status"] = COMPLETE["Partition"]["status"]
    world = World(cluster(), adopting(), old)
    assert sentences(topic_plan(world)) == [
        "write status of ReplicatedTopic orders: WaitingForOldPartitions"
    ]
    world.remove(kinds.PARTITION, name)
    assert sentences(topic_plan(world)) == ["create Partitions orders-0 to orders-2"]


@pytest.mark.parametrize("name", ["orders-1", "before-1"])
def test_a_partition_that_nothing_deletes_is_named(name: str) -> None:
    world = World(cluster(), adopting(), partition(name, "adopted", 1))
    sentence = f"Partition {name} of no topic has the topic id adopted; delete it first"
    assert conflict(world) == sentence


def test_a_copy_of_an_adopting_topics_partition_stops_nothing() -> None:
    world = World(cluster(), adopting())
    world.perform(topic_plan(world))
    world.perform(topic_plan(world))
    world.put(partition("copy-1", "adopted", 1))
    assert sentences(topic_plan(world))[-1].endswith("orders: WaitingForBrokers")
    found = world.cache.topic("orders")
    assert found is not None
    assert (found[1].copies, found[1].leftovers) == (("copy-1",), ())


def test_a_lost_partition_of_an_adopting_topic_is_created_again() -> None:
    world = World(cluster(), adopting())
    world.perform(topic_plan(world))
    before = world.get(kinds.PARTITION, "orders-1")
    world.remove(kinds.PARTITION, "orders-1")
    plan = topic_plan(world)
    assert isinstance(plan[0], RecreatePartitions)
    assert plan[0].bodies[0]["spec"] == before["spec"]
