"""While the API server is down, the brokers keep serving, and no partition changes its leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.config.kubernetes import KubernetesConfig
from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.broker_process import BrokerProgram
from tests.support.control_plane import ControlPlane
from tests.support.load import RATE, LoadProcess

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

PARTITIONS = 3
OUTAGE_SECONDS = 20
REPORT_SECONDS = KubernetesConfig().waiting_report_interval_ms / 1000
BETWEEN_ATTEMPTS_SECONDS = 5.0
"""A broker logs a report at its first attempt after the report is due."""
RATE_KEPT = 0.8
SESSION_SECONDS = 2
"""A broker that sends no heartbeat for this long is declared dead (timing demo)."""


@pytest.fixture
def own_group(tmp_path: Path) -> Iterator[BrokerGroup]:
    """Provide brokers over a control plane that no other test sees stop."""
    plane = ControlPlane.start(tmp_path / "control-plane")
    objects.install_crds(plane)
    plane.kubectl("create", "namespace", "outage")
    kubeconfig = objects.broker_account(plane, "outage")
    group = BrokerGroup(tmp_path, plane, "outage", kubeconfig=kubeconfig)
    group.start()
    yield group
    group.stop()
    plane.stop()
    for broker in group.brokers:
        broker.check_log()


def acked_between(load: LoadProcess, start: int, end: int) -> int:
    first, last = (sum(load.reports()[second]["acked"].values()) for second in (start, end))
    return int(last - first)


def check_leaders(group: BrokerGroup, before: list[dict[str, Any]]) -> None:
    """Fail if a partition had a leader election since `before`, even one of the same leader."""
    after = group.partitions("orders", PARTITIONS)
    assert [s["leaderEpoch"] for s in after] == [s["leaderEpoch"] for s in before]
    assert [s["leader"] for s in after] == [s["leader"] for s in before]


def check_outage_is_logged(broker: BrokerProgram, watch: str) -> None:
    """Fail unless a broker logged the outage of a watch at once, and again after the interval."""
    lines = [line for line in broker.lines() if line.get("waiting_for") == watch]
    first, second = (line["waited_seconds"] for line in lines[:2])
    assert first == 0
    assert REPORT_SECONDS <= second < REPORT_SECONDS + BETWEEN_ATTEMPTS_SECONDS


def test_records_go_on_without_an_api_server_and_no_leader_changes(
    own_group: BrokerGroup,
) -> None:
    group = own_group
    group.create_topic("orders", partitions=PARTITIONS)
    group.wait_full_isr("orders", PARTITIONS)
    load = LoadProcess(group, "orders", PARTITIONS)
    load.wait_reports(6)
    before = group.partitions("orders", PARTITIONS)
    begun = len(load.reports()) - 1
    group.control_plane.stop_api()
    load.wait_reports(begun + 1 + OUTAGE_SECONDS)
    group.control_plane.start_api()
    steady = acked_between(load, begun - 4, begun) / 4
    outage = acked_between(load, begun, begun + OUTAGE_SECONDS) / OUTAGE_SECONDS
    assert outage >= RATE_KEPT * steady, (steady, outage)
    load.wait_for_acks(RATE)
    check_leaders(group, before)
    for number, broker in enumerate(group.brokers):
        assert broker.runs()
        check_outage_is_logged(broker, "watch of leases with metadata.name=demo-controller")
        check_outage_is_logged(broker, f"watch of brokers with metadata.name=demo-{number}")

    # Everything works again: a topic is created, and a dead leader is replaced.
    group.create_topic("later", partitions=PARTITIONS)
    group.wait_full_isr("later", PARTITIONS)
    # After this wait the controller would have declared dead any broker without a session.
    load.wait_reports(len(load.reports()) + 2 * SESSION_SECONDS)
    check_leaders(group, before)
    victim = group.leaders("orders", PARTITIONS)[0]
    group.brokers[victim].kill()
    group.wait_leader("orders", other_than=victim)
    load.wait_for_acks(RATE)
    group.start()
    load.judged()
