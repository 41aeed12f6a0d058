"""Manifests: the brokers' settings and pods, owners and labels, and resourceVersions."""

from __future__ import annotations

import yaml

from strandline.model import BrokerId
from strandline_operator import resources
from strandline_operator.actions import PostEvent
from strandline_operator.observe import read_cluster, read_topic

from .samples import CONFIG, NOW, cluster, topic


def test_the_brokers_configuration_carries_kafkas_keys() -> None:
    given = cluster(config={"logFlushIntervalMessages": 1, "replicaLagTimeMaxMs": 5000})
    config_map = next(
        body
        for body in resources.objects_of(read_cluster(given), CONFIG)
        if body["kind"] == "ConfigMap"
    )
    assert yaml.safe_load(config_map["data"]["broker.yaml"]) == {
        "timing": "demo",
        "log.flush.interval.messages": 1,
        "replica.lag.time.max.ms": 5000,
    }


def test_brokers_are_restricted_pods_that_the_operator_alone_rolls() -> None:
    pods = resources.objects_of(read_cluster(cluster()), CONFIG)[-1]
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


def test_every_object_of_a_cluster_has_its_owner_reference_label_and_digest() -> None:
    bodies = resources.objects_of(read_cluster(cluster()), CONFIG)
    for body in bodies:
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("BrokerCluster", "uid-default")
        assert body["metadata"]["labels"]["strandline.dev/cluster"] == "default"
    assert all(body["metadata"]["annotations"]["strandline.dev/applied"] for body in bodies)


def test_a_partition_names_its_topic_cluster_and_replicas() -> None:
    given = read_topic(topic(topicName="sales.orders"))
    body = resources.partition(given, 4, (BrokerId(2), BrokerId(0)), recover=True)
    assert body["metadata"]["name"] == "orders-4"
    assert body["metadata"]["labels"]["strandline.dev/cluster"] == "default"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-orders"
    assert body["spec"] == {
        "topicId": "uid-orders",
        "topicName": "sales.orders",
        "partition": 4,
        "replicas": [2, 0],
        "recover": True,
    }


def test_a_status_carries_a_version_only_if_it_is_a_compare_and_swap() -> None:
    owner = read_topic(topic()).ref
    assert resources.status_of(owner, {})["metadata"] == {"name": "orders"}
    assert resources.status_of(owner, {}, resource_version="7")["metadata"] == {
        "name": "orders",
        "resourceVersion": "7",
    }


def test_an_event_names_its_object_and_its_message_is_bounded() -> None:
    posted = PostEvent(about=read_topic(topic()).ref, reason="Conflict", message="x" * 2_000)
    body = resources.event(posted, namespace="here", now=NOW, suffix="1")
    assert (body["type"], len(body["message"])) == ("Warning", 1_024)
    assert body["involvedObject"]["uid"] == "uid-orders"
