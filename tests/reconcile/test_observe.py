"""The cache turns dicts into values, and its snapshots have the facts about one object."""

from __future__ import annotations

import pytest

from strandline.errors import ObjectMalformed
from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL
from strandline.model import BrokerEpoch, BrokerId
from strandline_operator import kinds
from strandline_operator.observe import Cache
from strandline_operator.observed import Ownership
from strandline_operator.reading import read_cluster, read_object, read_partition, read_topic
from strandline_operator.topic_settings import effective_config

from .samples import World, cluster, made, partition, pod, topic

REGISTERED = {
    "brokerEpoch": 5,
    "cleanSinceEpoch": 1,
    "incarnation": "a/1",
    "listeners": [{"name": "INTERNAL", "host": "h", "port": 1}],
    "logDirId": "d",
    "protocolVersion": 1,
}


def test_a_cluster_is_seen_with_objects_that_have_the_names_of_its_parts() -> None:
    label = {"strandline.dev/cluster": "default"}
    broker = made(kinds.BROKER, "default-1", {"brokerId": 1}, labels=label)
    world = World(
        cluster(),
        {**broker, "status": REGISTERED},
        made(kinds.BROKER, "default-2", {"brokerId": 2}, labels=label),
        {**made(kinds.STATEFUL_SET, "default", {}), "status": {"readyReplicas": 2}},
        made(kinds.SERVICE, "defaults-brokers", {}),
    )
    found = world.cache.cluster("default")
    assert found is not None
    _, observed = found
    assert sorted(observed.parts) == [
        ("Broker", "default-1"),
        ("Broker", "default-2"),
        ("StatefulSet", "default"),
    ]
    assert observed.parts["StatefulSet", "default"][0] is Ownership.FOREIGN
    assert observed.broker_epochs == {BrokerId(1): BrokerEpoch(5)}
    assert (observed.ready_brokers, observed.has_controller) == (2, False)


def test_a_topic_is_seen_with_its_own_partitions_and_those_that_are_left_over() -> None:
    world = World(
        topic(),
        partition("orders-0", "uid-orders", 0),
        partition("orders-1", "uid-old", 1),
        partition("orders-9", "uid-orders", 9),
        partition("copy-0", "uid-orders", 0),
    )
    found = world.cache.topic("orders")
    assert found is not None
    _, observed = found
    assert sorted(observed.partitions) == [0]
    assert [left.stored.name for left in observed.leftovers] == ["orders-1"]
    assert observed.copies == ("copy-0",)
    for name, of in (("orders-0", "orders"), ("copy-0", "orders"), ("orders-1", None)):
        topic_id = "uid-old" if of is None else "uid-orders"
        stored = read_partition(partition(name, topic_id, 0)).stored
        assert world.cache.topic_of(stored) == of
    assert (observed.partitions_initialised, observed.cluster) == (None, None)


def test_a_cluster_counts_no_second_object_of_a_partition() -> None:
    labels = {CLUSTER_LABEL: "default"}
    found = [partition("orders-0", "uid-orders", 0), partition("copy-0", "uid-orders", 0)]
    found.append(partition("old-0", "uid-old", 0))
    labelled = [{**each, "metadata": {**each["metadata"], "labels": labels}} for each in found]
    snapshot = World(cluster(), topic(), *labelled).cache.cluster("default")
    assert snapshot is not None
    assert [each.name for each in snapshot[1].partitions] == ["orders-0", "old-0"]


def test_topics_that_show_another_setting_than_their_cluster_are_behind() -> None:
    settings = effective_config(read_topic(topic()), read_cluster(cluster(deleteTopicEnable=False)))
    shown = topic("shown", status={"effectiveConfig": settings})
    elsewhere = topic("elsewhere", clusterRef="other")
    world = World(cluster(deleteTopicEnable=False), shown, topic("new"), elsewhere)
    assert world.cache.topics_behind("default") == ["new"]
    assert world.cache.topics_behind("other") == []
    world.put(cluster(deleteTopicEnable=False, config={"logRetentionMs": 5}))
    assert world.cache.topics_behind("default") == ["new", "shown"]
    world.put(cluster(deleteTopicEnable=False, config={"logDirFillMax": 0.5}))
    assert world.cache.topics_behind("default") == ["new"]


