"""Clients of the external listener get addresses of the external listener, and no others.

The tests write the addresses into the Broker objects, as the operator does; the ports are open on
this machine, so the addresses differ from those inside by their ports.
"""

from __future__ import annotations

import json
import socket

import pytest
from confluent_kafka import Producer

from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

HALF = 100
METADATA_SECONDS = 5


def want(group: BrokerGroup, broker: int, address: dict[str, object] | None) -> None:
    """Write into a Broker object what the broker shall advertise outside."""
    patch = json.dumps({"spec": {"external": address}})
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
    wait_shown(opened, successor, outside(opened, leader))
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
