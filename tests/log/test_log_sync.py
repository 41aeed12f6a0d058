"""Syncs of a log: when one is due, what it covers, and what voids it."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.log.log_flush import LogSync
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_fetched
from strandline.model import TopicSettings
from tests.log.support.batches import batch
from tests.log.support.logs import Workshop, append, fill


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.mark.parametrize("every,due", [(1, [2, 4, 6]), (3, [4]), (100, [])])
def test_flush_interval_counts_messages(tmp_path: Path, every: int, due: list[int]) -> None:
    log = Workshop(tmp_path, TopicSettings(flush_messages=every)).create()
    seen = []
    for _ in range(3):
        append(log, records=2)
        if log.is_sync_due:
            seen.append(log.log_end_offset)
            log.flush()
    assert seen == due


def test_sync_is_due_behind_records_of_a_leader_too(tmp_path: Path) -> None:
    log = Workshop(tmp_path, TopicSettings(flush_messages=4)).create()
    fetched = read_fetched(batch([b"x"] * 4, leader_epoch=0))
    log.append_as_follower(fetched, batch_count=1)
    assert log.is_sync_due


def test_sync_leaves_what_comes_behind_it_to_the_next_one(workshop: Workshop) -> None:
    log = workshop.create()
    append(log)
    sync = begun(log)
    append(log)
    sync.run()
    assert log.end_sync(sync)
    assert log.recovery_point == 1
    log.flush()
    assert log.recovery_point == 2
    assert log.begin_sync() is None


def test_cut_voids_a_sync_that_runs(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=3)
    sync = begun(log)
    log.truncate_to(1)
    append(log)
    append(log)
    sync.run()
    assert not log.end_sync(sync)
    assert log.recovery_point == 0


def test_folder_is_synced_by_whoever_comes_first_also_beside_a_flush_that_has_begun(
    workshop: Workshop,
) -> None:
    log = workshop.create()
    append(log)
    flush = log.begin_flush()
    assert flush is not None
    beside = begun(log)
    assert beside.folder == log.folder, "the flush has not run yet"
    beside.run()
    log.end_sync(beside)
    append(log)
    assert begun(log).folder is None
    log.restart_at(5)
    flush.run()
    log.end_flush(flush)
    assert begun(log).folder == log.folder, "neither of them has seen the new segment"


def begun(log: PartitionLog) -> LogSync:
    sync = log.begin_sync()
    assert sync is not None
    return sync
