"""How bad network, API server and disks are now: the plan's conditions until the healing."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Conditions


@dataclass(slots=True)
class PresentConditions:
    """Read by network, API server and shells; changed by its own methods alone."""

    now: Conditions

    def end_faults(self) -> None:
        """From now on nothing is lost, repeated or slow."""
        self.now = Conditions(delay_max_ms=2)
