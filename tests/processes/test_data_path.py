"""Records through real brokers: acknowledged, replicated, kept through a leader's death."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


def test_acknowledged_records_are_read_at_their_offsets(group: BrokerGroup) -> None:
    group.create_topic("steady")
    group.wait_full_isr("steady")
    sent = SentRecords(producer_of(group.bootstrap()), "steady")
    sent.send(500)
    sent.settle()
    assert sorted(sent.offsets.values()) == list(range(500))
    assert read_all(group.bootstrap(), "steady", 500) == sent.offsets


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(group: BrokerGroup) -> None:
    group.create_topic("orders")
    group.wait_full_isr("orders")
    sent = SentRecords(producer_of(group.bootstrap()), "orders")
    sent.send(200)
    sent.settle()
    leader = group.wait_leader("orders")
    group.brokers[leader].kill()
    sent.send(200)
    sent.settle()
    group.wait_leader("orders", other_than=leader)
    assert read_all(group.bootstrap(), "orders", 400) == sent.offsets
    group.start()
    group.wait_full_isr("orders")
    assert read_all(group.bootstrap(), "orders", 400) == sent.offsets


ESTABLISHED = "01"
MANY_PARTITIONS = 12


def connections(client: BrokerProgram, port: int) -> int:
    """Return how many connections a broker's process has to a port of this machine."""
    process = Path("/proc") / str(client.process.pid)
    links = (str(fd.readlink()) for fd in (process / "fd").iterdir() if fd.is_symlink())
    sockets = {link.removeprefix("socket:[").removesuffix("]") for link in links}
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in (process / "net" / table).read_text().splitlines()[1:]
    ]
    return sum(
        1
        for row in rows
        if row[9] in sockets
        and row[3] == ESTABLISHED
        and int(row[2].rpartition(":")[2], base=16) == port
    )


def test_a_broker_replicates_from_another_on_one_connection(group: BrokerGroup) -> None:
    """The number of partitions that it follows there does not matter."""
    group.create_topic("many", partitions=MANY_PARTITIONS)
    group.wait_full_isr("many", MANY_PARTITIONS)
    assert sorted(group.leaders("many", MANY_PARTITIONS)) == sorted([0, 1, 2] * 4)
    producer = producer_of(group.bootstrap())
    sent = [SentRecords(producer, "many", partition=number) for number in range(MANY_PARTITIONS)]
    for each in sent:
        each.send(10)
    for each in sent:
        each.settle()
    ports = [broker.wait_for("registered")["listeners"]["GRPC"] for broker in group.brokers]
    controller = group.controller()

    def one_each() -> bool:
        for leader, port in enumerate(ports):
            # A broker's session with the controller has a connection of its own.
            wanted = 2 if leader == controller else 1
            for number, follower in enumerate(group.brokers):
                if number != leader:
                    assert connections(follower, int(port)) == wanted, (number, leader)
        return True

    eventually(one_each, FAULT_LIMIT_MS, "one replication connection for each pair")
