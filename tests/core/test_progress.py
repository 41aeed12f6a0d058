"""When a follower is caught up, behind, or a stale incarnation."""

from __future__ import annotations

import pytest

from strandline.core.progress import (
    UNKNOWN_END,
    FollowerProgress,
    out_of_sync,
    reset_progress,
    stale_incarnations,
)
from strandline.model import BrokerEpoch, BrokerId

from .samples import entry, ids


def progress(be: int = 1, clean: int = 1, **fields: int | None) -> FollowerProgress:
    return FollowerProgress(
        broker_epoch=BrokerEpoch(be),
        clean_since_epoch=BrokerEpoch(clean),
        **fields,  # type: ignore[arg-type]  # offsets and times
    )


def test_fetch_at_the_end_is_caught_up_now() -> None:
    follower = progress()
    follower.record_fetch(fetch_offset=5, log_start_offset=0, leader_end=5, now_ms=70)
    assert (follower.log_end_offset, follower.last_caught_up_ms) == (5, 70)


def test_fetch_that_reaches_the_former_end_was_caught_up_then() -> None:
    follower = progress()
    follower.record_fetch(fetch_offset=0, log_start_offset=0, leader_end=5, now_ms=10)
    follower.record_fetch(fetch_offset=5, log_start_offset=0, leader_end=9, now_ms=20)
    assert follower.last_caught_up_ms == 10


def test_fetch_short_of_the_former_end_is_not_caught_up() -> None:
    follower = progress()
    follower.record_fetch(fetch_offset=0, log_start_offset=0, leader_end=5, now_ms=10)
    follower.record_fetch(fetch_offset=4, log_start_offset=0, leader_end=9, now_ms=20)
    assert follower.last_caught_up_ms is None


def test_first_fetch_behind_the_end_is_not_caught_up() -> None:
    follower = progress()
    follower.record_fetch(fetch_offset=4, log_start_offset=0, leader_end=9, now_ms=20)
    assert follower.last_caught_up_ms is None


@pytest.mark.parametrize(
    ("end", "caught_up_ms", "now_ms", "leaves"),
    [
        (10, 0, 10_000, False),  # the follower is silent, but lacks no record (KAFKA-7152)
        (9, 0, 1_000, False),  # one ms before its time
        (9, 0, 1_001, True),
        (9, None, 0, True),
        (UNKNOWN_END, 500, 1_500, False),
        (UNKNOWN_END, 500, 1_501, True),
    ],
)
def test_member_leaves_only_when_behind_for_too_long(
    end: int, caught_up_ms: int | None, now_ms: int, *, leaves: bool
) -> None:
    followers = {BrokerId(1): progress(log_end_offset=end, last_caught_up_ms=caught_up_ms)}
    out = out_of_sync(ids(0, 1), followers, leader_end=10, now_ms=now_ms, lag_time_max_ms=1_000)
    assert out == (ids(1) if leaves else ids())


def test_follower_outside_the_isr_does_not_leave_it() -> None:
    followers = {BrokerId(1): progress(log_end_offset=0)}
    assert out_of_sync(ids(0), followers, leader_end=1, now_ms=9, lag_time_max_ms=1) == ids()


@pytest.mark.parametrize(
    ("be", "clean", "covered"),
    [(1, 1, False), (2, 1, True), (3, 1, True), (3, 2, True), (3, 3, False)],
)
def test_entry_is_covered_from_clean_since_to_present_epoch(
    be: int, clean: int, *, covered: bool
) -> None:
    follower = progress(be, clean)
    assert follower.covers(entry(1, 2)) is covered
    follower.record_fetch(fetch_offset=0, log_start_offset=0, leader_end=0, now_ms=0)
    expected = ids() if covered else ids(1)
    assert stale_incarnations((entry(0), entry(1, 2)), {BrokerId(1): follower}) == expected


def test_member_that_has_not_fetched_is_not_stale() -> None:
    assert stale_incarnations((entry(1, 2),), {BrokerId(1): FollowerProgress()}) == ids()


@pytest.mark.parametrize(("clean", "kept"), [(1, 77), (2, None)])
def test_only_a_clean_restart_keeps_the_caught_up_time(clean: int, kept: int | None) -> None:
    fresh = reset_progress(
        progress(log_end_offset=9, last_caught_up_ms=77),
        broker_epoch=BrokerEpoch(2),
        clean_since_epoch=BrokerEpoch(clean),
        entry=entry(1, 1),
    )
    assert (fresh.log_end_offset, fresh.last_caught_up_ms) == (UNKNOWN_END, kept)


def test_restart_outside_the_isr_begins_from_nothing() -> None:
    fresh = reset_progress(
        progress(last_caught_up_ms=77),
        broker_epoch=BrokerEpoch(2),
        clean_since_epoch=BrokerEpoch(1),
        entry=None,
    )
    assert fresh.last_caught_up_ms is None
