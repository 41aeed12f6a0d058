"""A topic works although the API server refused its objects, or the operator died between writes.

Real brokers, a real operator, a real API server; a proxy before it refuses and tells of writes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from strandline.errors import ErrorCode
from strandline.kafka_listener import schemas
from strandline.kafka_listener.wire import Message
from tests.kafka.requests import only
from tests.kafka.wire_client import WireClient
from tests.reconcile.conftest import OperatorProcess
from tests.support import strandline_objects as objects
from tests.support.api_proxy import ApiProxy, Write
from tests.support.broker_group import BrokerGroup
from tests.support.clients import SentRecords, producer_of
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

AUDIT_MS = 1_000
"""How often the brokers of these tests report what they have on disk; 30 s by default."""
PARTITIONS = 2
WRITES_OF_A_TOPIC = 2 + PARTITIONS
"""partitionsInitialised, each Partition, and the status after them."""


class World:
    """A group of brokers, and an operator that reaches the API server through a proxy."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.operator = OperatorProcess(plane, namespace, folder)
        account = objects.broker_account(plane, namespace)
        self.group = BrokerGroup(
            folder,
            plane,
            namespace,
            kubeconfig=account,
            settings={"partition.audit.interval.ms": AUDIT_MS},
        )
        self.proxy = ApiProxy(self.operator.kubeconfig, folder)
        self.proxy.start()
        self.operator.use_kubeconfig(self.proxy.kubeconfig)

    def create(self, name: str) -> None:
        """Create a topic, as a user does."""
        self.group.control_plane.apply(
            objects.topic(self.group.namespace, name, partitions=PARTITIONS)
        )

    def works(self, name: str) -> None:
        """Wait until every partition has its whole ISR, and write to the topic."""
        self.group.wait_full_isr(name, PARTITIONS)
        sent = SentRecords(producer_of(self.group.bootstrap()), name)
        sent.send(10)
        sent.settle()
        assert len(sent.offsets) == 10

    def close(self) -> None:
        """End everything."""
        self.operator.kill()
        self.proxy.stop()
        self.group.stop()


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Provide running brokers and a running operator; tests use topics of their own."""
    namespace = namespace_name("new topics")
    control_plane.kubectl("create", "namespace", namespace)
    made = World(control_plane, namespace, tmp_path_factory.mktemp("new-topics"))
    try:
        made.group.start()
        made.operator.start()
        yield made
    finally:
        made.close()
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


def test_clients_hear_of_a_new_topic_as_a_whole(world: World) -> None:
    many, looks = 24, 50
    seen = {0}
    admin = AdminClient({"bootstrap.servers": world.group.bootstrap()})

    def look() -> bool:
        for _ in range(looks):
            found = admin.list_topics(timeout=10).topics.get("whole")
            seen.add(0 if found is None else len(found.partitions))
        return many in seen

    world.group.control_plane.apply(objects.topic(world.group.namespace, "whole", partitions=many))
    eventually(look, 30_000, "the topic")
    assert seen == {0, many}


def test_offsets_of_a_topic_are_told_by_a_leader_that_hears_of_it_last(world: World) -> None:
    """A client that another broker told asks a leader that has the news yet to read."""
    brokers, controller = world.group.brokers, world.group.controller()
    number = (controller + 1) % len(brokers)
    late = brokers[number]

    def led_by_late() -> Sequence[int]:
        with WireClient(brokers[controller].internal_port) as client:
            response = client.ask(schemas.METADATA, 9, {"topics": [{"name": "late"}]})
        (topic,) = response["topics"]
        partitions = topic["partitions"]
        return [each["index"] for each in partitions if each["leader_id"] == number]

    late.freeze()
    try:
        spread = objects.topic(world.group.namespace, "late", partitions=len(brokers))
        world.group.control_plane.apply(spread)
        first, *_ = eventually(led_by_late, 30_000, "a partition of the broker that is late")
        with WireClient(late.internal_port) as client:
            asked = {"index": first, "timestamp": -2, "current_leader_epoch": -1}
            topics: list[Message] = [{"name": "late", "partitions": [asked]}]
            head = {"replica_id": -1, "isolation_level": 0}
            client.send(schemas.LIST_OFFSETS, 6, {**head, "topics": topics})
            late.thaw()
            _, response = client.receive()
    finally:
        late.thaw()
    listed = only(response)
    # A machine that stood still for long may have another leader by now.
    assert listed["error_code"] in {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.parametrize("status", [401, 403, 409, 422, 429, 500])
def test_refused_partitions_make_a_working_topic_once_they_are_allowed(
    world: World, status: int
) -> None:
    name, before = f"refused-{status}", world.proxy.refused
    world.proxy.refusal = lambda write: status if write.plural == "partitions" else None
    world.create(name)
    eventually(lambda: world.proxy.refused > before + PARTITIONS, 20_000, "refused creates")
    assert world.operator.get("partitions.strandline.dev", f"{name}-0") is None
    world.proxy.refusal = lambda _: None
    world.works(name)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_operator_killed_at_any_write_of_a_topic_leaves_a_working_one(
    world: World, moment: str
) -> None:
    for number in range(1, WRITES_OF_A_TOPIC + 1):
        name = f"killed-{moment}-{number}"
        kill_at(world, moment, number, name)
        world.create(name)
        process = world.operator.process
        assert process is not None
        eventually(partial(is_killed, process), 20_000, f"write {number}")
        world.operator.start()
    setattr(world.proxy, moment, lambda _: None)
    for number in range(1, WRITES_OF_A_TOPIC + 1):
        world.works(f"killed-{moment}-{number}")


def test_topics_created_at_once_leave_the_controller_its_lease(world: World) -> None:
    names = [f"many-{number}" for number in range(10)]
    before = controller_epoch(world)
    for name in names:
        world.create(name)
    for name in names:
        world.works(name)
    assert controller_epoch(world) == before


def controller_epoch(world: World) -> int:
    status = world.group.get("brokerclusters", objects.CLUSTER)["status"]
    return int(status["controller"]["epoch"])


def is_killed(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def kill_at(world: World, moment: str, number: int, topic: str) -> None:
    """Kill the operator once, before or after the n-th write about a topic reaches the server."""
    seen: list[Write] = []

    def strike(write: Write) -> None:
        if f"/{topic}" in write.path or (write.plural, write.method) == ("partitions", "POST"):
            seen.append(write)
            if len(seen) == number:
                world.operator.kill()

    setattr(world.proxy, moment, strike)
