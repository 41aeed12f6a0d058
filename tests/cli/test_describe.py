"""The pages of `strandline describe`: what is amiss, also where little can be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from strandline.errors import ConfigError
from strandline_cli import describe
from strandline_cli.describe import NamespaceFound, broker_page, cluster_page, topic_page
from tests.chart.analysis_cases import ANALYSIS_STATUS

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
MADE = "2030-01-01T09:00:00Z"


def made(kind: str, name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": MADE,
            "labels": {"strandline.dev/cluster": "demo"},
        },
        "spec": spec,
        "status": status,
    }


def partition(number: int, **status: Any) -> dict[str, Any]:
    spec = {"topicId": "uid-orders", "topicName": "orders", "partition": number}
    held = {
        "leader": 0,
        "leaderEpoch": 3,
        "isr": [0, 1, 2],
        "replicas": [0, 1, 2],
        "minInsyncReplicas": 2,
        "changedAt": MADE,
    }
    return made(
        "Partition", f"orders-{number}", {**spec, "replicas": [0, 1, 2]}, {**held, **status}
    )


def namespace(*partitions: dict[str, Any]) -> NamespaceFound:
    """Return a cluster of two brokers, the second one without an image, and a topic."""
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "UnderMinIsr",
        "message": "orders-1 is under min ISR",
    }
    told = {"id": 1, "leaders": 0, "replicas": 2, "safeToRestart": False, "because": "orders-1"}
    status = {"conditions": [condition], "brokers": [told]}
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod = {"containers": [{"image": "broker:1"}], "nodeName": "worker1"}
    containers = [{"restartCount": 4, "state": {"waiting": waiting}}]
    event = {
        "metadata": {"creationTimestamp": MADE},
        "involvedObject": {"uid": "uid-orders-1", "name": "orders-1"},
        "reason": "IsrShrank",
        "message": "2 left",
    }
    topic = {"partitions": 2, "replicationFactor": 3, "clusterRef": "demo"}
    return NamespaceFound(
        objects={
            "brokerclusters": [made("BrokerCluster", "demo", {"replicas": 3}, status)],
            "replicatedtopics": [made("ReplicatedTopic", "orders", topic, status)],
            "partitions": list(partitions),
            "brokers": [
                made("Broker", "demo-0", {"brokerId": 0}, {}),
                made("Broker", "demo-1", {"brokerId": 1, "rack": "zone-b"}, {}),
            ],
            "pods": [made("Pod", "demo-1", pod, {"containerStatuses": containers})],
            "events": [event],
        }
    )


def test_a_topic_says_why_it_is_not_ready_and_what_each_partition_lacks() -> None:
    found = namespace(
        partition(0),
        partition(1, isr=[0]),
        partition(2, isr=[0, 1]),
        partition(3, leader=-1, isr=[2], reason="StateLost"),
        {**partition(4), "status": {}},
    )
    page = topic_page(found, "orders", NOW)
    assert page[:2] == ["Topic orders", "  object     ReplicatedTopic orders, 3 h old"]
    assert "  ReplicatedTopic orders: UnderMinIsr: orders-1 is under min ISR" in page
    rows = [line.split(MADE) for line in page if line.startswith("orders-")]
    assert [row[-1].strip() for row in rows[:4]] == [
        "",
        "under min ISR: acks=all is refused",
        "not in the ISR: 2",
        "StateLost",
    ]
    assert rows[4][0].endswith("no controller has looked at it yet")
    assert f"  {MADE} orders-1: IsrShrank: 2 left" in page


def test_a_broker_says_what_keeps_its_pod_from_running_and_whether_it_may_restart() -> None:
    page = broker_page(namespace(partition(0), partition(1, isr=[0])), "demo-1", NOW)
    assert page[0] == "Broker 1 of cluster demo"
    assert "  session    never registered" in page
    assert "  pod        not ready on worker1, 4 restarts, image broker:1" in page
    assert "  restart    not safe: orders-1" in page
    assert "  holds      2 replicas, leads 0" in page
    assert "  ImagePullBackOff: no such image" in page
    assert page[page.index("It is not in the ISR of") + 1] == "  orders-1"
    assert [line.split() for line in page if "rack" in line] == [["rack", "zone-b"]]


def test_a_cluster_lists_its_brokers_with_and_without_a_pod() -> None:
    page = cluster_page(namespace(partition(0), partition(1, isr=[0])), "demo", NOW)
    assert "  partitions 2, 1 of them without a full ISR" in page
    assert "  pod demo-1: ImagePullBackOff: no such image" in page
    assert any(line.split()[:4] == ["demo-0", "-", "-", "no"] for line in page)
    assert any(line.split()[:3] == ["demo-1", "worker1", "zone-b"] for line in page)
    assert any(line.startswith("orders-1") for line in page)
    assert not any(line.startswith("orders-0") for line in page)
    assert not any("analysis" in line for line in page)


def test_a_cluster_tells_the_last_run_of_its_analysis() -> None:
    found = namespace(partition(0))
    found.objects["brokerclusters"][0]["status"] |= ANALYSIS_STATUS
    (line,) = [each for each in cluster_page(found, "demo", NOW) if "analysis" in each]
    assert line.startswith("  analysis   1 incident from 2026-11-25T14:00:00Z")


def test_a_kind_that_may_not_be_read_is_a_line_of_the_page() -> None:
    whole = namespace(partition(0))
    objects = {kind: whole.objects[kind] for kind in describe.NEEDED}
    found = NamespaceFound(objects=objects, unread=["pods could not be read: forbidden"])
    for page, name in ((topic_page, "orders"), (broker_page, "demo-1"), (cluster_page, "demo")):
        assert page(found, name, NOW)[-2:] == ["Not read", "  pods could not be read: forbidden"]


def test_of_many_partitions_those_that_are_not_well_come_first() -> None:
    many = [partition(n) for n in range(describe.PARTITIONS_SHOWN + 5)]
    page = topic_page(namespace(*many, partition(999, isr=[0])), "orders", NOW)
    rows = [line for line in page if line.startswith("orders-")]
    assert rows[0].startswith("orders-999")
    assert len(rows) == describe.PARTITIONS_SHOWN
    assert "and 6 more, which are no worse" in page


def test_a_name_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="brokers: there is no 1; there is demo-0, demo-1"):
        broker_page(namespace(), "1", NOW)
