"""etcd is started again from an old copy, under load: nothing is lost, and all goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import strandline_objects as objects
from tests.support.attended_group import PARTITIONS, AttendedGroup
from tests.support.control_plane import ControlPlane
from tests.support.load import RATE, LoadProcess

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

ELECTIONS = 3
RESTORED_LIMIT_MS = 60_000


@pytest.fixture
def attended(tmp_path: Path) -> Iterator[AttendedGroup]:
    """Provide brokers and an operator over an etcd that no other test sees restored."""
    plane = ControlPlane.start(tmp_path / "control-plane")
    try:
        objects.install_crds(plane)
        plane.kubectl("create", "namespace", "restored")
        made = AttendedGroup(plane, "restored", tmp_path)
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


def broker_epochs(attended: AttendedGroup) -> list[int]:
    found = (attended.group.get("broker", f"{objects.CLUSTER}-{n}") for n in range(3))
    return [int(each["status"]["brokerEpoch"]) for each in found]


def restart_operator(attended: AttendedGroup) -> None:
    """Wait until the operator ends because the store went back; start it, as Kubernetes does."""
    process = attended.operator.process
    assert process is not None
    attended.wait_for(lambda: process.poll() is not None, "the operator's end", RESTORED_LIMIT_MS)
    assert process.poll() == 0
    assert any("the store went back" in line for line in attended.operator.messages())
    attended.operator.start()


def elect(attended: AttendedGroup, topic: str) -> None:
    """Kill the leader of the first partition, wait for another, and start the broker again."""
    group = attended.group
    leader = group.wait_leader(topic)
    group.brokers[leader].kill()
    group.wait_leader(topic, other_than=leader)
    group.start()
    group.wait_full_isr(topic, PARTITIONS)


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
    attended.wait_topic_ready("orders")
    load.wait_for_acks(RATE)
    attended.create_topic("later")
    assert all(broker.runs() for broker in group.brokers)
    load.judged()
