"""etcd is started again from an old copy, under load: nothing is lost, and all goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline_operator import operator_lease
from tests.support import strandline_objects as objects
from tests.support.attended_group import PARTITIONS, AttendedGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.control_plane import ControlPlane
from tests.support.load import RATE, LoadProcess, scan_log

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

ELECTIONS = 3
LEASE = f"{objects.CLUSTER}-controller"
SETTINGS: dict[str, object] = {
    "partition.audit.interval.ms": 1_000,
    "waiting.report.interval.ms": 1_000,
}
LONG_TERM: dict[str, object] = {
    **SETTINGS,
    "controller.lease.duration.seconds": 60,
    "controller.lease.renew.deadline.ms": 50_000,
}
"""The controller's term outlives the restore."""
RECORDS = 300
RESTORED_LIMIT_MS = 60_000


@pytest.fixture
def settings() -> dict[str, object]:
    """Return the settings of the brokers."""
    return SETTINGS


@pytest.fixture
def attended(tmp_path: Path, settings: dict[str, object]) -> Iterator[AttendedGroup]:
    """Provide brokers and an operator over an etcd that no other test sees restored."""
    plane = ControlPlane.start(tmp_path / "control-plane")
    try:
        objects.install_crds(plane)
        plane.kubectl("create", "namespace", "restored")
        made = AttendedGroup(plane, "restored", tmp_path, settings)
        try:
            made.start()
            yield made
        finally:
            made.stop()
    finally:
        plane.stop()
    for broker in made.group.brokers:
        broker.check_log()


def controller_epoch(attended: AttendedGroup) -> int:
    found = attended.group.get("brokerclusters", objects.CLUSTER)
    return int(found["status"]["controller"]["epoch"])


def term(attended: AttendedGroup, *, free: bool = False, above: int = 0) -> int:
    """Return the epoch of broker 0's process as recorded, which must be above this one.

    free: give the Lease away first if it is not so; all brokers try to take it, broker 0 first.
    """
    found = attended.group.get("brokerclusters", objects.CLUSTER)["status"]["controller"]
    epoch = int(found["epoch"])
    broker = attended.group.get("broker", f"{objects.CLUSTER}-0")["status"]
    is_first = found["holderIdentity"] == f"broker-0/{broker['incarnation']}"
    holder = attended.group.get("lease", LEASE)["spec"].get("holderIdentity")
    is_settled = holder == found["holderIdentity"]
    if free and is_settled and not (is_first and epoch > above):
        released = '{"spec": {"holderIdentity": ""}}'
        attended.kubectl("patch", "lease", LEASE, "--type=merge", f"--patch={released}")
    assert is_first, found
    assert epoch > above, found
    return epoch


def broker_epochs(attended: AttendedGroup) -> list[int]:
    found = (attended.group.get("broker", f"{objects.CLUSTER}-{n}") for n in range(3))
    return [int(each["status"]["brokerEpoch"]) for each in found]


def lease_version(attended: AttendedGroup) -> str:
    """Return the version of the operator's Lease, by which it sees that a store went back."""
    return str(attended.group.get("lease", operator_lease.NAME)["metadata"]["resourceVersion"])


def restart_operator(attended: AttendedGroup) -> None:
    """Wait until the operator has ended, and start it again, as Kubernetes does."""
    process = attended.operator.process
    assert process is not None
    attended.wait_for(lambda: process.poll() is not None, "the operator's end", RESTORED_LIMIT_MS)
    attended.operator.start()


def elect(attended: AttendedGroup, topic: str) -> None:
    """Kill the leader of the first partition, wait for another, and start the broker again."""
    group = attended.group
    leader = group.wait_leader(topic)
    group.brokers[leader].kill()
    group.wait_leader(topic, other_than=leader)
    group.start()
    group.wait_full_isr(topic, PARTITIONS)


@pytest.mark.parametrize("settings", [LONG_TERM], ids=["the same term"])
def test_a_controller_that_finds_its_own_earlier_term_takes_a_higher_epoch(
    attended: AttendedGroup,
) -> None:
    """The first candidate resigns and takes the Lease again after the backup, in one process."""
    first = attended.wait_for(lambda: term(attended, free=True), "a term of broker 0")
    attended.plane.backup()
    later = attended.wait_for(lambda: term(attended, free=True, above=first), "a later term")
    attended.plane.restore()
    attended.wait_for(lambda: term(attended, above=later), "a higher epoch", RESTORED_LIMIT_MS)


