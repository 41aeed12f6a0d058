"""Ownership of a found object: ours, an orphan, leaving, a predecessor's, or foreign."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_operator import kinds
from strandline_operator.observed import Ownership
from strandline_operator.ownership import ownership_of, partition_ownership_of
from strandline_operator.reading import read_cluster, read_object, read_partition, read_topic

from .samples import NOW, Manifest, cluster, made, partition, topic

OURS = {"kind": "BrokerCluster", "name": "default", "uid": "uid-default", "controller": True}
OTHER_UID = {**OURS, "uid": "old"}
OTHER_NAME = {**OTHER_UID, "name": "other"}
OTHER_KIND = {**OTHER_UID, "kind": "Deployment"}
NO_CONTROLLER = {**OURS, "controller": False}
LABEL = {"labels": {"strandline.dev/cluster": "default"}}
APPLIED = {"annotations": {"strandline.dev/applied": "digest"}}
OTHER_LABEL = {"labels": {"strandline.dev/cluster": "other"}}


@pytest.mark.parametrize(
    ("owners", "metadata", "expected"),
    [
        ([OURS], {}, Ownership.OURS),
        ([NO_CONTROLLER, OURS], {}, Ownership.OURS),
        ([], LABEL, Ownership.ORPHAN),
        ([NO_CONTROLLER], LABEL, Ownership.ORPHAN),
        ([], {}, Ownership.FOREIGN),
        ([], OTHER_LABEL, Ownership.FOREIGN),
        ([], APPLIED, Ownership.ORPHAN),
        ([], APPLIED | OTHER_LABEL, Ownership.FOREIGN),
        ([OTHER_KIND], LABEL, Ownership.FOREIGN),
        ([OTHER_NAME], LABEL, Ownership.FOREIGN),
        ([OTHER_UID], LABEL, Ownership.PREDECESSORS),
        ([OTHER_KIND], {"deletionTimestamp": NOW}, Ownership.LEAVING),
        ([OURS], {"deletionTimestamp": NOW}, Ownership.LEAVING),
    ],
)
def test_an_object_belongs_to_its_owner_reference_then_to_its_label(
    owners: list[Manifest], metadata: dict[str, Any], expected: Ownership
) -> None:
    found = made(kinds.SERVICE, "default-brokers", {}, ownerReferences=owners, **metadata)
    wanted = read_cluster(cluster()).ref
    assert ownership_of(read_object(kinds.SERVICE, found), wanted) is expected


def test_a_broker_of_an_earlier_cluster_is_taken_over() -> None:
    found = made(kinds.BROKER, "default-0", {"brokerId": 0}, ownerReferences=[OTHER_UID], **LABEL)
    wanted = read_cluster(cluster()).ref
    assert ownership_of(read_object(kinds.BROKER, found), wanted) is Ownership.OURS


@pytest.mark.parametrize(
    ("topic_id", "expected"), [("uid-orders", Ownership.OURS), ("old", Ownership.PREDECESSORS)]
)
def test_a_partition_belongs_to_the_topic_of_its_id(topic_id: str, expected: Ownership) -> None:
    found = read_partition(partition("orders-1", topic_id, 1))
    assert partition_ownership_of(found, read_topic(topic())) is expected


@pytest.mark.parametrize(
    ("topic_id", "owner", "expected"),
    [
        ("adopted", "uid-orders", Ownership.OURS),
        ("adopted", "uid-before", Ownership.PREDECESSORS),
        ("adopted", "", Ownership.PREDECESSORS),
        ("old", "uid-orders", Ownership.PREDECESSORS),
    ],
)
def test_a_partition_of_an_adopted_id_belongs_to_its_owner(
    topic_id: str, owner: str, expected: Ownership
) -> None:
    whole = partition("orders-1", topic_id, 1, owner=owner)
    adopting = read_topic(topic(topicId="adopted"))
    assert partition_ownership_of(read_partition(whole), adopting) is expected
