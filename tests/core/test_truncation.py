"""Where two histories diverge, and what a follower keeps."""

from __future__ import annotations

import pytest

from strandline.core.epochs import EpochCache
from strandline.core.truncation import choose_truncation, diverging_epoch
from strandline.model import UNKNOWN_EPOCH_END, EpochEndOffset, LeaderEpoch

from .samples import end, starts


@pytest.mark.parametrize(
    ("offset", "last", "expected"),
    [
        (10, 3, None),
        (7, 3, None),
        (11, 3, end(3, 10)),
        (5, 1, None),
        (6, 1, end(1, 5)),  # longer than the leader's epoch 1
        (5, 2, end(1, 5)),  # an epoch the leader never had
        (0, 4, UNKNOWN_EPOCH_END),
    ],
)
def test_leader_returns_where_histories_part(
    offset: int, last: int, expected: EpochEndOffset | None
) -> None:
    cache = EpochCache(starts((1, 0), (3, 5)))
    got = diverging_epoch(
        cache, log_end_offset=10, fetch_offset=offset, last_fetched_epoch=LeaderEpoch(last)
    )
    assert got == expected


@pytest.mark.parametrize(
    ("diverging", "mine", "log_end", "expected"),
    [
        (end(0, 6), ((0, 0),), 10, 6),  # the same epoch, the leader's is shorter
        (end(0, 12), ((0, 0), (2, 8)), 10, 8),  # the follower's is shorter
        (end(1, 2), ((0, 0), (2, 1)), 2, 1),  # KIP-279: step back to epoch 0
        (end(3, 4), ((0, 0),), 10, 4),  # above all epochs of the follower
        (end(3, 40), (), 10, 10),
    ],
)
def test_follower_keeps_what_may_be_common(
    diverging: EpochEndOffset, mine: tuple[tuple[int, int], ...], log_end: int, expected: int
) -> None:
    cache = EpochCache(starts(*mine))
    assert choose_truncation(diverging, cache, log_end_offset=log_end) == expected
