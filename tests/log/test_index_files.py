"""The index file of a sealed segment is that of its batches, or it is not there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_client_batch
from strandline.log.segment import LogLimits
from strandline.model import LeaderEpoch, TopicSettings
from tests.log.support.batches import batch
from tests.log.support.logs import (
    Workshop,
    append,
    bring_to_disk,
    complete_producers,
    content,
    fill,
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    limits = LogLimits(index_interval_bytes=64, index_size_max_bytes=4096)
    return Workshop(tmp_path, settings=TopicSettings(segment_bytes=4_000), limits=limits)


def produce(log: PartitionLog, sequence: int, *, size_bytes: int = 20) -> None:
    sent = batch([b"p" * size_bytes], producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.append_as_leader(
        read_client_batch(sent), base_offset=log.log_end_offset, leader_epoch=LeaderEpoch(0)
    )


def at(log: PartitionLog, offset: int) -> bytes:
    """Return the batch that holds an offset, found with the index."""
    return b"".join(log.read(from_offset=offset, up_to_offset=offset + 1, max_bytes=1))


def index_files(log: PartitionLog) -> list[str]:
    return sorted(path.name for path in log.folder.glob("*.index"))


def cut_while_producers_are_unknown(log: PartitionLog) -> None:
    """Cut a log whose index is on disk, so that a producer's older batches are to be found."""
    for sequence in range(12):
        produce(log, sequence)
    bring_to_disk(log)
    assert index_files(log)
    log.truncate_to(2)
    assert log.rebuild is not None


def test_a_cut_takes_the_index_file_along(workshop: Workshop) -> None:
    log = workshop.create()
    cut_while_producers_are_unknown(log)
    assert not index_files(log)


def test_a_segment_that_rolls_while_producers_are_made_anew_is_read_with_its_own_index(
    workshop: Workshop,
) -> None:
    """Its summary is not known yet; its index is, and the one of before the cut fits no more."""
    log = workshop.create()
    cut_while_producers_are_unknown(log)
    while log.segment_count == 1:
        append(log, value=b"x" * 333)
    written = [at(log, offset) for offset in range(log.log_end_offset)]
    bring_to_disk(log)
    assert index_files(log)
    assert [at(log, offset) for offset in range(log.log_end_offset)] == written
    complete_producers(log)
    assert [at(log, offset) for offset in range(log.log_end_offset)] == written


def test_a_flush_that_a_cut_overtakes_leaves_no_index(workshop: Workshop) -> None:
    log = workshop.create()
    for sequence in range(12):
        produce(log, sequence)
    begun = log.begin_flush()
    assert begun is not None
    log.truncate_to(2)
    begun.run()
    log.end_flush(begun)
    assert not index_files(log)


@pytest.mark.parametrize("kept_bytes", [0, 8, 40])
def test_an_index_file_that_lost_its_end_is_made_anew(workshop: Workshop, kept_bytes: int) -> None:
    log = workshop.create()
    while log.segment_count == 1:
        fill(log, batches=1)
    written = content(log)
    bring_to_disk(log)
    path = log.folder / index_files(log)[0]
    whole = path.read_bytes()
    log.close()
    path.write_bytes(whole[:kept_bytes])
    assert content(log) == written
    assert path.read_bytes() == whole


@pytest.fixture
def without_index(workshop: Workshop) -> PartitionLog:
    """Provide a log whose sealed segment lost its index, and of which no file is open."""
    log = workshop.create()
    while log.segment_count == 1:
        fill(log, batches=1)
    bring_to_disk(log)
    (log.folder / index_files(log)[0]).unlink()
    workshop.pool.close()
    return log


def before_the_first_rename(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let a thread act while the first writer of an index file is about to put it in its place."""
    rename, threads = os.rename, [threading.Thread(target=act)]

    def delayed(source: Path, target: Path) -> None:
        if threads and ".index" in target.name:
            thread = threads.pop()
            thread.start()
            thread.join()
        rename(source, target)

    monkeypatch.setattr(os, "rename", delayed)


def test_two_readers_that_make_one_index_at_once_fail_no_disk(
    without_index: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, found = without_index, list[bytes]()
    before_the_first_rename(monkeypatch, lambda: found.append(at(log, 0)))
    found.append(at(log, 0))
    assert len(found) == 2
    assert found[0] == found[1]
    assert [path.name for path in log.folder.iterdir() if ".tmp" in path.name] == []
    assert index_files(log)


def test_an_index_that_a_cut_overtakes_does_not_come_after_it(
    without_index: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = without_index
    part = log.part(from_offset=0, up_to_offset=1, max_bytes=1)
    before_the_first_rename(monkeypatch, lambda: log.truncate_to(2))
    part.read(max_bytes=1, any_size=True)
    assert not index_files(log)
    assert log.log_end_offset == 2


def test_what_a_killed_writer_of_an_index_left_goes_at_the_next_start(
    without_index: PartitionLog, workshop: Workshop
) -> None:
    log = without_index
    log.close()
    left = log.folder / f"{0:020d}.index.4711.tmp"
    left.write_bytes(b"torn")
    workshop.open()
    assert not left.exists()
