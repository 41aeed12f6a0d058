"""The only clock of a broker process; everything below `runtime` is handed the time."""

from __future__ import annotations

import time


class Clock:
    """Monotonic time for decisions, wall time for what people and other machines read."""

    def now_ms(self) -> int:
        """Return the monotonic time; it goes on while the wall clock is set."""
        return time.monotonic_ns() // 1_000_000

    def wall_time_us(self) -> int:
        """Return microseconds since the epoch; never compared with another machine's."""
        return time.time_ns() // 1_000
