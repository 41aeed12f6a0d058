"""Deleted objects and a reboot of all machines: a topic ends Ready, or names the one command.

`kubectl delete` of each object that brokers work with, under load; the operator makes it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import pytest

from tests.support import strandline_objects as objects
from tests.support.attended_group import PARTITIONS, AttendedGroup
from tests.support.broker_group import FAULT_LIMIT_MS
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.commands import REPOSITORY
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name
from tests.support.load import RATE, LoadProcess

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

BROKERS = "brokers.strandline.dev"
CONTROLLER_LEASE = f"{objects.CLUSTER}-controller"


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AttendedGroup]:
    """Provide running brokers and a running operator; tests use topics of their own."""
    namespace = namespace_name("deleted objects")
    control_plane.kubectl("create", "namespace", namespace)
    made = AttendedGroup(control_plane, namespace, tmp_path_factory.mktemp("deleted"))
    try:
        made.start()
        yield made
    finally:
        made.stop()
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
    for broker in made.group.brokers:
        broker.check_log()


@pytest.fixture
def attended(shared: AttendedGroup) -> AttendedGroup:
    """Provide the module's group with all its brokers running."""
    shared.group.start()
    return shared


def delete_and_wait_for_another(attended: AttendedGroup, kind: str, name: str) -> None:
    """Delete an object by hand; wait until another one of its name is there."""
    before = attended.group.get(kind, name)["metadata"]["uid"]
    attended.kubectl("delete", kind, name)

    def is_there_again() -> bool:
        return bool(attended.group.get(kind, name)["metadata"]["uid"] != before)

    attended.wait_for(is_there_again, f"another {kind} {name}", FAULT_LIMIT_MS)


def test_a_deleted_broker_object_is_made_again_and_registered(attended: AttendedGroup) -> None:
    group = attended.group
    attended.create_topic("broker")
    load = LoadProcess(group, "broker", PARTITIONS)
    leader, controller = group.leaders("broker", PARTITIONS)[0], group.controller()
    for number in sorted({leader, controller}):
        name = f"{objects.CLUSTER}-{number}"
        before = group.get(BROKERS, name)["status"]
        delete_and_wait_for_another(attended, BROKERS, name)

        def is_registered(name: str = name, before: object = before) -> bool:
            return bool(group.get(BROKERS, name).get("status") == before)

        attended.wait_for(is_registered, f"the registration of {name}")
        load.wait_for_acks(RATE)
    attended.wait_topic_ready("broker")
    assert all(broker.runs() for broker in group.brokers)
    load.judged()


@pytest.mark.parametrize("lease", [CONTROLLER_LEASE, "strandline-operator"])
def test_a_deleted_lease_is_made_again_and_held(attended: AttendedGroup, lease: str) -> None:
    group, topic = attended.group, f"lease-of-{lease}"
    attended.create_topic(topic)
    load = LoadProcess(group, topic, PARTITIONS)
    epoch = int(group.get("brokerclusters", objects.CLUSTER)["status"]["controller"]["epoch"])
    delete_and_wait_for_another(attended, "lease", lease)

    def is_held() -> bool:
        return bool(group.get("lease", lease)["spec"].get("holderIdentity"))

    attended.wait_for(is_held, f"a holder of {lease}", 2 * FAULT_LIMIT_MS)
    if lease == CONTROLLER_LEASE:
        attended.wait_for(
            lambda: (
                group.get("brokerclusters", objects.CLUSTER)["status"]["controller"]["epoch"]
                > epoch
            ),
            "a higher controller epoch",
        )
    attended.create_topic(f"after-{lease}")
    load.wait_for_acks(RATE)
    attended.wait_topic_ready(topic)
    load.judged()


def test_deleted_partitions_of_a_topic_under_load_end_ready(attended: AttendedGroup) -> None:
    group = attended.group
    attended.create_topic("partitions")
    load = LoadProcess(group, "partitions", PARTITIONS)
    before = group.partitions("partitions", PARTITIONS)
    for number in range(PARTITIONS):
        delete_and_wait_for_another(attended, "partitions", f"partitions-{number}")
    attended.wait_topic_ready("partitions")
    load.wait_for_acks(RATE)
    after = group.partitions("partitions", PARTITIONS)
    for old, new in zip(before, after, strict=True):
        assert new["leaderEpoch"] > old["leaderEpoch"]
        assert new["partitionEpoch"] > old["partitionEpoch"]
    load.judged()


def test_a_cluster_deleted_under_load_goes_on_and_is_adopted_when_it_is_created_again(
    attended: AttendedGroup,
) -> None:
    group, topic = attended.group, "adopted"
    attended.create_topic(topic)
    load = LoadProcess(group, topic, PARTITIONS)
    registered = {each["metadata"]["uid"] for each in attended.operator.list(BROKERS)}
    leaders, controller = group.leaders(topic, PARTITIONS), group.controller()
    led, victim = next(pair for pair in enumerate(leaders) if pair[1] != controller)
    attended.kubectl("delete", "bc", objects.CLUSTER)
    group.brokers[victim].kill()
    group.wait_leader(topic, led, other_than=victim)
    load.wait_for_acks(RATE)
    group.start()
    attended.plane.apply(objects.cluster(attended.namespace))
    attended.create_topic("after-the-adoption")
    attended.wait_topic_ready(topic)
    assert {each["metadata"]["uid"] for each in attended.operator.list(BROKERS)} == registered
    load.judged()


def another_boot(attended: AttendedGroup) -> None:
    for broker in attended.group.brokers:
        broker.boot(int(broker.boot_id_path.read_text().removeprefix("boot-")) + 1)


def delete_registrations(attended: AttendedGroup) -> None:
    attended.kubectl("delete", BROKERS, "--all")


@pytest.mark.parametrize("meanwhile", [another_boot, delete_registrations])
def test_a_cluster_of_which_no_start_is_clean_comes_back_with_one_command(
    attended: AttendedGroup, meanwhile: Callable[[AttendedGroup], None]
) -> None:
    """Each broker has every record, and none can prove it."""
    group, topic = attended.group, meanwhile.__name__.replace("_", "-")
    attended.create_topic(topic, partitions=1)
    sent = SentRecords(producer_of(group.bootstrap()), topic)
    sent.send(300)
    sent.settle()
    for broker in group.brokers:
        broker.kill()
    meanwhile(attended)
    group.start()
    attended.wait_for(lambda: attended.condition(topic)["reason"] == "UncleanLastReplica", "why")
    message = attended.condition(topic)["message"]
    command = message[message.index("kubectl ") :]
    assert command.replace(topic, "orders") in (REPOSITORY / "README.md").read_text()
    attended.kubectl(*shlex.split(command)[1:])
    attended.wait_topic_ready(topic)
    assert group.partition(topic)["recovery"] == "Unclean"
    elected = group.brokers[group.controller()].last_line("leader elected")
    assert elected is not None
    assert (elected["level"], elected["kind"]) == ("WARNING", "unclean")
    assert read_all(group.bootstrap(), topic, 300) == sent.offsets
