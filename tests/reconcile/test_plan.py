"""Plans as values: what is desired and observed, and the sentences of what will be done."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from strandline_operator import kinds, resources
from strandline_operator.actions import (
    Action,
    ApplyObject,
    ApplyStatus,
    CreateCluster,
    InitialisePartitions,
    PostEvent,
    RecreatePartition,
)
from strandline_operator.observe import Cache
from strandline_operator.operator_config import OperatorConfig
from strandline_operator.plan import effective_config, plan_cluster, plan_topic

Manifest = dict[str, Any]

NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:09:05Z"
CONFIG = OperatorConfig(
    namespace="here",
    broker_role="strandline-broker",
    broker_image="strandline/broker:1",
    default_cluster={"replicas": 3, "timing": "demo"},
)


def made(kind: kinds.Kind, name: str, spec: Manifest | None = None, **metadata: Any) -> Manifest:
    """Return an object as the API server would show it."""
    whole: Manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
    }
    return whole if spec is None else {**whole, "spec": spec}


def cluster(**spec: Any) -> Manifest:
    wanted = {"replicas": 3, "timing": "demo", "storage": {"size": "1Gi"}, "config": {}}
    return made(kinds.CLUSTER, "default", {**wanted, **spec})


def topic(name: str = "orders", *, status: Manifest | None = None, **spec: Any) -> Manifest:
    wanted = {"clusterRef": "default", "partitions": 3, "replicationFactor": 3, "config": {}}
    whole = made(kinds.TOPIC, name, {**wanted, **spec})
    return whole if status is None else {**whole, "status": status}


def seen(*objects: Manifest) -> Cache:
    cache = Cache()
    for value in objects:
        cache.put(kinds.KIND_OF[value["kind"]], value)
    return cache


def topic_plan(cache: Cache, name: str = "orders", config: OperatorConfig = CONFIG) -> list[Action]:
    observed = cache.topic(name)
    assert observed is not None
    return plan_topic(observed, config, now=NOW)


def cluster_plan(cache: Cache, now: str = NOW) -> list[Action]:
    observed = cache.cluster("default")
    assert observed is not None
    return plan_cluster(observed, CONFIG, now=now)


def sentences(actions: list[Action]) -> list[str]:
    return [str(action) for action in actions]


def performed(cache: Cache, actions: list[Action]) -> None:
    """Make the world what the actions want, as the API server would."""
    for action in actions:
        match action:
            case ApplyObject(body=body) | CreateCluster(body=body) | RecreatePartition(body=body):
                _store(cache, body)
            case ApplyStatus(body=body):
                _store_status(cache, body)
            case InitialisePartitions(status_body=status, bodies=bodies):
                _store_status(cache, status)
                for body in bodies:
                    _store(cache, body)
            case PostEvent():
                pass


def _store(cache: Cache, body: Manifest) -> None:
    whole = copy.deepcopy(body)
    whole["metadata"].update(uid=f"uid-{body['metadata']['name']}", resourceVersion="8")
    cache.put(kinds.KIND_OF[body["kind"]], whole)


def _store_status(cache: Cache, body: Manifest) -> None:
    kind = kinds.KIND_OF[body["kind"]]
    found = cache.get(kind, body["metadata"]["name"])
    assert found is not None
    kept = {key: found["status"][key] for key in ("controller",) if key in found.get("status", {})}
    cache.put(kind, {**found, "status": {**kept, **body["status"]}})


# --- clusters ----------------------------------------------------------------------------


def test_a_new_cluster_gets_everything_in_the_order_of_need() -> None:
    assert sentences(cluster_plan(seen(cluster()))) == [
        "apply ServiceAccount default-broker: it is missing",
        "apply RoleBinding default-broker: it is missing",
        "apply ConfigMap default-config: it is missing",
        "apply Service default-brokers: it is missing",
        "apply Service default-bootstrap: it is missing",
        "apply Lease default-controller: it is missing",
        "apply Broker default-0: it is missing",
        "apply Broker default-1: it is missing",
        "apply Broker default-2: it is missing",
        "apply PodDisruptionBudget default-brokers: it is missing",
        "apply StatefulSet default: it is missing",
        "status of BrokerCluster default: BrokersNotReady",
    ]


def test_a_world_as_wanted_gives_an_empty_plan_at_any_time() -> None:
    cache = seen(cluster())
    performed(cache, cluster_plan(cache))
    assert cluster_plan(cache, LATER) == []


@pytest.mark.parametrize(
    ("kind", "name", "change", "why"),
    [
        (kinds.SERVICE, "default-brokers", {"spec": {}}, "changed"),
        (kinds.CONFIG_MAP, "default-config", {"data": {"broker.yaml": "{}"}}, "changed"),
    ],
)
def test_what_was_changed_is_applied_again(
    kind: kinds.Kind, name: str, change: Manifest, why: str
) -> None:
    cache = seen(cluster())
    performed(cache, cluster_plan(cache))
    found = cache.get(kind, name)
    assert found is not None
    cache.put(kind, {**found, **change})
    assert sentences(cluster_plan(cache)) == [f"apply {kind.kind} {name}: it is {why}"]


def test_an_orphan_that_bears_our_label_is_adopted() -> None:
    cache = seen(cluster())
    performed(cache, cluster_plan(cache))
    pods = copy.deepcopy(cache.get(kinds.STATEFUL_SET, "default"))
    assert pods is not None
    del pods["metadata"]["ownerReferences"]
    cache.put(kinds.STATEFUL_SET, pods)
    assert sentences(cluster_plan(cache)) == ["apply StatefulSet default: it is orphaned"]


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (None, "NameTaken"),
        ({"kind": "Deployment", "name": "x", "uid": "u"}, "NameTaken"),
        ({"kind": "BrokerCluster", "name": "default", "uid": "old"}, "WaitingForDeletion"),
    ],
)
def test_what_is_not_ours_is_not_touched(owner: Manifest | None, reason: str) -> None:
    references = [] if owner is None else [{**owner, "apiVersion": "v1", "controller": True}]
    foreign = made(kinds.SERVICE, "default-brokers", {}, ownerReferences=references)
    plan = cluster_plan(seen(cluster(), foreign))
    assert sentences(plan)[0] == f"status of BrokerCluster default: {reason}"
    assert not any(isinstance(action, ApplyObject) for action in plan)


def test_what_is_being_deleted_is_left_alone() -> None:
    cache = seen(cluster())
    performed(cache, cluster_plan(cache))
    going = copy.deepcopy(cache.get(kinds.SERVICE, "default-brokers"))
    assert going is not None
    going["metadata"]["deletionTimestamp"] = NOW
    going["spec"] = {}
    cache.put(kinds.SERVICE, going)
    assert cluster_plan(cache) == []
    gone = cluster()
    gone["metadata"]["deletionTimestamp"] = NOW
    assert cluster_plan(seen(gone)) == []


def test_a_cluster_is_ready_with_all_brokers_and_a_controller() -> None:
    cache = seen({**cluster(), "status": {"controller": {"brokerId": 1, "epoch": 1}}})
    performed(cache, cluster_plan(cache))
    pods = cache.get(kinds.STATEFUL_SET, "default")
    assert pods is not None
    cache.put(kinds.STATEFUL_SET, {**pods, "status": {"readyReplicas": 3}})
    plan = cluster_plan(cache, LATER)
    assert sentences(plan) == ["status of BrokerCluster default: AllBrokersReady"]
    performed(cache, plan)
    found = cache.get(kinds.CLUSTER, "default")
    assert found is not None
    assert found["status"]["readyBrokers"] == 3
    assert found["status"]["conditions"][0]["lastTransitionTime"] == LATER


def test_the_brokers_configuration_carries_kafkas_keys() -> None:
    given = cluster(config={"logFlushIntervalMessages": 1, "replicaLagTimeMaxMs": 5000})
    config_map = next(
        body for body in resources.objects_of(given, CONFIG) if body["kind"] == "ConfigMap"
    )
    assert yaml.safe_load(config_map["data"]["broker.yaml"]) == {
        "timing": "demo",
        "log.flush.interval.messages": 1,
        "replica.lag.time.max.ms": 5000,
    }


def test_brokers_are_restricted_pods_that_the_operator_alone_rolls() -> None:
    pods = resources.objects_of(cluster(), CONFIG)[-1]
    assert pods["kind"] == "StatefulSet"
    spec = pods["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    container = spec["template"]["spec"]["containers"][0]
    assert container["command"] == ["tini", "--"]
    assert {item["name"] for item in container["env"]} == {
        "POD_NAME",
        "POD_UID",
        "POD_IP",
        "NAMESPACE",
        "CLUSTER_NAME",
    }
    assert {item["name"]: item["containerPort"] for item in container["ports"]} == {
        "kafka": 9092,
        "grpc": 9090,
        "http": 8080,
    }
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert spec["template"]["spec"]["securityContext"]["runAsNonRoot"] is True


# --- topics ------------------------------------------------------------------------------


def test_the_first_topic_without_a_cluster_creates_the_default_one() -> None:
    cache = seen(topic())
    plan = topic_plan(cache)
    assert sentences(plan) == [
        "create BrokerCluster default, which a topic needs",
        "status of ReplicatedTopic orders: ClusterStarting",
    ]
    assert isinstance(plan[0], CreateCluster)
    assert plan[0].body["spec"] == {"replicas": 3, "timing": "demo"}


@pytest.mark.parametrize(
    ("reference", "config"),
    [
        ("other", CONFIG),
        (
            "default",
            OperatorConfig(namespace="here", broker_role="r", broker_image="i"),
        ),
    ],
)
def test_any_other_missing_cluster_is_told(reference: str, config: OperatorConfig) -> None:
    plan = topic_plan(seen(topic(clusterRef=reference)), config=config)
    assert sentences(plan) == [
        "status of ReplicatedTopic orders: ClusterMissing",
        (
            f"tell about ReplicatedTopic orders: there is no BrokerCluster {reference}; create it, "
            "or a topic without spec.clusterRef"
        ),
    ]


def test_new_partitions_are_created_by_the_pass_that_raises_the_number() -> None:
    cache = seen(cluster(), topic())
    plan = topic_plan(cache)
    assert sentences(plan) == ["create Partitions orders-0 to orders-2"]
    action = plan[0]
    assert isinstance(action, InitialisePartitions)
    assert action.status_body["metadata"]["resourceVersion"] == "7"
    assert action.status_body["status"]["partitionsInitialised"] == 3
    assert action.status_body["status"]["topicId"] == "uid-orders"
    assert action.status_body["status"]["effectiveConfig"]["minInsyncReplicas"] == 2
    assert [body["spec"]["recover"] for body in action.bodies] == [False] * 3
    assert {body["spec"]["topicId"] for body in action.bodies} == {"uid-orders"}
    performed(cache, plan)
    assert sentences(topic_plan(cache)) == ["status of ReplicatedTopic orders: PartitionsOffline"]
    performed(cache, topic_plan(cache))
    assert topic_plan(cache) == []


def test_growth_creates_only_what_is_added() -> None:
    cache = seen(cluster(), topic())
    performed(cache, topic_plan(cache))
    found = cache.get(kinds.TOPIC, "orders")
    assert found is not None
    cache.put(kinds.TOPIC, {**found, "spec": {**found["spec"], "partitions": 5}})
    assert sentences(topic_plan(cache)) == ["create Partitions orders-3 to orders-4"]


def test_a_partition_missing_below_the_number_was_lost() -> None:
    cache = seen(cluster(), topic())
    performed(cache, topic_plan(cache))
    before = cache.get(kinds.PARTITION, "orders-1")
    cache.remove(kinds.PARTITION, "orders-1")
    plan = topic_plan(cache)
    assert sentences(plan)[0] == "create Partition orders-1 again: it was lost"
    assert isinstance(plan[0], RecreatePartition)
    assert before is not None
    assert plan[0].body["spec"] == {**before["spec"], "recover": True}


def test_a_topic_waits_until_partitions_of_its_predecessor_are_gone() -> None:
    old = made(kinds.PARTITION, "orders-1", {"topicId": "uid-old"})
    plan = topic_plan(seen(cluster(), topic(), old))
    assert sentences(plan) == ["status of ReplicatedTopic orders: WaitingForOldPartitions"]


def test_of_two_topics_with_one_name_the_younger_is_refused() -> None:
    older, younger = topic("zebra", topicName="orders"), topic("orders")
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    cache = seen(cluster(), older, younger)
    plan = topic_plan(cache, "orders")
    assert sentences(plan) == [
        "status of ReplicatedTopic orders: Conflict",
        (
            "tell about ReplicatedTopic orders: ReplicatedTopic zebra is older and has the name "
            "orders already"
        ),
    ]
    performed(cache, plan)
    assert topic_plan(cache, "orders") == []
    assert sentences(topic_plan(cache, "zebra")) == ["create Partitions zebra-0 to zebra-2"]


def test_one_name_in_two_clusters_is_no_conflict() -> None:
    older, younger = topic("zebra", topicName="orders", clusterRef="other"), topic("orders")
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    plan = topic_plan(seen(cluster(), older, younger), "orders")
    assert sentences(plan) == ["create Partitions orders-0 to orders-2"]


def test_more_replicas_than_brokers_are_refused() -> None:
    plan = topic_plan(seen(cluster(), topic(replicationFactor=5)))
    assert sentences(plan) == [
        "status of ReplicatedTopic orders: InvalidReplicationFactor",
        (
            "tell about ReplicatedTopic orders: spec.replicationFactor is 5, but cluster default "
            "has 3 brokers"
        ),
    ]


def test_a_topic_that_is_being_deleted_is_left_alone() -> None:
    going = topic()
    going["metadata"]["deletionTimestamp"] = NOW
    assert topic_plan(seen(cluster(), going)) == []


@pytest.mark.parametrize(
    ("factor", "own", "expected"), [(3, {}, 2), (1, {}, 1), (2, {}, 1), (3, {"x": 3}, 3)]
)
def test_min_isr_is_one_less_than_the_replicas_unless_given(
    factor: int, own: dict[str, int], expected: int
) -> None:
    config = {"minInsyncReplicas": own["x"]} if own else {}
    given = topic(replicationFactor=factor, config=config)
    assert effective_config(given, cluster())["minInsyncReplicas"] == expected


def test_a_topics_own_setting_precedes_the_clusters_and_that_kafkas() -> None:
    shared = cluster(config={"logSegmentBytes": 2_000_000, "logFlushIntervalMessages": 5})
    own = effective_config(topic(config={"segmentBytes": 1_000_000}), shared)
    assert own == {
        "minInsyncReplicas": 2,
        "segmentBytes": 1_000_000,
        "maxMessageBytes": 1_048_588,
        "flushMessages": 5,
    }
