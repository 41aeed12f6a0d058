"""The only clock of a broker process; everything below `runtime` gets the time as an argument."""

from __future__ import annotations

import time


class Clock:
    """Monotonic time for decisions, wall time for people and other machines to read."""

    def now_ms(self) -> int:
        """Return the monotonic time; setting the wall clock does not change it."""
        return time.monotonic_ns() // 1_000_000

    def wall_time_us(self) -> int:
        """Return microseconds since 1970; never compare them with another machine's."""
        return time.time_ns() // 1_000
