"""Metadata over a real socket: which topics, brokers and leaders it names, and when it waits."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from strandline.errors import ErrorCode
from strandline.kafka_listener import schemas
from strandline.model import Endpoint
from tests.kafka.support import LEADER_EPOCH, ListenerThread, MemoryBroker
from tests.kafka.wire_client import WireClient

ALL_METADATA = range(13)


def names(response: dict[str, list[dict[str, object]]]) -> list[object]:
    return [topic["name"] for topic in response["topics"]]


@pytest.mark.parametrize("version", ALL_METADATA)
def test_metadata_null_means_all_topics(running: ListenerThread, version: int) -> None:
    everything: list[str] | None = [] if version == 0 else None
    with WireClient(running.port) as client:
        response = client.ask(schemas.METADATA, version, {"topics": everything})
    assert names(response) == ["orders", "audit"]
    assert response["brokers"][0]["port"] == running.port
    partition = response["topics"][0]["partitions"][1]
    assert (partition["index"], partition["leader_id"], partition["error_code"]) == (1, 0, 0)
    if version >= 7:
        assert partition["leader_epoch"] == LEADER_EPOCH


@pytest.mark.parametrize("version", range(1, 13))
def test_metadata_empty_list_means_no_topic_since_version_1(
    running: ListenerThread, version: int
) -> None:
    with WireClient(running.port) as client:
        assert names(client.ask(schemas.METADATA, version, {"topics": []})) == []


def test_metadata_of_unknown_and_illegal_names_creates_nothing(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    requested = ["orders", "nowhere", "../etc", "..", "orders", ""]
    with WireClient(running.port) as client:
        response = client.ask(
            schemas.METADATA, 4, {"topics": [{"name": name} for name in requested]}
        )
    assert [(topic["name"], topic["error_code"]) for topic in response["topics"]] == [
        ("orders", ErrorCode.NONE),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("../etc", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert sorted(broker.topic_ids) == ["audit", "orders"]


def test_metadata_by_topic_id(running: ListenerThread, broker: MemoryBroker) -> None:
    known, unknown = uuid.UUID(broker.topic_ids["audit"]).bytes, uuid.uuid4().bytes
    requested = [{"name": None, "topic_id": known}, {"name": None, "topic_id": unknown}]
    with WireClient(running.port) as client:
        response = client.ask(schemas.METADATA, 12, {"topics": requested})
    found, missing = response["topics"]
    assert (found["name"], found["topic_id"], found["error_code"]) == ("audit", known, 0)
    assert (missing["name"], missing["topic_id"]) == (None, unknown)
    assert missing["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("why", ["leaderless", "unreachable"])
def test_metadata_of_a_partition_without_a_reachable_leader(
    running: ListenerThread, broker: MemoryBroker, why: str
) -> None:
    getattr(broker, why).add(("orders", 1))
    with WireClient(running.port) as client:
        response = client.ask(schemas.METADATA, 9, {"topics": [{"name": "orders"}]})
    first, second = response["topics"][0]["partitions"]
    assert (first["error_code"], first["leader_id"]) == (ErrorCode.NONE, 0)
    assert (second["error_code"], second["leader_id"]) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", [0, 4, 9])
def test_metadata_of_a_leader_that_may_have_died_waits_for_the_next_one(
    running: ListenerThread, broker: MemoryBroker, version: int
) -> None:
    broker.suspected["orders"] = asyncio.Event()
    with WireClient(running.port) as client, WireClient(running.port) as other:
        client.send(schemas.METADATA, version, {"topics": [{"name": "orders"}]})
        named = other.ask(schemas.METADATA, version, {"topics": [{"name": "audit"}]})
        assert names(named) == ["audit"]
        broker.leaderless.add(("orders", 1))
        running.call(broker.suspected["orders"].set)
        _, response = client.receive()
    errors = [each["error_code"] for each in response["topics"][0]["partitions"]]
    assert errors[1] == ErrorCode.LEADER_NOT_AVAILABLE


def test_metadata_names_the_addresses_of_the_requests_listener(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    broker.endpoints["TEST"] = Endpoint(listener="TEST", host="broker-0.example", port=30093)
    broker.endpoints["OTHER"] = Endpoint(listener="OTHER", host="10.0.0.1", port=9092)
    with WireClient(running.port) as client:
        (only_broker,) = client.ask(schemas.METADATA, 12, {"topics": None})["brokers"]
    assert (only_broker["host"], only_broker["port"]) == ("broker-0.example", 30093)
