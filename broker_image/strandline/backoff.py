"""How long to pause after failures in a row: one shape for every back-off.

Used by core, controller and the shells. Pure: it returns pauses, and does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLINGS_MAX = 32
"""More doublings would only raise numbers that max_ms bounds anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from the first one up to a bound."""

    first_ms: int
    max_ms: int

    def after_ms(self, failures: int) -> int:
        """Return the pause after the nth failure in a row (n >= 1)."""
        return min(self.first_ms << min(failures - 1, _DOUBLINGS_MAX), self.max_ms)
