"""When a volume will be full: only what was watched for a while, and grew, says so."""

from __future__ import annotations

import math

import pytest

from strandline.runtime.storage.fill_forecast import (
    FORECAST_LEAST_MS,
    FORECAST_STEP_MS,
    FORECAST_WINDOW_MS,
    FillForecast,
)


def watched(figures: list[tuple[int, int]]) -> FillForecast:
    forecast = FillForecast()
    for now_ms, used_bytes in figures:
        forecast.note(now_ms, used_bytes)
    return forecast


@pytest.mark.parametrize(
    ("figures", "seconds"),
    [
        ([], math.inf),
        ([(0, 100)], math.inf),
        ([(0, 100), (FORECAST_LEAST_MS - 1, 500)], math.inf),
        ([(0, 100), (FORECAST_LEAST_MS, 100)], math.inf),
        ([(0, 500), (FORECAST_LEAST_MS, 100)], math.inf),
        ([(0, 100), (60_000, 200)], 480.0),
        ([(0, 100), (30_000, 900), (60_000, 200)], 480.0),
        ([(0, 1_000)], 0.0),
        ([(0, 1_200), (60_000, 1_100)], 0.0),
    ],
    ids=[
        "never looked",
        "one look",
        "too short",
        "no growth",
        "shrinking",
        "growing",
        "up and down",
        "reached",
        "above, and shrinking",
    ],
)
def test_the_bound_is_reached_at_the_rate_of_the_window(
    figures: list[tuple[int, int]], seconds: float
) -> None:
    assert watched(figures).seconds_until(1_000) == seconds


def test_what_is_older_than_the_window_says_nothing() -> None:
    steps = range(FORECAST_STEP_MS, FORECAST_WINDOW_MS + 1, FORECAST_STEP_MS)
    steady = [(now_ms, 500) for now_ms in steps]
    grown = watched([(0, 100), *steady])
    assert grown.seconds_until(1_000) < math.inf
    grown.note(FORECAST_WINDOW_MS + FORECAST_STEP_MS, 500)
    assert grown.seconds_until(1_000) == math.inf


def test_figures_close_to_each_other_take_no_room() -> None:
    forecast = watched([(at, at) for at in range(0, FORECAST_LEAST_MS + 1, 500)])
    assert forecast.seconds_until(2 * FORECAST_LEAST_MS) == 60.0
