"""A segment's greatest timestamp, over appends, walks and cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.log.record_batch import parse_header
from strandline.log.segment import NO_TIMESTAMP, Segment, SegmentPool
from tests.log.support.batches import batch, stamped
from tests.log.support.logs import SMALL_INDEX


@pytest.fixture
def pool() -> SegmentPool:
    return SegmentPool(open_segments_max=10)


def new_segment(folder: Path, pool: SegmentPool) -> Segment:
    return Segment(folder, 0, limits=SMALL_INDEX, pool=pool)


def append(segment: Segment, timestamp_ms: int) -> None:
    source = batch([b"v"], max_timestamp_ms=timestamp_ms)
    data = stamped(source, base_offset=segment.end_offset, leader_epoch=0)
    segment.append([data], [parse_header(data)])


def test_greatest_timestamp_is_known_while_batches_come_in_any_order(
    tmp_path: Path, pool: SegmentPool
) -> None:
    segment = new_segment(tmp_path, pool)
    segment.create()
    assert segment.max_timestamp_ms == NO_TIMESTAMP
    for timestamp_ms, greatest in [(5, 5), (9, 9), (7, 9), (-1, 9)]:
        append(segment, timestamp_ms)
        assert segment.max_timestamp_ms == greatest
    segment.release()


def test_batches_without_timestamps_give_none(tmp_path: Path, pool: SegmentPool) -> None:
    segment = new_segment(tmp_path, pool)
    segment.create()
    append(segment, -1)
    assert segment.max_timestamp_ms == NO_TIMESTAMP
    segment.release()


def test_a_walk_finds_the_greatest_timestamp_again(tmp_path: Path, pool: SegmentPool) -> None:
    segment = new_segment(tmp_path, pool)
    segment.create()
    for timestamp_ms in (5, 9, 7):
        append(segment, timestamp_ms)
    segment.release()
    again = new_segment(tmp_path, pool)
    again.check(last_epoch=-1, epoch_max=0, with_crc=True, visit=lambda _: None)
    assert again.max_timestamp_ms == 9
    again.release()


def test_a_cut_never_leaves_a_timestamp_below_that_of_a_batch_that_stays(
    tmp_path: Path, pool: SegmentPool
) -> None:
    segment = new_segment(tmp_path, pool)
    segment.create()
    for timestamp_ms in (5, 9, 7):
        append(segment, timestamp_ms)
    segment.truncate_to(2)
    assert segment.max_timestamp_ms == 9
    segment.truncate_to(0)
    assert segment.max_timestamp_ms == NO_TIMESTAMP
    segment.release()
