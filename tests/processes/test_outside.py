"""Clients of the external listener get addresses of the external listener, and no others.

The tests write the addresses into the Broker objects, as the operator does; the ports are open on
this machine, so the addresses differ from those inside by their ports.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.documented import properties_under
from tests.support.eventually import eventually
from tests.support.java_client import PREPARED_WITHIN_SECONDS, JavaClients, java_clients

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

HALF = 100
METADATA_SECONDS = 5
PAGE = "docs/connect.md"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 20
"""Records of one codec."""


def want(group: BrokerGroup, broker: int, address: dict[str, object] | None) -> None:
    """Write into a Broker object what the broker shall advertise outside."""
    # A merge keeps what it does not name: here the host of an earlier test.
    patch = json.dumps({"spec": {"external": address and {"host": None, **address}}})
    group.control_plane.kubectl(
        *("patch", "-n", group.namespace, "brokers.strandline.dev", f"demo-{broker}"),
        *("--type=merge", "-p", patch),
    )


def shown(port: int) -> dict[int, str]:
    """Return the brokers' addresses as one broker shows them on a port."""
    client = Producer({"bootstrap.servers": f"127.0.0.1:{port}"})
    brokers = client.list_topics(timeout=METADATA_SECONDS).brokers
    return {each.id: f"{each.host}:{each.port}" for each in brokers.values()}


def outside(group: BrokerGroup, *without: int) -> dict[int, str]:
    """Return the addresses that clients outside shall see."""
    return {
        number: f"127.0.0.1:{broker.external_port}"
        for number, broker in enumerate(group.brokers)
        if number not in without
    }


def wait_shown(group: BrokerGroup, asked: int, expected: dict[int, str]) -> None:
    """Wait until a broker's external listener shows exactly these addresses."""

    def look() -> bool:
        found = shown(group.brokers[asked].external_port)
        assert found == expected, found
        return True

    eventually(look, FORMED_LIMIT_MS, "addresses outside", retry_on=(Exception,))


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def opened(group: BrokerGroup) -> BrokerGroup:
    """Provide a group whose brokers all advertise their external ports on their nodes."""
    for number, broker in enumerate(group.brokers):
        want(group, number, {"port": broker.external_port})
    for number in range(len(group.brokers)):
        wait_shown(group, number, outside(group))
    return group


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    """Provide Kafka's own Java client in a process of its own."""
    with java_clients(tmp_path_factory.mktemp("java") / "log") as clients:
        yield clients


def documented_java(group: BrokerGroup) -> dict[str, str]:
    """Return the page's properties of Java's client, with these brokers for the first contact."""
    servers = ",".join(f"127.0.0.1:{broker.external_port}" for broker in group.brokers)
    return {**properties_under(PAGE, "Java's client"), "bootstrap.servers": servers}


def test_each_listener_shows_its_own_addresses_through_a_leaders_death(
    opened: BrokerGroup,
) -> None:
    topic = "outside"
    opened.create_topic(topic)
    opened.wait_full_isr(topic)
    leader = opened.wait_leader(topic)
    inside = {n: f"127.0.0.1:{each.internal_port}" for n, each in enumerate(opened.brokers)}
    assert shown(opened.brokers[leader].internal_port) == inside
    bootstrap = f"127.0.0.1:{opened.brokers[leader].external_port}"
    sent = SentRecords(producer_of(bootstrap), topic)
    sent.send(HALF)
    sent.settle()
    opened.brokers[leader].kill()
    sent.send(HALF)
    sent.settle()
    successor = opened.wait_leader(topic, other_than=leader, within_ms=FAULT_LIMIT_MS)
    # A dead broker stays listed for a while, on each listener with that listener's address.
    wait_shown(opened, successor, outside(opened))
    there = f"127.0.0.1:{opened.brokers[successor].external_port}"
    assert read_all(there, topic, 2 * HALF) == sent.offsets
    opened.start()
    wait_shown(opened, successor, outside(opened))


def test_an_address_that_is_taken_back_closes_the_port_and_another_one_opens_it(
    opened: BrokerGroup,
) -> None:
    broker = opened.brokers[1]
    want(opened, 1, None)
    eventually(lambda: refuses(broker.external_port), FORMED_LIMIT_MS, "a closed port")
    wait_shown(opened, 0, outside(opened, 1))
    assert not refuses(broker.internal_port)
    registered = opened.get("brokers.strandline.dev", "demo-1")["status"]["listeners"]
    assert sorted(each["name"] for each in registered) == ["GRPC", "INTERNAL"]
    elsewhere = {**outside(opened), 1: "broker-1.example.com:30094"}
    want(opened, 1, {"host": "broker-1.example.com", "port": 30094})
    wait_shown(opened, 0, elsewhere)
    assert not refuses(broker.external_port)


@pytest.mark.timeout(PREPARED_WITHIN_SECONDS)
def test_javas_client_loses_nothing_through_a_leaders_death(
    opened: BrokerGroup, java: JavaClients
) -> None:
    topic = "java"
    opened.create_topic(topic)
    opened.wait_full_isr(topic)
    settings = documented_java(opened)
    producer, consumer = java.producer(settings), java.consumer(settings, topic)
    values = [b"value-%d" % number for number in range(2 * HALF)]
    leader = opened.wait_leader(topic)
    assert producer.leader(topic) == outside(opened)[leader]
    producer.send(topic, values[:HALF])
    producer.settle()
    assert consumer.read(HALF) == producer.offsets
    # Frozen, so that all of these are on their way when it dies.
    opened.brokers[leader].freeze()
    producer.send(topic, values[HALF:])
    assert producer.acknowledged() == 0
    opened.brokers[leader].kill()
    producer.settle()
    successor = opened.wait_leader(topic, other_than=leader)
    assert producer.leader(topic) == outside(opened)[successor]
    # Once each, in the order in which they were sent.
    assert producer.offsets == {value: number for number, value in enumerate(values)}
    assert consumer.read(2 * HALF) == producer.offsets
    again = java.consumer(settings, topic)
    assert again.read(2 * HALF) == producer.offsets
    for client in (producer, consumer, again):
        client.close()
    there = f"127.0.0.1:{opened.brokers[successor].external_port}"
    assert read_all(there, topic, 2 * HALF) == producer.offsets


@pytest.mark.timeout(PREPARED_WITHIN_SECONDS)
def test_records_that_javas_client_compressed_are_read_by_it_and_by_others(
    opened: BrokerGroup, java: JavaClients
) -> None:
    topic = "java-codecs"
    opened.create_topic(topic)
    opened.wait_full_isr(topic)
    settings = documented_java(opened)
    offsets: dict[bytes, int] = {}
    for codec in CODECS:
        producer = java.producer({**settings, "compression.type": codec})
        producer.send(topic, [b"%s-%d" % (codec.encode(), number) for number in range(EACH)])
        producer.settle()
        producer.close()
        offsets |= producer.offsets
    consumer = java.consumer(settings, topic)
    assert consumer.read(len(offsets)) == offsets
    consumer.close()
    assert read_all(settings["bootstrap.servers"], topic, len(offsets)) == offsets
