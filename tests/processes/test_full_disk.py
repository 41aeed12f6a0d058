"""A data directory becomes full: its broker ends, the others go on, no record is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.names import LOG_DIRECTORY_FAILED
from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.control_plane import ControlPlane
from tests.support.volumes import mounted_tmpfs

pytestmark = [pytest.mark.processes, pytest.mark.timeout(90)]

VALUE_BYTES = 20_000
ENOUGH_TO_FILL = 100


@pytest.fixture
def small_disk_group(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[BrokerGroup]:
    """Provide a group whose broker 0 has a data directory of 1 MiB."""
    kubeconfig = objects.broker_account(control_plane, namespace)
    group = BrokerGroup(tmp_path, control_plane, namespace, kubeconfig=kubeconfig)
    with mounted_tmpfs(group.brokers[0].data_dir, "size=1m"):
        try:
            group.start()
            yield group
        finally:
            group.stop()


def test_a_leader_with_a_full_disk_gives_way_and_nothing_acknowledged_is_lost(
    small_disk_group: BrokerGroup,
) -> None:
    group = small_disk_group
    group.create_topic("full")
    group.wait_full_isr("full")
    assert group.wait_leader("full") == 0
    sent = SentRecords(producer_of(group.bootstrap()), "full")
    for number in range(ENOUGH_TO_FILL):
        sent.send_value((b"%d:" % number).ljust(VALUE_BYTES, b"x"))
    sent.settle()
    assert group.wait_leader("full", other_than=0) in (1, 2)
    assert group.brokers[0].exit_status() == 1
    group.brokers[0].check_log()
    failed = group.brokers[0].last_line("failed")
    assert failed is not None
    assert "ENOSPC" in failed["cause"]
    assert read_all(group.bootstrap(), "full", ENOUGH_TO_FILL) == sent.offsets
    for survivor in group.brokers[1:]:
        survivor.check_log()
        _, text = survivor.get("/metrics")
        assert f"{LOG_DIRECTORY_FAILED.name} 0.0" in text
        assert survivor.runs()