def test_a_missing_object_is_not_seen() -> None:
    cache = Cache()
    assert cache.cluster("default") is None
    assert cache.topic("orders") is None


def test_lists_leave_kind_and_version_out_and_nothing_is_planned_from_managed_fields() -> None:
    listed = made(kinds.SERVICE, "default-brokers", {"a": 1}, managedFields=[{}])
    whole = {key: value for key, value in listed.items() if key not in {"kind", "apiVersion"}}
    found = read_object(kinds.SERVICE, whole)
    assert found.shows({"kind": "Service", "apiVersion": "v1", "spec": {"a": 1}})
    assert not found.shows({"metadata": {"managedFields": [{}]}})
    assert not found.shows({"spec": {"a": 1, "b": 2}})


def test_a_malformed_object_does_not_replace_the_known_one() -> None:
    world = World(topic(), partition("orders-0", "uid-orders", 0))
    bad = partition("orders-1", "uid-orders", 1)
    del bad["spec"]["replicas"]
    with pytest.raises(ObjectMalformed):
        world.cache.put(kinds.PARTITION, bad)
    with pytest.raises(ObjectMalformed):
        world.cache.replace(kinds.PARTITION, [bad])
    assert world.cache.has(kinds.PARTITION, "orders-0")


def test_a_created_object_does_not_replace_a_watched_one() -> None:
    world = World(topic(partitions=7))
    world.cache.put_new(kinds.TOPIC, topic(partitions=1))
    world.cache.put_new(kinds.TOPIC, topic("other"))
    assert [each.partitions for each in world.cache.topics()] == [7, 3]


def test_the_end_of_an_object_that_is_told_late_leaves_the_next_one_of_its_name() -> None:
    """The queues of kopf are by uid, so the next pod of a name may be shown first."""
    cache = World(pod("default-0")).cache
    following = pod("default-0")
    following["metadata"] |= {"uid": "uid-of-the-next", "resourceVersion": "9"}
    ended = pod("default-0")
    ended["metadata"]["resourceVersion"] = "8"
    cache.put(kinds.POD, following)
    cache.put(kinds.POD, ended)
    cache.went(kinds.POD, ended)
    assert cache.has(kinds.POD, "default-0")
    following["metadata"]["resourceVersion"] = "10"
    cache.went(kinds.POD, following)
    assert not cache.has(kinds.POD, "default-0")


def test_an_object_of_a_restored_store_is_remembered_with_its_lower_version() -> None:
    world = World(topic(partitions=7))
    restored = at("3", 5)
    world.cache.put(kinds.TOPIC, restored)
    assert [each.partitions for each in world.cache.topics()] == [5]
    world.cache.went(kinds.TOPIC, restored)
    assert world.cache.topics() == []


def at(version: str, partitions: int) -> Object:
    """Return the topic at a version of its object."""
    found = topic(partitions=partitions)
    found["metadata"]["resourceVersion"] = version
    return found


def test_a_late_event_does_not_take_back_what_the_operator_has_written() -> None:
    cache = World(topic()).cache

    def shown(value: Object) -> int:
        cache.put(kinds.TOPIC, value)
        (only,) = cache.topics()
        return only.partitions

    cache.put_written(kinds.TOPIC, at("20", 5))
    assert shown(at("19", 3)) == 5
    assert shown(at("20", 5)) == 5
    assert shown(at("18", 3)) == 3, "a restored store has lower versions"


def test_an_answer_that_comes_after_a_watch_does_not_take_back_what_that_showed() -> None:
    cache = World(topic()).cache
    cache.put(kinds.TOPIC, at("21", 7))
    cache.put_written(kinds.TOPIC, at("20", 5))
    assert [each.partitions for each in cache.topics()] == [7]


def test_a_list_replaces_everything_of_its_kind() -> None:
    world = World(topic(), topic("gone"), cluster())
    world.cache.replace(kinds.TOPIC, [topic("new")])
    assert [each.ref.name for each in world.cache.topics()] == ["new"]
    assert [each.ref.name for each in world.cache.clusters()] == ["default"]
