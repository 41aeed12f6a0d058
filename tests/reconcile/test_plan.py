"""Plans of clusters and topics: from desired and observed state to the sentences of actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline_operator import kinds, resources
from strandline_operator.actions import (
    Action,
    ApplyObject,
    ApplyStatus,
    CreateCluster,
    InitialisePartitions,
    PostEvent,
    RecreatePartitions,
    RemoveConfigMaps,
)
from strandline_operator.operator_config import CONFIG_MAPS_KEPT, OperatorConfig
from strandline_operator.plan import plan_cluster
from strandline_operator.plan_topics import plan_topic
from strandline_operator.reading import read_cluster
from tests.chart.cases import COMPLETE

from .samples import CONFIG, LATER, NOW, Manifest, World, cluster, made, partition, topic


def topic_plan(world: World, name: str = "orders", config: OperatorConfig = CONFIG) -> list[Action]:
    found = world.cache.topic(name)
    assert found is not None
    return plan_topic(*found, config, now=NOW)


def cluster_plan(world: World, now: str = NOW) -> list[Action]:
    found = world.cache.cluster("default")
    assert found is not None
    return plan_cluster(*found, CONFIG, now=now)


def sentences(actions: list[Action]) -> list[str]:
    return [str(action) for action in actions]


# --- clusters ----------------------------------------------------------------------------

CONFIG_MAP = next(
    body["metadata"]["name"]
    for body in resources.objects_of(read_cluster(cluster()), CONFIG, has_topics=False)
    if body["kind"] == "ConfigMap"
)


WITHOUT_BROKERS = [
    ("Ready", "False"),
    ("Available", "False"),
    ("MinIsrMet", "True"),
    ("SpreadMet", "Unknown"),
    ("ConfigApplied", "Unknown"),
    ("PodsCurrent", "Unknown"),
    ("Rolling", "Unknown"),
    ("DisruptionAllowed", "True"),
    ("Reconciled", "True"),
    ("Scaling", "False"),
]
"""Conditions of a cluster whose objects are written and whose brokers have not started yet."""


def former_config_map(name: str, age: int = 0) -> Manifest:
    """Return a ConfigMap of a cluster with topics, as an earlier operator applied it."""
    labels = resources.labels(read_cluster(cluster()))
    found = made(
        kinds.CONFIG_MAP, name, labels=labels, creationTimestamp=f"2026-01-01T00:00:{59 - age}Z"
    )
    return {**found, "data": {"broker.yaml": name}}


def test_a_former_config_map_stays_and_changes_nothing_but_its_owner() -> None:
    world = World(cluster(), topic(), former_config_map("default-config"))
    world.perform(cluster_plan(world))
    found = world.get(kinds.CONFIG_MAP, "default-config")
    assert found["data"] == {"broker.yaml": "default-config"}
    assert "immutable" not in found
    assert world.get(kinds.CONFIG_MAP, CONFIG_MAP)["immutable"] is True
    assert cluster_plan(world) == []
    for topics, owners in ((0, 1), (1, 0)):
        world.put(topic()) if topics else world.remove(kinds.TOPIC, "orders")
        world.perform(cluster_plan(world))
        found = world.get(kinds.CONFIG_MAP, "default-config")
        assert len(found["metadata"].get("ownerReferences", [])) == owners
        assert found["data"] == {"broker.yaml": "default-config"}


def test_former_config_maps_beyond_a_number_are_looked_at_the_oldest_first() -> None:
    count = CONFIG_MAPS_KEPT + 2
    former = [former_config_map(f"default-config-{n:02}", age=n) for n in range(count)]
    others = [former_config_map("default-configured"), former_config_map("other-config")]
    world = World(cluster(), topic(), *former[:-2], *others)
    world.perform(cluster_plan(world))
    assert cluster_plan(world) == []
    for each in former[-2:]:
        world.put(each)
    world.perform(cluster_plan(world))
    (removal,) = cluster_plan(world)
    assert isinstance(removal, RemoveConfigMaps)
    assert [each.name for each in removal.former] == [
        f"default-config-{count - 1}",
        "default-config-10",
    ]


UNCLEAN = {"uncleanLeaderElection": True}
ALLOW_UNCLEAN = (
    "kubectl patch replicatedtopic orders --type=merge -p "
    '\'{"spec":{"uncleanLeaderElection":true}}\''
)
NOT_COUNTED = "the operator may not list nodes; set spec.spread.nodes to choose"


def test_a_new_cluster_gets_everything_in_the_order_of_need() -> None:
    assert sentences(cluster_plan(World(cluster()))) == [
        "apply ServiceAccount default-broker: it is missing",
        "apply RoleBinding default-strandline-broker: it is missing",
        f"apply ConfigMap {CONFIG_MAP}: it is missing",
        "apply Service default-brokers: it is missing",
        "apply Service default-bootstrap: it is missing",
        "apply Lease default-controller: it is missing",
        "apply Broker default-0: it is missing",
        "apply Broker default-1: it is missing",
        "apply Broker default-2: it is missing",
        "apply PodDisruptionBudget default-brokers: it is missing",
        "apply StatefulSet default: it is missing",
        f"tell about BrokerCluster default: spread over nodes is Preferred: {NOT_COUNTED}",
        "write status of BrokerCluster default: BrokersNotReady",
    ]


def test_an_observed_state_as_desired_gives_an_empty_plan_at_any_time() -> None:
    world = World(cluster())
    world.perform(cluster_plan(world))
    assert cluster_plan(world, LATER) == []


@pytest.mark.parametrize(
    ("kind", "name", "change", "why"),
    [
        (kinds.SERVICE, "default-brokers", {"spec": {}}, "changed"),
        (kinds.POD_DISRUPTION_BUDGET, "default-brokers", {"spec": {}}, "changed"),
    ],
)
def test_a_changed_object_is_applied_again(
    kind: kinds.Kind, name: str, change: Manifest, why: str
) -> None:
    world = World(cluster())
    world.perform(cluster_plan(world))
    found = world.get(kind, name)
    world.put({**found, **change})
    assert sentences(cluster_plan(world)) == [f"apply {kind.kind} {name}: it is {why}"]


def test_an_orphan_that_bears_our_label_is_adopted() -> None:
    world = World(cluster())
    world.perform(cluster_plan(world))
    pods = world.get(kinds.STATEFUL_SET, "default")
    del pods["metadata"]["ownerReferences"]
    world.put(pods)
    assert sentences(cluster_plan(world)) == ["apply StatefulSet default: it is orphaned"]


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (None, "NameTaken"),
        ({"kind": "Deployment", "name": "x", "uid": "u"}, "NameTaken"),
        ({"kind": "BrokerCluster", "name": "default", "uid": "old"}, "WaitingForDeletion"),
    ],
)
def test_a_foreign_object_is_not_touched(owner: Manifest | None, reason: str) -> None:
    references = [] if owner is None else [{**owner, "apiVersion": "v1", "controller": True}]
    foreign = made(kinds.SERVICE, "default-brokers", {}, ownerReferences=references)
    plan = cluster_plan(World(cluster(), foreign))
    assert sentences(plan)[-1] == f"write status of BrokerCluster default: {reason}"
    assert not any(isinstance(action, ApplyObject) for action in plan)


def test_an_object_that_is_being_deleted_is_left_alone() -> None:
    world = World(cluster())
    world.perform(cluster_plan(world))
    going = world.get(kinds.SERVICE, "default-brokers")
    going["metadata"]["deletionTimestamp"] = NOW
    going["spec"] = {}
    world.put(going)
    assert cluster_plan(world) == []
    gone = cluster()
    gone["metadata"]["deletionTimestamp"] = NOW
    assert cluster_plan(World(gone)) == []


def test_a_cluster_owns_its_objects_only_while_it_has_no_topics() -> None:
    world = World(cluster())
    world.perform(cluster_plan(world))
    assert "ownerReferences" in world.get(kinds.STATEFUL_SET, "default")["metadata"]
    world.put(topic())
    plan = cluster_plan(world)
    changed = [each.body["kind"] for each in plan if isinstance(each, ApplyObject)]
    assert changed[-1] == "StatefulSet"
    assert "Broker" not in changed
    world.perform(plan)
    assert "ownerReferences" not in world.get(kinds.STATEFUL_SET, "default")["metadata"]
    assert world.get(kinds.CLUSTER, "default")["status"]["topics"] == 1
    world.remove(kinds.TOPIC, "orders")
    world.perform(cluster_plan(world))
    assert "ownerReferences" in world.get(kinds.STATEFUL_SET, "default")["metadata"]
    assert world.get(kinds.CLUSTER, "default")["status"]["topics"] == 0


def test_a_cluster_created_again_adopts_what_runs_and_keeps_its_brokers() -> None:
    world = World(cluster(), topic())
    world.perform(cluster_plan(world))
    again = cluster()
    again["metadata"]["uid"] = "uid-again"
    world.put({**again, "status": {}})
    assert sentences(cluster_plan(world)) == [
        "write status of BrokerCluster default: BrokersNotReady"
    ]
    broker = world.get(kinds.BROKER, "default-2")
    world.put({**broker, "status": COMPLETE["Broker"]["status"]})
    led = partition("orders-0", "uid-orders", 0)
    led["metadata"]["labels"] = {"strandline.dev/cluster": "default"}
    world.put(led)
    smaller = cluster(replicas=2)
    smaller["metadata"]["uid"] = "uid-smaller"
    world.put(smaller)
    plan = cluster_plan(world)
    assert sentences(plan)[-1] == "write status of BrokerCluster default: BrokersLeftOut"
    assert not any(isinstance(action, ApplyObject) for action in plan)
    world.perform(plan)
    assert cluster_plan(world) == [], "it does not give replicas away, as one that shrinks does"


def test_a_cluster_is_ready_with_all_brokers_and_a_controller() -> None:
    world = World({**cluster(), "status": {"controller": {"brokerId": 1, "epoch": 1}}})
    world.perform(cluster_plan(world))
    pods = world.get(kinds.STATEFUL_SET, "default")
    world.put({**pods, "status": {"readyReplicas": 3}})
    plan = cluster_plan(world, LATER)
    assert sentences(plan) == ["write status of BrokerCluster default: AllBrokersReady"]
    world.perform(plan)
    found = world.get(kinds.CLUSTER, "default")
    assert found["status"]["readyBrokers"] == 3
    assert found["status"]["conditions"][0]["lastTransitionTime"] == LATER


# --- topics ------------------------------------------------------------------------------


def test_the_first_topic_without_a_cluster_creates_the_default_one() -> None:
    world = World(topic())
    plan = topic_plan(world)
    assert sentences(plan) == [
        "create BrokerCluster default, which a topic needs",
        "write status of ReplicatedTopic orders: ClusterStarting",
    ]
    assert isinstance(plan[0], CreateCluster)
    assert plan[0].body["spec"] == {"replicas": 3, "timing": "demo"}


@pytest.mark.parametrize(
    ("reference", "config"),
    [
        ("other", CONFIG),
        (
            "default",
            replace(CONFIG, default_cluster=None),
        ),
    ],
)
def test_any_other_missing_cluster_is_reported(reference: str, config: OperatorConfig) -> None:
    plan = topic_plan(World(topic(clusterRef=reference)), config=config)
    assert sentences(plan) == [
        (
            f"tell about ReplicatedTopic orders: there is no BrokerCluster {reference}; create it, "
            "or a topic without spec.clusterRef"
        ),
        "write status of ReplicatedTopic orders: ClusterMissing",
    ]


def test_of_two_topics_of_one_second_the_one_with_partitions_keeps_the_name() -> None:
    later = topic("a-later", topicName="orders")
    world = World(cluster(), topic())
    world.perform(topic_plan(world))
    world.put(later)
    assert later["metadata"]["uid"] < "uid-orders"
    assert later["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    plan = topic_plan(world, "a-later")
    assert sentences(plan)[-1] == "write status of ReplicatedTopic a-later: Conflict"
    plan = topic_plan(world)
    assert sentences(plan) == ["write status of ReplicatedTopic orders: PartitionsOffline"]
    world.put(topic())
    assert sentences(topic_plan(world, "a-later"))[-1].endswith("a-later: Conflict")


def test_a_cluster_that_brokers_have_partitions_of_is_not_created_by_the_operator() -> None:
    led = partition("other-0", "uid-other", 0)
    led["metadata"]["labels"] = {"strandline.dev/cluster": "default"}
    assert isinstance(topic_plan(World(topic(), led))[0], CreateCluster)
    plan = topic_plan(World(topic(), {**led, "status": COMPLETE["Partition"]["status"]}))
    assert sentences(plan)[-1] == "write status of ReplicatedTopic orders: ClusterLost"
    assert sentences(plan)[0] == (
        "tell about ReplicatedTopic orders: BrokerCluster default is gone, but brokers have its "
        "partitions, such as other-0; create it again as it was"
    )


def test_new_partitions_are_created_by_the_pass_that_raises_the_number() -> None:
    world = World(cluster(), topic())
    plan = topic_plan(world)
    assert sentences(plan) == ["create Partitions orders-0 to orders-2"]
    action = plan[0]
    assert isinstance(action, InitialisePartitions)
    assert action.status_body["metadata"]["resourceVersion"] == "7"
    assert action.status_body["status"]["partitionsInitialised"] == 3
    assert action.status_body["status"]["topicId"] == "uid-orders"
    assert action.status_body["status"]["effectiveConfig"]["minInsyncReplicas"] == 2
    assert [body["spec"]["recover"] for body in action.bodies] == [False] * 3
    assert {body["spec"]["topicId"] for body in action.bodies} == {"uid-orders"}
    world.perform(plan)
    plan = topic_plan(world)
    assert sentences(plan) == ["write status of ReplicatedTopic orders: PartitionsOffline"]
    world.perform(topic_plan(world))
    assert topic_plan(world) == []


@pytest.mark.parametrize(
    ("reason", "spec", "shown", "command"),
    [
        ("UncleanLastReplica", {}, "UncleanLastReplica", ALLOW_UNCLEAN),
        ("UncleanLastReplica", UNCLEAN, "PartitionsOffline", "orders-1 (UncleanLastReplica)"),
        ("StateLost", {}, "StateLost", "strandline recover orders-1 --without IDS"),
        ("NoLiveIsrMember", {}, "PartitionsOffline", "orders-1 (waits for broker 0 or 1 or 2)"),
    ],
)
def test_a_topic_without_leaders_names_the_command_that_helps(
    reason: str, spec: dict[str, Any], shown: str, command: str
) -> None:
    world = World(cluster(), topic(**spec))
    world.perform(topic_plan(world))
    led = {**COMPLETE["Partition"]["status"], "reason": ""}
    for number in range(3):
        state = {**led, "leader": -1, "reason": reason} if number == 1 else led
        found = world.get(kinds.PARTITION, f"orders-{number}")
        world.put({**found, "status": state})
    plan = topic_plan(world)
    assert sentences(plan)[-1] == f"write status of ReplicatedTopic orders: {shown}"
    action = plan[-1]
    assert isinstance(action, ApplyStatus)
    message = action.body["status"]["conditions"][0]["message"]
    assert message.startswith("2 of 3 partitions have a leader")
    assert message.endswith(command)


def test_growth_creates_only_what_is_added() -> None:
    world = World(cluster(), topic())
    world.perform(topic_plan(world))
    found = world.get(kinds.TOPIC, "orders")
    world.put({**found, "spec": {**found["spec"], "partitions": 5}})
    assert sentences(topic_plan(world)) == ["create Partitions orders-3 to orders-4"]


def test_a_partition_missing_below_the_number_may_have_been_lost() -> None:
    world = World(cluster(), topic())
    world.perform(topic_plan(world))
    before = world.get(kinds.PARTITION, "orders-1")
    world.remove(kinds.PARTITION, "orders-1")
    plan = topic_plan(world)
    assert sentences(plan)[0] == "create Partition orders-1 again: it is missing"
    assert isinstance(plan[0], RecreatePartitions)
    assert plan[0].bodies[0]["spec"] == {**before["spec"], "recover": True}
    world.perform(plan)
    (status,) = topic_plan(world)
    assert isinstance(status, ApplyStatus)
    condition = status.body["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "WaitingForBrokers")
    assert "partitions [1]" in condition["message"]


def test_full_volumes_are_told_of_once_and_again_when_they_have_room() -> None:
    world = World(cluster())
    world.perform(cluster_plan(world))
    world.perform(cluster_plan(world))
    registered = {
        "brokerEpoch": 5,
        "cleanSinceEpoch": 1,
        "incarnation": "a/1",
        "listeners": [{"name": "INTERNAL", "host": "h", "port": 1}],
        "logDirId": "d",
        "protocolVersion": 1,
    }
    for name, is_full in (("default-0", True), ("default-1", False), ("default-2", True)):
        status = {**registered, "volumeFull": True} if is_full else registered
        world.put({**world.get(kinds.BROKER, name), "status": status})
    plan = cluster_plan(world)
    (event,) = [action for action in plan if isinstance(action, PostEvent)]
    assert (event.reason, event.is_warning) == ("VolumesFull", True)
    assert "brokers [0, 2] refuse records of clients" in event.message
    assert "delete topics or records, shorten retention, or enlarge the volumes" in event.message
    world.perform(plan)
    written = world.get(kinds.CLUSTER, "default")["status"]
    held = [(each["type"], each["status"]) for each in written["conditions"]]
    assert held == [*WITHOUT_BROKERS, ("VolumesFull", "True")]
    assert cluster_plan(world) == []

    for name in ("default-0", "default-2"):
        world.put({**world.get(kinds.BROKER, name), "status": registered})
    plan = cluster_plan(world)
    (event,) = [action for action in plan if isinstance(action, PostEvent)]
    assert (event.reason, event.is_warning) == ("VolumesHaveRoom", False)
    world.perform(plan)
    written = world.get(kinds.CLUSTER, "default")["status"]
    held = [(each["type"], each["status"]) for each in written["conditions"]]
    assert held == WITHOUT_BROKERS
    assert cluster_plan(world) == []


def test_a_topic_waits_until_partitions_of_its_predecessor_are_gone() -> None:
    old = partition("orders-1", "uid-old", 1)
    plan = topic_plan(World(cluster(), topic(), old))
    assert sentences(plan) == ["write status of ReplicatedTopic orders: WaitingForOldPartitions"]
    assert isinstance(plan[0], ApplyStatus)
    condition = plan[0].body["status"]["conditions"][0]
    assert condition["message"] == "Partition orders-1 of a deleted topic is not gone yet"


def test_a_second_object_of_a_partition_is_told_of_once_until_it_is_gone() -> None:
    world = World(cluster(), topic(), partition("copy-0", "uid-orders", 0))
    plan = topic_plan(world)
    told = [str(action) for action in plan if isinstance(action, PostEvent)]
    assert told == [
        (
            "tell about ReplicatedTopic orders: Partitions ['copy-0'] have this topic's id under "
            "names of their own; they have no effect: delete them, annotated with "
            "strandline.dev/deletion=allowed"
        ),
    ]
    world.perform(plan)
    assert not any(isinstance(action, PostEvent) for action in topic_plan(world))
    world.perform(topic_plan(world))
    assert topic_plan(world) == []
    world.remove(kinds.PARTITION, "copy-0")
    world.perform(topic_plan(world))
    conditions = world.get(kinds.TOPIC, "orders")["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == [
        "Ready",
        "Reconciled",
        "ConfigApplied",
    ]


def test_of_two_topics_with_one_name_the_younger_is_refused() -> None:
    older, younger = topic("zebra", topicName="orders"), topic("orders")
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    world = World(cluster(), older, younger)
    plan = topic_plan(world, "orders")
    assert sentences(plan) == [
        (
            "tell about ReplicatedTopic orders: ReplicatedTopic zebra is older and has the name "
            "orders already"
        ),
        "write status of ReplicatedTopic orders: Conflict",
    ]
    world.perform(plan)
    assert topic_plan(world, "orders") == []
    assert sentences(topic_plan(world, "zebra")) == ["create Partitions zebra-0 to zebra-2"]


def test_one_name_in_two_clusters_is_no_conflict() -> None:
    older, younger = topic("zebra", topicName="orders", clusterRef="other"), topic("orders")
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    plan = topic_plan(World(cluster(), older, younger), "orders")
    assert sentences(plan) == ["create Partitions orders-0 to orders-2"]


def test_more_replicas_than_brokers_are_refused() -> None:
    plan = topic_plan(World(cluster(), topic(replicationFactor=5)))
    assert sentences(plan) == [
        (
            "tell about ReplicatedTopic orders: spec.replicationFactor is 5, but cluster default "
            "has 3 brokers"
        ),
        "write status of ReplicatedTopic orders: InvalidReplicationFactor",
    ]


def test_a_topic_that_is_being_deleted_is_left_alone() -> None:
    going = topic()
    going["metadata"]["deletionTimestamp"] = NOW
    assert topic_plan(World(cluster(), going)) == []
