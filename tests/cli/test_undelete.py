"""What `strandline undelete` creates, and what it refuses; what `strandline status` shows of it."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import ConfigError
from strandline_cli.status import cluster_row, stray_rows, topic_row
from strandline_cli.strays import strays_of
from strandline_cli.undelete import Wanted, topic_to_create

Manifest = dict[str, Any]
A_ID = "6f0e8b7a-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
B_ID = "01234567-89ab-cdef-0123-456789abcdef"


def stray(topic_id: str = A_ID, name: str = "orders", **changes: Any) -> Manifest:
    return {
        "topicId": topic_id,
        "topicName": name,
        "partitions": 2,
        "inTrash": True,
        "deletedAt": "2026-01-02T03:04:05Z",
        "replicas": [
            {"partition": 0, "brokers": [0, 1, 2]},
            {"partition": 1, "brokers": [1, 2]},
        ],
        **changes,
    }


def cluster(*strays: Manifest, ready: int = 5, total: int | None = None) -> Manifest:
    counted = len(strays) if total is None else total
    return {
        "metadata": {"name": "default"},
        "spec": {"replicas": 5},
        "status": {"readyBrokers": ready, "strays": list(strays), "straysTotal": counted},
    }


def topic(name: str, **spec: Any) -> Manifest:
    spec = {"clusterRef": "default", "partitions": 3, **spec}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def wanted(topic: str = "orders", **changes: Any) -> Wanted:
    given: dict[str, Any] = {
        "cluster": "default",
        "name": "",
        "replication_factor": None,
        "retention_ms": -1,
        "wait_seconds": 1,
        **changes,
    }
    return Wanted(topic=topic, **given)


def refusal(cluster: Manifest, *topics: Manifest, topic: str = "orders", **changes: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        topic_to_create(cluster, list(topics), wanted(topic, **changes))
    return str(refused.value)


@pytest.mark.parametrize("word", ["orders", A_ID])
def test_a_topic_comes_back_with_its_id_and_keeps_its_records(word: str) -> None:
    made = topic_to_create(cluster(stray(), stray(B_ID, "clicks")), [topic("x")], wanted(word))
    assert made["metadata"] == {"name": "orders"}
    assert made["spec"] == {
        "clusterRef": "default",
        "topicName": "orders",
        "topicId": A_ID,
        "partitions": 2,
        "replicationFactor": 3,
        "config": {"retentionMs": -1},
    }


def test_what_a_person_says_holds() -> None:
    said = wanted(name="old", replication_factor=4, retention_ms=7)
    made = topic_to_create(cluster(stray(), ready=1), [], said)
    assert made["metadata"] == {"name": "old"}
    assert made["spec"]["topicName"] == "orders"
    assert made["spec"]["replicationFactor"] == 4
    assert made["spec"]["config"] == {"retentionMs": 7}


@pytest.mark.parametrize(
    ("name", "object_name"), [("My_Orders.1", "my-orders.1"), ("orders", "orders")]
)
def test_a_topic_name_that_no_object_may_have_is_made_fit(name: str, object_name: str) -> None:
    made = topic_to_create(cluster(stray(name=name)), [], wanted(name))
    assert (made["metadata"]["name"], made["spec"]["topicName"]) == (object_name, name)


def test_a_topic_without_a_known_name_comes_back_under_a_given_one() -> None:
    unnamed = cluster(stray(name=""))
    assert "give a name with --name" in refusal(unnamed, topic=A_ID)
    made = topic_to_create(unnamed, [], wanted(A_ID, name="found"))
    assert (made["metadata"]["name"], made["spec"]["topicName"]) == ("found", "found")


def test_what_is_not_there_is_refused_and_what_is_there_is_listed() -> None:
    sentence = refusal(cluster(stray(), total=4), topic="ordres")
    assert sentence == (
        "no broker of cluster default has logs of a deleted topic ordres: nothing changed. A topic "
        f"just deleted takes a few seconds. These could come back: orders ({A_ID}, 2 partitions, "
        "in the trash since 2026-01-02T03:04:05Z) and 3 more"
    )
    assert refusal(cluster()).endswith("These could come back: nothing")


def test_of_several_topics_of_one_name_the_id_must_be_given() -> None:
    two = cluster(stray(), stray(B_ID, inTrash=False, deletedAt=""))
    sentence = refusal(two)
    assert sentence.startswith("2 topics were called orders: give the id of one: ")
    assert f"{A_ID}, 2 partitions, in the trash since 2026-01-02T03:04:05Z" in sentence
    assert f"{B_ID}, 2 partitions, on disk)" in sentence
    assert topic_to_create(two, [], wanted(B_ID))["spec"]["topicId"] == B_ID


@pytest.mark.parametrize("factor", [2, 6])
def test_no_log_is_left_out_and_no_broker_invented(factor: int) -> None:
    sentence = refusal(cluster(stray()), replication_factor=factor)
    assert "must be between 3" in sentence
    assert f"and 5, not {factor}: nothing changed" in sentence


def test_logs_of_brokers_that_are_away_are_waited_for() -> None:
    sentence = refusal(cluster(stray(), ready=4))
    assert sentence.startswith("4 of 5 brokers are ready, and the others may have logs of orders")


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (topic("orders", topicName="other"), "ReplicatedTopic orders exists: delete it, or give"),
        (topic("new", topicName="orders"), "ReplicatedTopic new has the topic name orders"),
        (
            topic("new", topicId=A_ID),
            "ReplicatedTopic new brings them back: no operator has looked at it",
        ),
    ],
)
def test_a_name_that_is_taken_is_refused(other: Manifest, sentence: str) -> None:
    assert refusal(cluster(stray()), other).startswith(sentence)
    elsewhere = topic("new", topicName="orders", clusterRef="other")
    assert topic_to_create(cluster(stray()), [elsewhere], wanted())


def test_the_status_names_the_command_that_brings_a_topic_back() -> None:
    one = cluster(stray(), stray(B_ID, "clicks", inTrash=False, deletedAt=""))
    assert stray_rows(one, strays_of(one)) == [
        (
            *("orders", A_ID, "default", "2", "in the trash since 2026-01-02T03:04:05Z"),
            "strandline undelete orders",
        ),
        ("clicks", B_ID, "default", "2", "on disk", "strandline undelete clicks"),
    ]
    two = {**cluster(stray(), stray(B_ID), stray(name="")), "metadata": {"name": "demo"}}
    assert [row[-1] for row in stray_rows(two, strays_of(two))] == [
        f"strandline undelete {A_ID} --cluster demo",
        f"strandline undelete {B_ID} --cluster demo",
        f"strandline undelete {A_ID} --cluster demo",
    ]


def test_the_status_of_what_no_operator_has_seen() -> None:
    bare = {"metadata": {"name": "default"}, "spec": {"replicas": 3}}
    assert cluster_row(bare) == ("default", "0/3", "none", "not looked at yet")
    assert topic_row(topic("orders")) == ("orders", "default", "3", "3", "not looked at yet")
    ready = {"type": "Ready", "status": "True", "reason": "AllPartitionsOnline"}
    status = {"partitions": {"offline": 0}, "conditions": [ready]}
    seen = {**topic("orders", topicName="Orders"), "status": status}
    assert topic_row(seen) == ("Orders", "default", "3", "0", "AllPartitionsOnline")
