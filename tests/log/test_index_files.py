"""The index file of a sealed segment is that of its batches, or it is not there."""

from __future__ import annotations

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
