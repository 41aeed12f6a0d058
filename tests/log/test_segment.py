"""A segment's greatest timestamp, over appends, walks and cuts; what a read of its end costs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from strandline.log.index import RECENT_BATCHES
from strandline.log.record_batch import parse_header
from strandline.log.segment import NO_TIMESTAMP, LogLimits, Segment, SegmentPool
from tests.log.support.batches import batch, stamped
from tests.log.support.logs import SMALL_INDEX, Workshop, bring_to_disk, content, fill
from tests.support.counted_calls import calls_of


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
    again.check(summary=None, last_epoch=-1, epoch_max=0, with_crc=True, visit=lambda _: None)
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


def read_from(segment: Segment, offset: int) -> bytes:
    found, _ = segment.read(
        from_offset=offset, up_to_offset=segment.end_offset, max_bytes=1 << 20, any_size=True
    )
    return bytes(found)


def test_a_read_of_the_newest_batches_walks_no_others(tmp_path: Path, pool: SegmentPool) -> None:
    wide = LogLimits(index_interval_bytes=1 << 20, index_size_max_bytes=1 << 20)
    segment = Segment(tmp_path, 0, limits=wide, pool=pool)
    segment.create()
    append(segment, 0)
    first = calls_of(partial(read_from, segment, 0))
    for count in range(1, 3 * RECENT_BATCHES):
        append(segment, 0)
        newest = segment.path.read_bytes()[-segment.size_bytes // (count + 1) :]
        assert read_from(segment, count) == newest
        assert calls_of(partial(read_from, segment, count)) == first
    behind = segment.end_offset - RECENT_BATCHES // 2
    assert calls_of(partial(read_from, segment, behind)) == first
    assert calls_of(partial(read_from, segment, 5)) > first  # an older batch is walked to
    segment.release()


def test_a_cut_forgets_where_the_newest_batches_were(tmp_path: Path, pool: SegmentPool) -> None:
    segment = new_segment(tmp_path, pool)
    segment.create()
    for _ in range(8):
        append(segment, 0)
    size = segment.size_bytes // 8
    segment.truncate_to(3)
    longer = stamped(batch([b"a longer value"] * 4), base_offset=3, leader_epoch=0)
    segment.append([longer], [parse_header(longer)])
    append(segment, 0)
    assert len(read_from(segment, 4)) == len(longer) + size
    assert len(read_from(segment, 6)) == len(longer) + size  # within the longer one
    assert len(read_from(segment, 7)) == size
    assert len(read_from(segment, 2)) == len(longer) + 2 * size
    segment.release()


def test_a_range_of_many_segments_is_bounded_and_few_of_them_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Workshop(tmp_path).create()
    for _ in range(50):
        fill(log, batches=20)
        bring_to_disk(log)
    everything = content(log)
    segment_bytes = len(everything) // log.segment_count
    assert log.segment_count > 40
    looked_at: list[Segment] = []

    def noted(segment: Segment) -> int:
        looked_at.append(segment)
        return segment.end.position

    monkeypatch.setattr(Segment, "size_bytes", property(noted))
    for start in (0, 2, 3, 501, 1_990):
        true_size = len(
            b"".join(log.read(from_offset=start, up_to_offset=2_000, max_bytes=1 << 30))
        )
        for enough in (1, 500, 10_000, len(everything)):
            looked_at.clear()
            least, most = log.size_range(start, 2_000, enough=enough)
            assert min(least, enough) <= min(true_size, enough) <= min(most, enough)
            assert least >= min(true_size, enough) - 2 * segment_bytes
            assert len(looked_at) < 10 + 2 * enough // segment_bytes
