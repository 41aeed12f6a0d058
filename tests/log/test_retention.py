"""Which segments retention lets go: by size, by age, never above the high watermark."""

from __future__ import annotations

import pytest

from strandline.log.retention import SealedSegment, choose_log_start
from strandline.model import TopicSettings

NOW_MS = 1_000_000
KEEP_ALL = TopicSettings()


def sealed(end: int, *, size: int = 100, newest: int = 0, modified: int = 0) -> SealedSegment:
    return SealedSegment(
        end_offset=end, size_bytes=size, max_timestamp_ms=newest, modified_ms=modified
    )


def start(
    *segments: SealedSegment,
    settings: TopicSettings,
    high_watermark: int = 1_000,
    log_start_offset: int = 0,
    active_bytes: int = 0,
) -> int:
    return choose_log_start(
        segments,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        log_size_bytes=sum(each.size_bytes for each in segments) + active_bytes,
        now_ms=NOW_MS,
        settings=settings,
    )


def test_without_a_retention_nothing_goes() -> None:
    assert start(sealed(10), sealed(20), settings=KEEP_ALL) == 0


@pytest.mark.parametrize(
    "retention_bytes,expected", [(350, 0), (300, 0), (250, 10), (150, 20), (50, 30), (0, 30)]
)
def test_size_leaves_at_least_what_the_topic_keeps(retention_bytes: int, expected: int) -> None:
    settings = TopicSettings(retention_bytes=retention_bytes)
    found = start(sealed(10), sealed(20), sealed(30), settings=settings, active_bytes=50)
    assert found == expected


def test_age_is_that_of_the_newest_record_of_a_segment() -> None:
    settings = TopicSettings(retention_ms=1_000)
    old, at_the_bound = sealed(10, newest=NOW_MS - 1_001), sealed(20, newest=NOW_MS - 1_000)
    assert start(old, at_the_bound, settings=settings) == 10


def test_the_first_segment_that_stays_keeps_later_ones() -> None:
    settings = TopicSettings(retention_ms=1_000)
    assert start(sealed(10, newest=NOW_MS), sealed(20, newest=1), settings=settings) == 0


@pytest.mark.parametrize("timestamp", [-1, -(1 << 63), NOW_MS + 1, (1 << 63) - 1])
def test_a_timestamp_that_says_nothing_is_replaced_by_the_files_last_change(
    timestamp: int,
) -> None:
    settings = TopicSettings(retention_ms=1_000)
    fresh = sealed(10, newest=timestamp, modified=NOW_MS - 1_000)
    stale = sealed(10, newest=timestamp, modified=NOW_MS - 1_001)
    assert start(fresh, settings=settings) == 0
    assert start(stale, settings=settings) == 10


@pytest.mark.parametrize("high_watermark,expected", [(9, 0), (10, 10), (19, 10), (20, 20)])
def test_no_segment_above_the_high_watermark_goes(high_watermark: int, expected: int) -> None:
    for settings in (TopicSettings(retention_ms=0), TopicSettings(retention_bytes=0)):
        found = start(
            sealed(10, newest=1), sealed(20, newest=1), settings=settings,
            high_watermark=high_watermark,
        )  # fmt: skip
        assert found == expected


def test_segments_below_the_log_start_are_gone_already() -> None:
    settings = TopicSettings(retention_bytes=100)
    segments = (sealed(10), sealed(20), sealed(30))
    assert start(*segments, settings=settings, log_start_offset=10) == 20
    assert start(*segments, settings=settings, log_start_offset=25) == 25
