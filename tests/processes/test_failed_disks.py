"""A disk fails when it is read or written: its broker gives way, and clients go on elsewhere."""

from __future__ import annotations

import os

import pytest

from strandline.errors import ExitCode
from strandline.log.data_directory import FAILED_FILE
from tests.processes.conftest import MakeGroup
from tests.support.clients import SentRecords, producer_of, read_all

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

COUNT = 50
SEGMENT_BYTES, BATCHES = 1_000, 2
"""One batch of records fills a segment."""


def test_a_leader_that_cannot_read_its_log_gives_way_to_one_that_can(
    make_group: MakeGroup,
) -> None:
    group = make_group()
    topic_id = group.create_topic("unreadable")
    group.wait_full_isr("unreadable")
    leader = group.brokers[0]
    assert group.wait_leader("unreadable") == 0
    sent = SentRecords(producer_of(group.bootstrap()), "unreadable")
    sent.send(COUNT)
    sent.settle()
    (segment,) = group.log_folder(0, topic_id).glob("*.log")
    os.truncate(segment, 100)
    assert read_all(group.bootstrap(), "unreadable", COUNT) == sent.offsets
    assert leader.exit_status() == ExitCode.LOG_DIRECTORY_FAILED
    failed = leader.last_line("failed")
    assert failed is not None
    assert "read: EIO" in failed["cause"]
    assert group.wait_leader("unreadable", other_than=0) in (1, 2)
    assert (leader.data_dir / FAILED_FILE).exists(), "this disk proves nothing on this boot"
    group.start()
    assert leader.wait_for("registered")["evidence"] in ("StorageFailed", "LogsDamaged")
    group.wait_full_isr("unreadable")
    sent.send(COUNT)
    sent.settle()
    for broker in group.brokers:
        broker.check_log()


def test_a_leader_that_cannot_begin_a_segment_gives_way_to_one_that_can(
    make_group: MakeGroup,
) -> None:
    group = make_group()
    topic_id = group.create_topic("unwritable", config={"segmentBytes": SEGMENT_BYTES})
    group.wait_full_isr("unwritable")
    leader = group.brokers[0]
    assert group.wait_leader("unwritable") == 0
    sent = SentRecords(producer_of(group.bootstrap()), "unwritable")
    leader.wait_for("became leader")
    # Open files go on; a new one finds no folder.
    folder = group.log_folder(0, topic_id)
    folder.rename(folder.with_suffix(".gone"))
    for _ in range(BATCHES):
        sent.send(COUNT)
        sent.settle()
    assert leader.exit_status() == ExitCode.LOG_DIRECTORY_FAILED
    failed = leader.last_line("failed")
    assert failed is not None
    assert "append: ENOENT" in failed["cause"]
    assert group.wait_leader("unwritable", other_than=0) in (1, 2)
    assert (leader.data_dir / FAILED_FILE).exists(), "this disk proves nothing on this boot"
    folder.with_suffix(".gone").rename(folder)
    group.start()
    assert leader.wait_for("registered")["evidence"] in ("StorageFailed", "LogsDamaged")
    group.wait_full_isr("unwritable")
    sent.send(COUNT)
    sent.settle()
    for broker in group.brokers:
        broker.check_log()
