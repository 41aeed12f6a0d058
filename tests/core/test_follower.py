"""A follower's reaction to each kind of fetch response."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from strandline.core.effects import (
    AppendAsFollower,
    Effect,
    PersistLogStart,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
)
from strandline.core.events import FetchedPartition
from strandline.core.fetch_changes import FetchPartition
from strandline.core.follower import FollowerReplica
from strandline.core.notices import Fenced
from strandline.errors import ErrorCode
from strandline.model import BatchSpan, EpochEndOffset

from .samples import RECORDS, SETTINGS, TP, batch, end, log, starts, state

OF_NO_PLACE = ("tp", "log_start_offset")
"""Fields of a wish that may differ from it when the response comes, or never do."""


def follower(
    end_offset: int = 0, *, start: int = 0, epochs: str = "", le: int = 2
) -> FollowerReplica:
    return FollowerReplica(
        log=log(end_offset, start=start, high_watermark=start, epochs=epochs),
        state=state(leader=1, le=le),
    )


def take(
    replica: FollowerReplica,
    *batches: BatchSpan,
    error: ErrorCode = ErrorCode.NONE,
    hw: int = 0,
    start: int = 0,
    diverging: EpochEndOffset | None = None,
) -> list[Effect]:
    response = FetchedPartition(
        tp=TP,
        error=error,
        high_watermark=hw,
        log_start_offset=start,
        batches=batches,
        records=RECORDS,
        diverging=diverging,
    )
    return replica.on_fetched(response, now_ms=100, settings=SETTINGS)


def test_records_are_appended_behind_their_epochs() -> None:
    replica = follower(2, epochs="0@0")
    effects = take(replica, batch(2, 5, 1), batch(5, 6, 2), hw=4)
    assert effects == [
        WriteEpochCheckpoint(tp=TP, epochs=starts((0, 0), (1, 2), (2, 5))),
        AppendAsFollower(tp=TP, records=RECORDS, batch_count=2),
    ]
    assert (replica.log.log_end_offset, replica.log.high_watermark) == (6, 4)


@pytest.mark.parametrize(
    ("batches", "accepted"),
    [
        ((batch(2, 3, 2), batch(3, 4, 3)), 1),  # a later epoch than the one followed
        ((batch(2, 3, 1), batch(4, 5, 1)), 1),  # a gap
        ((batch(2, 3, 2), batch(3, 4, 1)), 1),  # an epoch that falls
        ((batch(1, 3, 1),), 0),
        ((batch(2, 2, 1),), 0),
        ((batch(2, 3, 0),), 0),  # below the epoch of the follower's last record
    ],
)
def test_only_batches_that_continue_the_log_are_appended(
    batches: tuple[BatchSpan, ...], accepted: int
) -> None:
    replica = follower(2, epochs="1@0")
    effects = take(replica, *batches, hw=2)
    appended = [each.batch_count for each in effects if isinstance(each, AppendAsFollower)]
    assert appended == ([accepted] if accepted else [])
    assert (replica.delayed_until_ms > 100) is (accepted == 0)
    # Without an accepted batch the high watermark of the response is not taken either.
    assert replica.log.high_watermark == (2 if accepted else 0)


def test_no_records_bring_the_high_watermark() -> None:
    replica = follower(5, epochs="0@0")
    replica.refusals = 3
    assert take(replica, hw=3) == []
    assert (replica.log.high_watermark, replica.refusals) == (3, 0)


def test_diverging_epoch_cuts_the_log_and_leaves_the_high_watermark() -> None:
    replica = follower(5, epochs="0@0 1@3")
    effects = take(replica, diverging=end(0, 2), hw=5)
    assert effects[0] == TruncateTo(tp=TP, offset=2)
    assert replica.log.high_watermark == 0
    assert replica.fetch().last_fetched_epoch == 0


def test_diverging_response_that_changes_nothing_is_not_fetched_in_a_loop() -> None:
    replica = follower(5, epochs="0@0")
    assert take(replica, diverging=end(0, 9)) == []
    assert replica.delayed_until_ms == 100 + SETTINGS.fetch_backoff_min_ms


def test_pauses_grow_while_refused_and_end_with_success() -> None:
    replica = follower()
    pauses = []
    for _ in range(3):
        assert take(replica, error=ErrorCode.UNKNOWN_LEADER_EPOCH) == []
        pauses.append(replica.delayed_until_ms - 100)
    assert pauses == [20, 40, 80]
    take(replica)
    assert replica.refusals == 0


def test_fenced_follower_waits_for_a_controller_request() -> None:
    replica = follower()
    effects = take(replica, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert effects == [Fenced(fence="leader_epoch", detail="our fetch")]
    assert replica.fenced


@pytest.mark.parametrize(
    ("mine", "leaders_start", "restarts"),
    [
        ((5, 0, "0@0"), 9, True),  # the leader's log starts above the follower's end
        ((5, 0, "0@0"), 5, False),
        ((7, 7, ""), 3, True),  # an empty log may begin anywhere
        ((3, 3, ""), 3, False),
    ],
)
def test_out_of_range_begins_anew_at_the_leaders_start(
    mine: tuple[int, int, str], leaders_start: int, *, restarts: bool
) -> None:
    replica = follower(mine[0], start=mine[1], epochs=mine[2])
    effects = take(replica, error=ErrorCode.OFFSET_OUT_OF_RANGE, start=leaders_start)
    assert (RestartLogAt(tp=TP, offset=leaders_start) in effects) is restarts
    assert (replica.delayed_until_ms > 0) is not restarts


def test_an_empty_log_begins_with_the_batch_that_the_leaders_log_start_lies_in() -> None:
    replica = follower(5, start=5)
    effects = take(replica, batch(3, 7), hw=9, start=5)
    assert RestartLogAt(tp=TP, offset=3) in effects
    assert AppendAsFollower(tp=TP, records=RECORDS, batch_count=1) in effects
    assert effects.index(PersistLogStart(tp=TP, offset=5)) > effects.index(
        RestartLogAt(tp=TP, offset=3)
    )
    mine = replica.log
    assert (mine.log_start_offset, mine.high_watermark, mine.log_end_offset) == (5, 7, 7)


def test_a_log_that_ends_at_the_leaders_log_start_within_a_batch_begins_anew() -> None:
    """Its tail may be of another history, of which the leader knows no epoch any more."""
    replica = follower(11, epochs="0@0")
    effects = take(replica, batch(8, 12, 1), hw=12, start=11)
    assert RestartLogAt(tp=TP, offset=8) in effects
    assert AppendAsFollower(tp=TP, records=RECORDS, batch_count=1) in effects
    mine = replica.log
    assert (mine.log_start_offset, mine.log_end_offset) == (11, 12)
    assert mine.epochs.entries == starts((1, 11))
    kept = follower(11, epochs="0@0")
    assert take(kept, batch(8, 12, 1), hw=12, start=10) == []


@pytest.mark.parametrize(
    ("leaders_start", "leaders_hw", "starts_at"), [(3, 9, 3), (3, 2, 0), (6, 9, 0), (-1, 9, 0)]
)
def test_the_leaders_log_start_is_taken_up_to_the_own_high_watermark(
    leaders_start: int, leaders_hw: int, starts_at: int
) -> None:
    replica = follower(5, epochs="0@0")
    take(replica, hw=leaders_hw, start=leaders_start)
    assert replica.log.log_start_offset == starts_at


@pytest.mark.parametrize("parts_at", [2, 4])
def test_a_history_that_parts_below_the_leaders_log_start_begins_anew_there(parts_at: int) -> None:
    """The leader's first epoch begins at its log start, which may lie within a batch."""
    replica = follower(9, epochs="0@0 1@2", le=3)
    effects = take(replica, diverging=end(1, parts_at), start=4)
    assert effects[0] == RestartLogAt(tp=TP, offset=4)
    assert replica.log.log_end_offset == 4


def test_a_cut_at_the_own_log_start_keeps_no_part_of_a_batch() -> None:
    replica = follower(9, start=4, epochs="1@4", le=3)
    effects = take(replica, diverging=end(0, 6), start=0)
    assert effects[0] == RestartLogAt(tp=TP, offset=4)


def test_a_response_still_fits_when_the_log_start_came_to_disk_meanwhile() -> None:
    replica = follower(9, epochs="0@0")
    take(replica, hw=9)
    requested = replica.fetch()
    replica.log.advance_start(4, reason="leader")
    replica.log.on_start_persisted(4)
    assert replica.fetch().log_start_offset == 4
    assert replica.expects(requested)
    assert not replica.expects(replace(requested, fetch_offset=8))


@pytest.mark.parametrize(
    "field", [each.name for each in fields(FetchPartition) if each.name not in OF_NO_PLACE]
)
def test_a_response_to_another_place_does_not_fit(field: str) -> None:
    replica = follower(9, epochs="0@0")
    requested = replica.fetch()
    assert not replica.expects(replace(requested, **{field: getattr(requested, field) + 1}))
