"""Volumes become full, and grow: no record is lost, and no person has to act."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from strandline.names import LOG_DIRECTORY_FAILED, LOG_DIRECTORY_FULL
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.volumes import fill_volume, leave_no_inode, mounted_tmpfs, remount

pytestmark = [pytest.mark.processes, pytest.mark.timeout(150)]

VALUE_BYTES = 20_000
SMALL = "size=24m"
LARGER_THAN_ITS_RESERVE = "size=48m"
"""A tenth is more than the reserve: a start that gives the reserve up is full all the same."""
GROWN = "size=96m"
MORE_THAN_FITS = 800
"""Records for each of three partitions."""
MORE_THAN_ONE_VOLUME = 2_000
FILL_LIMIT_MS = 60_000
"""How fast volumes fill up is no promise: a busy machine takes long for so many records."""
SEVERAL_SEGMENTS = 400
"""More than the broker has files that it removes while it runs: the flushed mark, the reserve."""
FULL, SPACE = "volume full, clients refused", "volume has space, clients served"

OnVolumes = Callable[[dict[int, str]], BrokerGroup]


@pytest.fixture
def on_volumes(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[OnVolumes]:
    """Provide a maker of a group; brokers in its argument have volumes with these options."""
    kubeconfig = objects.broker_account(control_plane, namespace)
    with ExitStack() as stack:

        def make(volumes: dict[int, str]) -> BrokerGroup:
            group = BrokerGroup(tmp_path, control_plane, namespace, kubeconfig=kubeconfig)
            for number, options in volumes.items():
                stack.enter_context(mounted_tmpfs(group.brokers[number].data_dir, options))
            stack.callback(group.stop)
            group.start()
            return group

        yield make


def send(sent: SentRecords, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        sent.send_value((b"%d:" % number).ljust(VALUE_BYTES, b"x"))


def is_clean_start(broker: BrokerProgram) -> bool:
    return bool(broker.wait_for("registered")["evidence"] == "SameBoot")


def says_full(group: BrokerGroup, *, is_full: bool) -> None:
    """Wait until all Broker objects say whether the volumes are full."""

    def all_say_it() -> bool:
        for number in range(3):
            status = group.get("brokers", f"demo-{number}")["status"]
            assert status.get("volumeFull", False) is is_full, number
        return True

    eventually(all_say_it, FAULT_LIMIT_MS, "Broker objects that say what volumes are")


def test_all_volumes_full_at_once_and_grown_lose_nothing(on_volumes: OnVolumes) -> None:
    group = on_volumes(dict.fromkeys(range(3), LARGER_THAN_ITS_RESERVE))
    group.create_topic("full", partitions=3)
    group.wait_full_isr("full", 3)
    # Megabytes that are refused ten times a second leave a slow machine no time for reads.
    producer = producer_of(group.bootstrap(), retry_max_ms=1_000)
    everything = [SentRecords(producer, "full", partition=number) for number in range(3)]
    for sent in everything:
        send(sent, MORE_THAN_FITS)

    def all_full() -> bool:
        producer.poll(0)
        for broker in group.brokers:
            assert f"{LOG_DIRECTORY_FULL.name} 1.0" in broker.get("/metrics")[1]
        return True

    eventually(all_full, FILL_LIMIT_MS, "three full volumes")
    producer.poll(1)
    acknowledged = [dict(sent.offsets) for sent in everything]
    # All records of one partition fit where those of the others were late.
    assert sum(map(len, acknowledged)) < len(everything) * MORE_THAN_FITS
    for number, found in enumerate(acknowledged):
        assert found
        read = read_all(group.bootstrap(), "full", len(found), partition=number)
        assert found.items() <= read.items(), "a full broker serves reads"
    assert all(broker.runs() for broker in group.brokers)
    says_full(group, is_full=True)

    # Another program takes the rest, and every broker dies: the next starts have the reserve alone.
    for broker in group.brokers:
        fill_volume(broker.data_dir)
        broker.kill()
    group.start()
    assert all(is_clean_start(broker) for broker in group.brokers)
    for number, found in enumerate(acknowledged):
        read = read_all(group.bootstrap(), "full", len(found), partition=number)
        assert found.items() <= read.items()

    for broker in group.brokers:
        remount(broker.data_dir, GROWN)
    for sent in everything:
        sent.settle()
    group.wait_full_isr("full", 3)
    for number, sent in enumerate(everything):
        assert len(sent.offsets) == MORE_THAN_FITS
        assert acknowledged[number].items() <= sent.offsets.items()
        read = read_all(group.bootstrap(), "full", MORE_THAN_FITS, partition=number)
        assert read == sent.offsets
    says_full(group, is_full=False)
    for broker in group.brokers:
        assert broker.runs()
        assert broker.last_line(SPACE) is not None
        broker.check_log()


def test_a_leader_with_a_full_volume_gives_way_stays_up_and_comes_back(
    on_volumes: OnVolumes,
) -> None:
    group = on_volumes({0: SMALL})
    leader = group.brokers[0]
    group.create_topic("handed")
    group.wait_full_isr("handed")
    assert group.wait_leader("handed") == 0
    sent = SentRecords(producer_of(group.bootstrap()), "handed")
    send(sent, MORE_THAN_ONE_VOLUME)
    sent.settle()
    assert group.wait_leader("handed", other_than=0) in (1, 2)
    assert leader.last_line(FULL) is not None
    assert leader.runs()
    remount(leader.data_dir, GROWN)
    group.wait_full_isr("handed")
    assert read_all(group.bootstrap(), "handed", MORE_THAN_ONE_VOLUME) == sent.offsets
    for broker in group.brokers:
        assert broker.runs()
        broker.check_log()


def test_a_leader_with_a_full_disk_gives_way_and_nothing_acknowledged_is_lost(
    on_volumes: OnVolumes,
) -> None:
    """A volume without inodes has free blocks: the write itself fails, when the log rolls."""
    group = on_volumes({0: SMALL})
    leader = group.brokers[0]
    group.create_topic("full")
    group.wait_full_isr("full")
    assert group.wait_leader("full") == 0
    leave_no_inode(leader.data_dir)
    sent = SentRecords(producer_of(group.bootstrap()), "full")
    send(sent, SEVERAL_SEGMENTS)
    sent.settle()
    assert group.wait_leader("full", other_than=0) in (1, 2)
    assert leader.exit_status() == 1
    failed = leader.last_line("failed")
    assert failed is not None
    assert "ENOSPC" in failed["cause"]
    assert read_all(group.bootstrap(), "full", SEVERAL_SEGMENTS) == sent.offsets
    for survivor in group.brokers[1:]:
        _, text = survivor.get("/metrics")
        assert f"{LOG_DIRECTORY_FAILED.name} 0.0" in text
        assert survivor.runs()

    remount(leader.data_dir, "nr_inodes=1000")
    group.start()
    assert is_clean_start(leader), "a write without space loses nothing"
    group.wait_full_isr("full")
    for broker in group.brokers:
        broker.check_log()
