"""When a volume will be full at the rate at which it filled up lately.

A pure class; `disk_space` gives it the figures of the volume. Retention deletes whole segments, so
the volume fills in steps up and down: the rate is that of the whole window. A forecast needs growth
and a while to see it; there is none otherwise.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

FORECAST_WINDOW_MS: Final = 600_000
"""How far back the rate looks."""
FORECAST_LEAST_MS: Final = 60_000
"""How long the figures must have been watched before they say anything."""
FORECAST_STEP_MS: Final = 10_000
"""Figures closer to each other than this are not kept."""


class _Figure(NamedTuple):
    now_ms: int
    used_bytes: int


class FillForecast:
    """The figures of one volume over the window, at most one a step."""

    def __init__(self) -> None:
        self._figures: deque[_Figure] = deque(maxlen=FORECAST_WINDOW_MS // FORECAST_STEP_MS + 1)

    def note(self, now_ms: int, used_bytes: int) -> None:
        """Take the present figure; times never fall."""
        if not self._figures or now_ms - self._figures[-1].now_ms >= FORECAST_STEP_MS:
            self._figures.append(_Figure(now_ms, used_bytes))
        while now_ms - self._figures[0].now_ms > FORECAST_WINDOW_MS:
            self._figures.popleft()

    def seconds_until(self, bound_bytes: float) -> float:
        """Return when the volume reaches a bound, 0 if it has, inf if nothing says that it will.

        Units:   seconds from the last figure; bound_bytes counts used bytes
        """
        if not self._figures:
            return math.inf
        first, last = self._figures[0], self._figures[-1]
        if last.used_bytes >= bound_bytes:
            return 0.0
        elapsed_ms, grown_bytes = last.now_ms - first.now_ms, last.used_bytes - first.used_bytes
        if elapsed_ms < FORECAST_LEAST_MS or grown_bytes <= 0:
            return math.inf
        return (bound_bytes - last.used_bytes) * elapsed_ms / grown_bytes / 1000
