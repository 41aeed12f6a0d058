"""The leader epoch cache: where an epoch ends, and which entries are dropped."""

from __future__ import annotations

import pytest

from strandline.core.epochs import EpochCache
from strandline.errors import InvariantViolation
from strandline.model import UNKNOWN_EPOCH_END, EpochEndOffset, LeaderEpoch

from .samples import end, starts


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, UNKNOWN_EPOCH_END),
        (0, end(0, 5)),  # an epoch older than every entry ends where the first entry begins
        (1, end(1, 10)),
        (2, end(1, 10)),
        (3, end(3, 12)),
        (4, end(4, 20)),
        (5, UNKNOWN_EPOCH_END),
    ],
)
def test_end_offset_is_that_of_the_greatest_epoch_not_above(
    requested: int, expected: EpochEndOffset
) -> None:
    cache = EpochCache(starts((1, 5), (3, 10), (4, 12)))
    assert cache.end_offset_for(LeaderEpoch(requested), 20) == expected


def test_empty_cache_knows_no_epoch() -> None:
    assert EpochCache().end_offset_for(LeaderEpoch(0), 0) == UNKNOWN_EPOCH_END


@pytest.mark.parametrize(
    ("assigned", "changed", "expected"),
    [
        ((3, 9), False, starts((1, 0), (3, 7))),  # the same epoch goes on
        ((4, 9), True, starts((1, 0), (3, 7), (4, 9))),
        ((4, 7), True, starts((1, 0), (4, 7))),  # an epoch without records is replaced
        ((3, 5), True, starts((1, 0), (3, 5))),
        ((2, 0), True, starts((2, 0))),
    ],
)
def test_assign_drops_contradicting_entries(
    assigned: tuple[int, int], *, changed: bool, expected: object
) -> None:
    cache = EpochCache(starts((1, 0), (3, 7)))
    assert cache.assign(LeaderEpoch(assigned[0]), assigned[1]) is changed
    assert cache.entries == expected


@pytest.mark.parametrize(
    ("offset", "changed", "left"), [(8, False, 2), (7, True, 1), (0, True, 0), (1, True, 1)]
)
def test_truncation_drops_epochs_that_begin_beyond(
    offset: int, *, changed: bool, left: int
) -> None:
    cache = EpochCache(starts((1, 0), (3, 7)))
    assert cache.truncate_from_end(offset) is changed
    assert len(cache.entries) == left


@pytest.mark.parametrize("pairs", [((1, 0), (1, 5)), ((1, 5), (2, 5)), ((2, 0), (1, 5))])
def test_epochs_that_do_not_ascend_stop_the_broker(pairs: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InvariantViolation):
        EpochCache(starts(*pairs))
