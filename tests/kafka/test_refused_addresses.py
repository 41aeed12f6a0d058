"""An address that was refused thousands of elements rests for a time that fits the number."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from strandline.kafka_listener import schemas
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.refused_addresses import RefusedAddresses
from strandline.kafka_listener.wire import Message
from strandline.log_fields import fields_of
from tests.kafka import requests
from tests.kafka.support import ListenerThread, MemoryBroker, make_batch
from tests.kafka.wire_client import WireClient
from tests.support.eventually import eventually

SETTINGS = ListenerSettings(
    resting_elements_max=10, rest_per_refusal_ms=100, resting_addresses_max=3
)
FULL = SETTINGS.request_elements_max
WITHIN_MS = 20_000


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_rest_fits_the_number_of_refused_elements_and_few_are_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    addresses = RefusedAddresses(SETTINGS, clock)
    addresses.refused("free", 10)
    addresses.refused("a", 20)
    addresses.refused("a", 11)
    assert [addresses.elements_max(each) for each in ("free", "a", "b")] == [FULL, 10, FULL]
    assert [fields_of(each) for each in caplog.records] == [
        {"peer": "a", "refused_count": 20, "rest_ms": 2_000},
        {"peer": "a", "refused_count": 11, "rest_ms": 1_100},
    ]
    clock.seconds += 1.9
    assert addresses.elements_max("a") == 10
    clock.seconds += 0.2
    assert addresses.elements_max("a") == FULL


def test_as_many_addresses_rest_as_are_let_and_those_longest_that_were_refused_most() -> None:
    clock = Clock()
    addresses = RefusedAddresses(SETTINGS, clock)
    for number in (50, 20, 40, 30):
        addresses.refused(str(number), number)
    resting = [number for number in (20, 30, 40, 50) if addresses.elements_max(str(number)) == 10]
    assert resting == [30, 40, 50]
    clock.seconds += 3.5
    addresses.refused("late", 11)
    assert [addresses.elements_max(each) for each in ("40", "50", "late")] == [10, 10, 10]


def test_a_malformed_request_counts_by_its_size_and_does_not_lengthen_a_rest() -> None:
    clock = Clock()
    addresses = RefusedAddresses(SETTINGS, clock)
    addresses.malformed("a", 70)
    assert addresses.elements_max("a") == FULL
    addresses.malformed("a", 140)
    addresses.malformed("a", 1_000_000)
    clock.seconds += 2.1
    assert addresses.elements_max("a") == FULL
    addresses.malformed("a", 1_000_000)
    clock.seconds += 99.0
    assert addresses.elements_max("a") == 10
    clock.seconds += 2.0
    assert addresses.elements_max("a") == FULL


def metadata_of(count: int) -> Message:
    return {"topics": [{"name": f"unknown-{number}"} for number in range(count)]}


def offsets_of(count: int) -> Message:
    message = requests.list_offsets(-1, topic="unknown")
    entry = message["topics"][0]["partitions"][0]
    message["topics"][0]["partitions"] = [{**entry, "index": each} for each in range(count)]
    return message


def repeated(count: int) -> Message:
    return {"topics": [{"name": "orders"}] * count}


def coordinators_of(count: int) -> Message:
    return {"key_type": 0, "coordinator_keys": ["g"] * count}


def answers(
    port: int, api_key: int, version: int, message: Message, *, source: str = "127.0.0.1"
) -> bool:
    """Tell whether a request on a connection of its own gets a response."""
    with WireClient(port, source=source) as client:
        client.send(api_key, version, message)
        try:
            client.receive_frame()
        except (EOFError, ConnectionResetError):
            return False
        return True


@pytest.mark.parametrize(
    ("api_key", "version", "large"),
    [
        (schemas.METADATA, 4, metadata_of),
        (schemas.LIST_OFFSETS, 5, offsets_of),
        (schemas.METADATA, 4, repeated),
        (schemas.FIND_COORDINATOR, 4, coordinators_of),
    ],
    ids=["unknown names", "unknown partitions", "one name many times", "groups"],
)
def test_a_resting_address_gets_small_requests_only_and_other_addresses_all(
    broker: MemoryBroker, api_key: int, version: int, large: Callable[[int], Message]
) -> None:
    settings = ListenerSettings(rest_per_refusal_ms=10)
    with ListenerThread(broker, settings=settings) as running:
        assert answers(running.port, api_key, version, large(300))
        assert not answers(running.port, api_key, version, large(300))
        assert answers(running.port, api_key, version, large(50))
        assert answers(running.port, api_key, version, large(300), source="127.0.0.2")
        eventually(lambda: answers(running.port, api_key, version, large(300)), WITHIN_MS, "rested")


@pytest.mark.parametrize(("size", "rests"), [(100, False), (10_000, True)])
def test_a_large_malformed_request_lets_its_address_rest(
    broker: MemoryBroker, size: int, rests: bool
) -> None:
    frame = struct.pack(">hhi", schemas.METADATA, 4, 1) + b"\x7f" * size
    with ListenerThread(broker) as running:
        with WireClient(running.port) as client:
            client.socket.sendall(struct.pack(">i", len(frame)) + frame)
            assert client.is_closed_by_server()
        assert answers(running.port, schemas.METADATA, 4, metadata_of(300)) is not rests
        assert answers(running.port, schemas.METADATA, 4, metadata_of(50))


def test_a_resting_address_sends_no_large_request_but_records(broker: MemoryBroker) -> None:
    long = {"topics": [{"name": "n" * 2_000}] * 50}
    records = requests.produce(make_batch([bytes(100_000)]))
    with ListenerThread(broker) as running:
        assert answers(running.port, schemas.METADATA, 4, long)
        assert answers(running.port, schemas.METADATA, 4, metadata_of(300))
        assert not answers(running.port, schemas.METADATA, 4, long)
        assert answers(running.port, schemas.PRODUCE, 9, records)
        assert answers(running.port, schemas.METADATA, 4, long, source="127.0.0.2")


def test_granted_elements_cost_no_rest() -> None:
    names = [f"granted-{number}" for number in range(150)]
    large = {"topics": [{"name": name} for name in names]}
    with ListenerThread(MemoryBroker(dict.fromkeys(names, 1))) as running:
        for _ in range(3):
            assert answers(running.port, schemas.METADATA, 4, large)
