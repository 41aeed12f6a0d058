"""Which replicas hold the high watermark back, and how far it moves."""

from __future__ import annotations

import pytest

from strandline.core.high_watermark import counted_end_offsets, next_high_watermark
from strandline.core.progress import UNKNOWN_END, FollowerProgress
from strandline.model import BrokerEpoch, BrokerId

from .samples import entries, entry


@pytest.mark.parametrize(
    ("ends", "in_sync", "expected"),
    [
        ([7, 8], 3, 7),
        ([], 1, 10),  # the leader alone
        ([], 0, 4),  # frozen under min ISR
        ([3], 2, 4),  # never falls
        ([UNKNOWN_END, 9], 3, 4),
    ],
)
def test_high_watermark_is_the_least_end_and_never_falls(
    ends: list[int], in_sync: int, expected: int
) -> None:
    got = next_high_watermark(
        ends, high_watermark=4, leader_end=10, in_sync_count=lambda: in_sync, min_insync_replicas=1
    )
    assert got == expected


@pytest.mark.parametrize(
    ("in_isr", "live", "caught_up", "holds"),
    [
        (True, False, False, True),  # a member always holds it back
        (False, True, True, True),
        (False, True, False, False),
        (False, False, True, False),  # fenced, however recently caught up (KAFKA-15021)
    ],
)
def test_which_followers_hold_the_high_watermark_back(
    *, in_isr: bool, live: bool, caught_up: bool, holds: bool
) -> None:
    follower = FollowerProgress(
        broker_epoch=BrokerEpoch(1),
        clean_since_epoch=BrokerEpoch(1),
        log_end_offset=5,
        last_caught_up_ms=0 if caught_up else None,
    )
    ends = counted_end_offsets(
        entries(0, 1) if in_isr else entries(0),
        {BrokerId(1): follower},
        is_eligible=lambda _broker, _epoch: live,
        leader_end=9,
        now_ms=100,
        lag_time_max_ms=1_000,
    )
    assert ends == ([5] if holds else [])


def test_member_that_lost_what_its_entry_stands_for_holds_the_high_watermark() -> None:
    follower = FollowerProgress(
        broker_epoch=BrokerEpoch(2), clean_since_epoch=BrokerEpoch(2), log_end_offset=9
    )
    ends = counted_end_offsets(
        [entry(1, 1)],
        {BrokerId(1): follower},
        is_eligible=lambda _broker, _epoch: True,
        leader_end=9,
        now_ms=0,
        lag_time_max_ms=1,
    )
    assert ends == [UNKNOWN_END]
