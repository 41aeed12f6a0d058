"""Where the time of a run goes, step by step, from the start of its process on.

Called by `job`; needs no Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

TITLE: Final = "Where the time went"
IMPORTED: Final = "Python and its packages"
"""The first step: from the start of the process until its program is imported."""


class Stopwatch:
    """Seconds of each step; a step begins where the one before it ends."""

    def __init__(
        self,
        began_seconds: float | None = None,
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Begin with the step IMPORTED; tell hears of each step that has ended.

        Units:   seconds of the machine's clock since its start
        """
        self._tell = tell
        self._began = process_began_seconds() if began_seconds is None else began_seconds
        self._ends: list[tuple[str, float]] = []
        self.ended(IMPORTED)

    def ended(self, step: str, at_seconds: float | None = None) -> None:
        """Note that a step has ended now."""
        self._ends.append((step, _now_seconds() if at_seconds is None else at_seconds))
        self._tell(step)

    def text(self) -> str:
        """Return one line for each step, and the sum."""
        lines, before = [], self._began
        for step, at in self._ends:
            lines.append(f"  {at - before:7.2f} s  {step}")
            before = at
        total = f"  {before - self._began:7.2f} s  from the start of the process"
        return "\n".join([TITLE, *lines, total]) + "\n"


def process_began_seconds() -> float:
    """Return when this process began; now where no /proc tells it."""
    try:
        # The name in parentheses may hold anything, spaces too.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _now_seconds()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _now_seconds() -> float:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
