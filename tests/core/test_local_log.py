"""Offsets and epochs of a log, and the commands that change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.core.effects import RestartLogAt, TruncateTo, WriteEpochCheckpoint
from strandline.core.local_log import LocalLog
from strandline.core.marked_partitions import MarkedPartitions
from strandline.core.notices import Truncated
from strandline.errors import InvariantViolation
from strandline.model import LeaderEpoch, TopicSettings

from .samples import TP, batch, hosted, log, starts

EPOCH = LeaderEpoch(3)


def test_truncation_cuts_the_log_before_its_epochs() -> None:
    mine = log(10, high_watermark=8, epochs="0@0 2@5")
    effects = mine.truncate_to(5, leader_epoch=EPOCH, reason="why")
    assert [type(each) for each in effects] == [TruncateTo, WriteEpochCheckpoint, Truncated]
    assert (mine.log_end_offset, mine.high_watermark) == (5, 5)
    truncated = effects[-1]
    assert isinstance(truncated, Truncated)
    assert (truncated.from_offset, truncated.to_offset, truncated.below_high_watermark) == (
        10,
        5,
        3,
    )


def test_truncation_at_the_end_drops_an_empty_last_epoch() -> None:
    mine = log(5, epochs="0@0 2@5")
    effects = mine.truncate_to(5, leader_epoch=EPOCH, reason="why")
    assert effects == [WriteEpochCheckpoint(tp=mine.tp, epochs=starts((0, 0)))]


def test_truncation_of_nothing_does_nothing() -> None:
    assert log(5, epochs="0@0").truncate_to(9, leader_epoch=EPOCH, reason="why") == []


def test_truncation_below_the_start_begins_anew_there() -> None:
    mine = log(9, start=5, high_watermark=7, epochs="0@5")
    effects = mine.truncate_to(3, leader_epoch=EPOCH, reason="why")
    assert [type(each) for each in effects] == [RestartLogAt, WriteEpochCheckpoint, Truncated]
    assert (mine.log_start_offset, mine.high_watermark, mine.log_end_offset) == (3, 3, 3)
    truncated = effects[-1]
    assert isinstance(truncated, Truncated)
    assert truncated.below_high_watermark == 4


def test_restart_of_an_empty_log_removes_no_records() -> None:
    mine = log(0)
    effects = mine.restart_at(50, leader_epoch=EPOCH, reason="why")
    assert effects == [RestartLogAt(tp=mine.tp, offset=50)]
    assert mine.log_start_offset == mine.high_watermark == mine.log_end_offset == 50


@pytest.mark.parametrize(("leaders", "taken"), [(3, 3), (99, 10), (0, 2)])
def test_follower_takes_the_high_watermark_as_far_as_its_log_reaches(
    leaders: int, taken: int
) -> None:
    mine = log(10, start=2, high_watermark=5, epochs="0@2")
    mine.follow_high_watermark(leaders)
    assert mine.high_watermark == taken


@pytest.mark.parametrize("wanted", [4, 11])
def test_leader_high_watermark_that_falls_or_runs_ahead_stops_the_broker(wanted: int) -> None:
    with pytest.raises(InvariantViolation):
        log(10, high_watermark=5).raise_high_watermark(wanted)


def test_epoch_that_falls_stops_the_broker() -> None:
    with pytest.raises(InvariantViolation):
        log(1, epochs="4@0").begin_epoch(EPOCH, 1)


def test_loaded_log_without_epochs_stops_the_broker_if_it_has_records() -> None:
    assert LocalLog.loaded(hosted(0, epochs=""), MarkedPartitions()).log_end_offset == 0
    with pytest.raises(InvariantViolation):
        LocalLog.loaded(hosted(5, epochs=""), MarkedPartitions())


def test_loaded_log_whose_epoch_begins_beyond_its_end_stops_the_broker() -> None:
    with pytest.raises(InvariantViolation):
        LocalLog.loaded(replace(hosted(5), epochs=starts((0, 0), (1, 6))), MarkedPartitions())


def test_appended_records_end_where_the_next_ones_begin() -> None:
    mine = log(3, epochs="0@0")
    assert (mine.append(2), mine.append(1), mine.log_end_offset) == (3, 5, 6)


def test_append_that_would_end_below_the_high_watermark_stops_the_broker() -> None:
    with pytest.raises(InvariantViolation):
        log(3, high_watermark=3).append(-1)


def test_batches_bring_their_epochs_and_the_last_checkpoint_holds_all() -> None:
    mine = log(2, epochs="0@0")
    effects = mine.append_batches((batch(2, 4, 1), batch(4, 5, 3)))
    assert effects == [WriteEpochCheckpoint(tp=mine.tp, epochs=starts((0, 0), (1, 2), (3, 4)))]
    assert mine.log_end_offset == 5
    assert mine.append_batches((batch(5, 6, 3),)) == []


@pytest.mark.parametrize("base", [1, 3])
def test_batch_that_does_not_begin_at_the_log_end_stops_the_broker(base: int) -> None:
    with pytest.raises(InvariantViolation):
        log(2, epochs="0@0").append_batches((batch(base, 9),))


def test_settings_are_adopted_once() -> None:
    mine, other = log(), replace(TopicSettings(), flush_messages=7)
    assert [mine.adopt_settings(each) for each in (TopicSettings(), other, other)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(("start", "watermark", "end"), [(-1, 0, 0), (2, 1, 3), (0, 2, 1)])
def test_offsets_out_of_order_stop_the_broker(start: int, watermark: int, end: int) -> None:
    with pytest.raises(InvariantViolation):
        log(end, high_watermark=watermark, start=start)


EVERY_APPEND = TopicSettings(flush_messages=1)


def test_log_end_is_durable_at_once_unless_each_append_is_flushed() -> None:
    mine = log(5)
    mine.append(2)
    assert mine.durable_end_offset == 7
    mine.adopt_settings(EVERY_APPEND)
    assert mine.durable_end_offset == 0
    mine.on_flushed(6)
    assert mine.durable_end_offset == 6
    mine.on_flushed(5)
    assert mine.durable_end_offset == 6


def test_loaded_log_is_on_disk_and_what_is_appended_to_it_is_not() -> None:
    mine = LocalLog.loaded(hosted(5, epochs="0@0"), MarkedPartitions())
    mine.adopt_settings(EVERY_APPEND)
    mine.append(2)
    assert (mine.durable_end_offset, mine.log_end_offset) == (5, 7)


def test_durable_end_falls_with_a_cut_and_stays_there_for_what_comes_in_its_place() -> None:
    mine = log(10, epochs="0@0")
    mine.adopt_settings(EVERY_APPEND)
    mine.on_flushed(10)
    mine.truncate_to(6, leader_epoch=EPOCH, reason="why")
    mine.append(4)
    assert mine.durable_end_offset == 6
    mine.restart_at(20, leader_epoch=EPOCH, reason="why")
    mine.append(1)
    assert mine.durable_end_offset == 20


def test_flush_beyond_the_log_end_stops_the_broker() -> None:
    with pytest.raises(InvariantViolation, match="a flush ends within the log"):
        log(5).on_flushed(6)


def test_follower_takes_no_high_watermark_that_a_power_cut_could_leave_without_its_log() -> None:
    mine = LocalLog.loaded(hosted(5, epochs="0@0"), MarkedPartitions())
    mine.adopt_settings(EVERY_APPEND)
    mine.append(3)
    mine.follow_high_watermark(8)
    assert mine.high_watermark == 5
    mine.on_flushed(8)
    mine.follow_high_watermark(8)
    assert mine.high_watermark == 8


@pytest.mark.parametrize(
    "move",
    [
        lambda mine: mine.raise_high_watermark(4),
        lambda mine: mine.follow_high_watermark(2),
        lambda mine: mine.truncate_to(2, leader_epoch=LeaderEpoch(1), reason="divergence"),
        lambda mine: mine.restart_at(9, leader_epoch=LeaderEpoch(1), reason="out of range"),
    ],
)
def test_log_is_marked_when_its_high_watermark_moves(move: Callable[[LocalLog], None]) -> None:
    moved = MarkedPartitions()
    mine = LocalLog(
        tp=TP,
        topic_name="orders",
        settings=TopicSettings(),
        moved=moved,
        log_end_offset=5,
        high_watermark=3,
        epochs=starts((0, 0)),
    )
    assert moved.take() == [TP]
    mine.raise_high_watermark(3)
    mine.follow_high_watermark(3)
    mine.append(1)
    assert moved.take() == []
    move(mine)
    assert mine.high_watermark != 3
    assert moved.take() == [TP]
