"""Metadata of clients carry the rack of each broker, the label of its node, while brokers run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.support import strandline_objects as objects
from tests.support.attended_group import BROKERS, AttendedGroup
from tests.support.control_plane import ControlPlane
from tests.support.nodes import Nodes, bind

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

KEY = "example.com/rack"
LIMIT_SECONDS = 5


@pytest.fixture
def attended(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[AttendedGroup]:
    """Provide an operator and three brokers."""
    made = AttendedGroup(control_plane, namespace, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def by_librdkafka(address: str) -> list[str | None]:
    """Return the racks of all brokers, as a broker tells confluent-kafka."""
    client = AdminClient({"bootstrap.servers": address})
    found = client.describe_cluster(request_timeout=LIMIT_SECONDS).result(LIMIT_SECONDS)
    return [node.rack for node in sorted(found.nodes, key=lambda each: each.id)]


def by_kafka_python(address: str) -> list[str | None]:
    """Return the racks of all brokers, as a broker tells kafka-python."""
    client = kafka.KafkaAdminClient(bootstrap_servers=address)
    try:
        found = client.describe_cluster()
    finally:
        client.close()
    return [each["rack"] for each in sorted(found["brokers"], key=lambda each: each["broker_id"])]


def wait_racks(attended: AttendedGroup, *expected: str | None) -> None:
    """Wait until each broker tells both clients these racks."""

    def look() -> bool:
        for broker in attended.group.brokers:
            address = f"127.0.0.1:{broker.internal_port}"
            found = [by_librdkafka(address), by_kafka_python(address)]
            assert found == [list(expected)] * 2, found
        return True

    attended.wait_for(look, f"racks {expected}")


def test_clients_are_told_the_racks_of_brokers_and_their_changes_while_brokers_run(
    attended: AttendedGroup, nodes: Nodes
) -> None:
    attended.create_topic("orders")
    before = [each.process.pid for each in attended.group.brokers]
    wait_racks(attended, None, None, None)
    for number in range(BROKERS):
        node = nodes.add(f"n{number}", labels={KEY: f"r{number}"} if number else {})
        bind(attended.operator, f"{objects.CLUSTER}-{number}", node)
    patch = json.dumps({"spec": {"rack": {"topologyKey": KEY}}})
    attended.kubectl("patch", "bc", objects.CLUSTER, "--type=merge", "-p", patch)
    wait_racks(attended, None, "r1", "r2")
    attended.kubectl("patch", "bc", objects.CLUSTER, "--type=merge", "-p", '{"spec":{"rack":null}}')
    wait_racks(attended, None, None, None)
    assert [each.process.pid for each in attended.group.brokers] == before, "none started again"
