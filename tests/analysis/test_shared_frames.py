"""What tables make of the same samples is made once."""

from __future__ import annotations

import gc
from typing import Any

import pytest

pytestmark = pytest.mark.processes


def test_a_frame_is_made_once_of_the_same_frame_and_arguments(spark: Any) -> None:
    from strandline_analysis import samples

    calls: list[tuple[Any, ...]] = []

    @samples.shared
    def scaled(frame: Any, factors: tuple[int, ...], *, more: int) -> Any:
        calls.append((factors, more))
        return samples.settled(frame.selectExpr(*(f"id * {each} + {more}" for each in factors)))

    one, other = spark.range(3), spark.range(3)
    assert scaled(one, (1, 2), more=5) is scaled(one, (1, 2), more=5)
    assert scaled(one, (1, 2), more=6) is not scaled(one, (1, 2), more=5)
    assert scaled(other, (1, 2), more=5) is not scaled(one, (1, 2), more=5)
    assert calls == [((1, 2), 5), ((1, 2), 6), ((1, 2), 5)]
    assert scaled(one, (2,), more=0).toArrow().to_pylist() == [
        {"((id * 2) + 0)": value} for value in (0, 2, 4)
    ]

    # Frames of other tests go now, not between the two counts.
    gc.collect()
    kept = len(samples._made)
    del one
    gc.collect()
    assert len(samples._made) == kept - 1
