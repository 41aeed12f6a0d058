"""Manifests: the brokers' settings and pods, owners and labels, and resourceVersions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from strandline.config.broker import SINCE
from strandline.model import BrokerId
from strandline_operator import resources
from strandline_operator.actions import PostEvent
from strandline_operator.broker_settings import BROKER_KEYS, file_text
from strandline_operator.reading import read_cluster, read_topic

from .samples import CONFIG, NOW, Manifest, cluster, topic


def config_map_of(**config: int) -> Manifest:
    bodies = resources.objects_of(read_cluster(cluster(config=config)), CONFIG, has_topics=True)
    return next(body for body in bodies if body["kind"] == "ConfigMap")


def test_the_brokers_configuration_carries_kafkas_keys() -> None:
    config_map = config_map_of(
        logDirFillMax=1, logFlushIntervalMessages=1, replicaLagTimeMaxMs=5000
    )
    assert yaml.safe_load(config_map["data"]["broker.yaml"]) == {
        "timing": "demo",
        "replica.lag.time.max.ms": 5000,
    }


def test_a_key_is_marked_with_the_version_that_first_had_it() -> None:
    since = {key: SINCE[key] for key in BROKER_KEYS.values()}
    assert since == {
        "replica.lag.time.max.ms": 1,
        "log.segment.bytes": 1,
        "log.flush.interval.messages": 1,
        "message.max.bytes": 1,
        "log.retention.ms": 2,
        "log.retention.bytes": 2,
        "log.roll.ms": 2,
        "log.retention.check.interval.ms": 2,
        "log.dir.fill.max": 2,
        "log.trash.retention.ms": 2,
        "log.trash.retention.bytes": 2,
        "leader.replication.throttled.rate": 4,
        "follower.replication.throttled.rate": 5,
    }, "a new key gets the next version: brokers of this one must know that they cannot know it"
    text = file_text({"log.roll.ms": 5, "log.segment.bytes": 20_000})
    assert yaml.safe_load(text)["keys.since"] == {"log.roll.ms": 2}


def test_each_configuration_has_an_immutable_config_map_that_the_pods_name() -> None:
    names = set()
    for config in ({}, {"replicaLagTimeMaxMs": 5_000}, {"replicaLagTimeMaxMs": 6_000}):
        given = read_cluster(cluster(config=config))
        bodies = resources.objects_of(given, CONFIG, has_topics=True)
        (config_map,) = (body for body in bodies if body["kind"] == "ConfigMap")
        assert config_map["immutable"] is True
        name = config_map["metadata"]["name"]
        assert resources.config_maps_named(bodies[-1]["spec"]["template"]["spec"]) == {name}
        assert config_map["metadata"]["name"].startswith("default-config-")
        names.add(name)
    assert len(names) == 3


def test_brokers_are_restricted_pods_that_the_operator_alone_rolls() -> None:
    pods = resources.objects_of(read_cluster(cluster()), CONFIG, has_topics=True)[-1]
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
        "NODE_IP",
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


@pytest.mark.parametrize(
    ("size", "seconds"), [("64Mi", 32), ("1Gi", 62), ("1G", 60), ("10Gi", 330), ("5Ti", 330)]
)
def test_a_broker_may_take_the_time_that_its_end_needs(size: str, seconds: int) -> None:
    given = read_cluster(cluster(storage={"size": size}))
    pods = resources.objects_of(given, CONFIG, has_topics=True)[-1]
    assert pods["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == seconds


def test_what_cannot_be_changed_depends_on_nothing_that_may_change() -> None:
    given = read_cluster(cluster())
    bodies = resources.objects_of(given, CONFIG, has_topics=True)
    renamed = replace(CONFIG, broker_role="other-broker", broker_user=7)
    others = resources.objects_of(given, renamed, has_topics=False)
    for body, other in zip(bodies, others, strict=True):
        if body["kind"] == "RoleBinding":
            assert body["metadata"]["name"] != other["metadata"]["name"]
        if body["kind"] == "StatefulSet":
            fixed = ("volumeClaimTemplates", "selector", "serviceName", "podManagementPolicy")
            assert [body["spec"][key] for key in fixed] == [other["spec"][key] for key in fixed]
            claim = body["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]
            assert claim == body["spec"]["selector"]["matchLabels"]


def test_services_of_the_namespace_set_no_variable_of_a_broker() -> None:
    pods = resources.objects_of(read_cluster(cluster()), CONFIG, has_topics=True)[-1]
    assert pods["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_a_cluster_without_topics_owns_every_object_but_registrations() -> None:
    bodies = resources.objects_of(read_cluster(cluster()), CONFIG, has_topics=False)
    for body in bodies:
        owners = body["metadata"].get("ownerReferences", [])
        expected = [] if body["kind"] == "Broker" else [("BrokerCluster", "uid-default")]
        assert [(owner["kind"], owner["uid"]) for owner in owners] == expected


def test_a_cluster_with_topics_owns_nothing_and_marks_all() -> None:
    bodies = resources.objects_of(read_cluster(cluster()), CONFIG, has_topics=True)
    for body in bodies:
        assert "ownerReferences" not in body["metadata"]
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
    over = replace(posted, is_warning=False)
    assert resources.event(over, namespace="here", now=NOW, suffix="2")["type"] == "Normal"
