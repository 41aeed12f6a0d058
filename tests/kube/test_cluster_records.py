"""What the controller tells in the BrokerCluster comes back as it was written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline.errors import ObjectMalformed
from strandline.kube.cluster_records import cluster_record_from_object, cluster_record_status
from strandline.model import (
    BrokerId,
    ClusterRecord,
    ControllerEpoch,
    DeletedTopic,
    StrayReplicas,
    StrayTopic,
    TopicId,
)

METADATA = {"name": "demo", "resourceVersion": "12", "uid": "uid-demo"}
NOW = "2026-11-22T10:00:00.000000Z"
DELETED = DeletedTopic(topic_id=TopicId("a"), topic_name="orders")
RECORD = ClusterRecord(
    resource_version="12",
    uid="uid-demo",
    is_deleting=False,
    controller_epoch=ControllerEpoch(0),
    topic_revision=3,
    deleted_topics=(DELETED, replace(DELETED, deleted_at="2026-01-01T00:00:00.000000Z")),
    strays=(
        StrayTopic(
            topic_id=TopicId("b"),
            topic_name="lost",
            partition_count=3,
            in_trash=True,
            deleted_at_ms=1_700_000_000_123,
            replicas=(StrayReplicas(partition=2, brokers=(BrokerId(0), BrokerId(1))),),
        ),
        StrayTopic(
            topic_id=TopicId("c"),
            topic_name="",
            partition_count=1,
            in_trash=False,
            deleted_at_ms=0,
            replicas=(),
        ),
    ),
    strays_total=5,
)


def test_a_record_comes_back_and_a_deletion_without_a_time_is_stamped() -> None:
    status = cluster_record_status(RECORD, now=NOW)
    found = cluster_record_from_object({"metadata": METADATA, "status": status})
    stamped = (replace(DELETED, deleted_at=NOW), RECORD.deleted_topics[1])
    assert found == replace(RECORD, deleted_topics=stamped)


def test_a_cluster_without_a_status_has_empty_lists() -> None:
    found = cluster_record_from_object({"metadata": METADATA})
    assert found == ClusterRecord(
        resource_version="12",
        uid="uid-demo",
        is_deleting=False,
        controller_epoch=ControllerEpoch(0),
    )


def test_a_cluster_that_is_being_deleted_says_so() -> None:
    metadata = {**METADATA, "deletionTimestamp": NOW}
    assert cluster_record_from_object({"metadata": metadata}).is_deleting


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("strays", {}, r"strays: must be a list"),
        ("strays", [{"topicId": "a", "partitions": 0}], r"strays\[0\].partitions: must be an"),
        ("deletedTopics", [{"topicName": "a"}], r"deletedTopics\[0\].topicId: must be a text"),
        ("topicRevision", -1, r"topicRevision: must be an integer"),
        (
            "strays",
            [{"topicId": "a", "partitions": 1, "deletedAt": "yesterday"}],
            "'yesterday' is no RFC 3339 time",
        ),
    ],
)
def test_a_malformed_list_is_refused(field: str, value: Any, complaint: str) -> None:
    with pytest.raises(ObjectMalformed, match=complaint):
        cluster_record_from_object({"metadata": METADATA, "status": {field: value}})
