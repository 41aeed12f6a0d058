"""What tables make of the same samples is made once."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

pytestmark = pytest.mark.processes

LIMIT_SECONDS = 60


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


def test_a_thread_waits_for_what_another_one_makes(spark: Any) -> None:
    from strandline_analysis import samples

    begun, may_end = Event(), Event()
    calls = []

    @samples.shared
    def slow(frame: Any) -> Any:
        calls.append(frame)
        begun.set()
        assert may_end.wait(LIMIT_SECONDS)
        return frame.limit(1)

    one = spark.range(3)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(slow, one)
        assert begun.wait(LIMIT_SECONDS)
        second = threads.submit(slow, one)
        may_end.set()
        assert first.result(LIMIT_SECONDS) is second.result(LIMIT_SECONDS)
    assert calls == [one]


def test_what_could_not_be_made_is_tried_again(spark: Any) -> None:
    from strandline_analysis import samples

    calls = []

    @samples.shared
    def made_at_last(frame: Any) -> Any:
        calls.append(frame)
        if len(calls) == 1:
            raise ValueError("once")
        return frame

    one = spark.range(3)
    with pytest.raises(ValueError, match="once"):
        made_at_last(one)
    assert made_at_last(one) is one
    assert made_at_last(one) is one
    assert len(calls) == 2