def test_a_store_of_before_three_elections_loses_nothing_and_epochs_rise(
    attended: AttendedGroup,
) -> None:
    group = attended.group
    attended.create_topic("orders")
    load = LoadProcess(group, "orders", PARTITIONS)
    attended.plane.backup()
    load.wait_for_acks(RATE)
    for _ in range(ELECTIONS):
        elect(attended, "orders")
    states = group.partitions("orders", PARTITIONS)
    controller, brokers = controller_epoch(attended), broker_epochs(attended)
    attended.plane.restore()
    assert group.partitions("orders", PARTITIONS) != states

    def is_above() -> bool:
        now: list[dict[str, Any]] = group.partitions("orders", PARTITIONS)
        for old, new in zip(states, now, strict=True):
            assert new["leaderEpoch"] > old["leaderEpoch"], (old, new)
            assert new["partitionEpoch"] > old["partitionEpoch"], (old, new)
        assert controller_epoch(attended) > controller
        assert all(new >= old for new, old in zip(broker_epochs(attended), brokers, strict=True))
        return True

    attended.wait_for(is_above, "epochs above all that brokers knew", RESTORED_LIMIT_MS)
    restart_operator(attended)
    assert any("the store went back" in line for line in attended.operator.messages())
    attended.wait_topic_ready("orders")
    load.wait_for_acks(RATE)
    attended.create_topic("later")
    assert all(broker.runs() for broker in group.brokers)
    load.judged()


def written(attended: AttendedGroup, topic: str) -> SentRecords:
    """Write records to the first partition of a topic, each acknowledged by the whole ISR."""
    sent = SentRecords(producer_of(attended.group.bootstrap()), topic)
    sent.send(RECORDS)
    sent.settle()
    return sent


def stray(attended: AttendedGroup, topic_id: str) -> dict[str, Any]:
    """Wait until the BrokerCluster's status names a topic as a stray, and return the entry."""

    def named() -> dict[str, Any] | None:
        found = attended.group.get("brokerclusters", objects.CLUSTER)
        entries = found.get("status", {}).get("strays", [])
        return next((each for each in entries if each["topicId"] == topic_id), None)

    entry: dict[str, Any] = attended.wait_for(named, "a stray", RESTORED_LIMIT_MS)
    return entry


def check_logs_stay(attended: AttendedGroup, topic: str, topic_id: str, sent: SentRecords) -> None:
    """Fail unless every broker keeps the whole log, and the status says of what."""
    group = attended.group
    everywhere = {"partition": 0, "brokers": [0, 1, 2]}

    def is_told() -> bool:
        entry = stray(attended, topic_id)
        assert (entry["topicName"], entry["inTrash"]) == (topic, False), entry
        assert everywhere in entry["replicas"], entry
        return True

    attended.wait_for(is_told, f"all logs of {topic} told")
    for number, broker in enumerate(group.brokers):
        assert broker.runs()
        folder = group.log_folder(number, topic_id)
        found = {each.value.encode(): each.offset for each in scan_log(folder, number, 0)}
        assert found == sent.offsets


def adopt(attended: AttendedGroup, topic: str, topic_id: str, sent: SentRecords) -> None:
    """Create the topic again with the id that the status names; it has all its records."""
    attended.create_topic(topic, topicId=topic_id)
    assert read_all(attended.group.bootstrap(), topic, len(sent.offsets)) == sent.offsets

    def is_no_stray() -> bool:
        found = attended.group.get("brokerclusters", objects.CLUSTER)
        strays = found["status"].get("strays", [])
        assert topic_id not in {each["topicId"] for each in strays}
        return True

    attended.wait_for(is_no_stray, f"{topic} no stray any more")


@pytest.mark.parametrize("settings", [SETTINGS, LONG_TERM], ids=["another term", "the same term"])
def test_logs_of_a_topic_that_the_restored_store_never_had_stay(attended: AttendedGroup) -> None:
    group = attended.group
    attended.create_topic("older")
    kept = written(attended, "older")
    attended.plane.backup()
    lease = lease_version(attended)
    topic_id = attended.create_topic("younger")
    sent = written(attended, "younger")
    attended.wait_for(lambda: lease_version(attended) != lease, "the operator's renewal")
    attended.plane.restore()
    restart_operator(attended)
    check_logs_stay(attended, "younger", topic_id, sent)
    attended.wait_topic_ready("older")
    assert read_all(group.bootstrap(), "older", RECORDS) == kept.offsets
    adopt(attended, "younger", topic_id, sent)


def test_definitions_deleted_and_applied_again_lose_nothing(attended: AttendedGroup) -> None:
    """All objects go with their definitions; leaders go on, and every log stays."""
    group, plane = attended.group, attended.plane
    topic_id = attended.create_topic("orders")
    sent = written(attended, "orders")
    plane.kubectl("delete", "crd", *(f"{plural}.{objects.GROUP}" for plural in objects.KINDS))
    for broker in group.brokers:
        attended.wait_for(lambda broker=broker: says_it_waits(broker), "it says so, and again")
    sent.send(RECORDS)
    sent.settle()
    assert read_all(group.bootstrap(), "orders", 2 * RECORDS) == sent.offsets
    restart_operator(attended)
    attended.wait_for(lambda: "waiting" in attended.operator.messages(), "the operator says it")
    objects.install_crds(plane)
    plane.apply(objects.cluster(attended.namespace))
    attended.replace_pods()
    check_logs_stay(attended, "orders", topic_id, sent)
    adopt(attended, "orders", topic_id, sent)


def says_it_waits(broker: BrokerProgram) -> bool:
    """Tell whether a broker says, not only once, that its own object is missing."""
    lines = [line for line in broker.lines() if line.get("waiting_for") == "own Broker object"]
    return len(lines) > 1
