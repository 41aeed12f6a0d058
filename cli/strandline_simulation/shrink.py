"""Makes a failing plan small: fewer faults, fewer requests, a better network.

Delta debugging over the parts of a plan; a smaller plan counts if it breaks the same
invariant. What remains usually reads like a story.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from .plan import Conditions, Plan, Timing
from .run import run

RUNS_MAX = 400

Part = TypeVar("Part")


class Shrinker:
    """Shrinks one plan within a bounded number of runs."""

    def __init__(self, plan: Plan, invariant: str, *, runs_max: int = RUNS_MAX) -> None:
        self._plan = plan
        self._invariant = invariant
        self._runs_left = runs_max

    def shrink(self) -> Plan:
        """Return the smallest plan found that breaks the same invariant."""
        size = None
        while size != (size := self._size()) and self._runs_left > 0:
            self._fewer(self._plan.faults, lambda plan, kept: replace(plan, faults=kept))
            self._fewer(self._plan.moves, lambda plan, kept: replace(plan, moves=kept))
            self._fewer(self._plan.consumes, lambda plan, kept: replace(plan, consumes=kept))
            self._fewer(self._plan.produces, lambda plan, kept: replace(plan, produces=kept))
            self._try(replace(self._plan, conditions=Conditions()))
            self._try(replace(self._plan, timing=Timing()))
        return self._plan

    def _size(self) -> tuple[int, ...]:
        plan = self._plan
        return len(plan.faults), len(plan.moves), len(plan.produces), len(plan.consumes)

    def _try(self, candidate: Plan) -> bool:
        if self._runs_left <= 0 or candidate == self._plan:
            return False
        self._runs_left -= 1
        if run(candidate).broken_invariant != self._invariant:
            return False
        self._plan = candidate
        return True

    def _fewer(
        self, parts: Sequence[Part], rebuilt: Callable[[Plan, tuple[Part, ...]], Plan]
    ) -> None:
        """Leave out runs of parts, the long ones first."""
        kept = tuple(parts)
        length = len(kept)
        while length:
            start = 0
            while start < len(kept):
                fewer = kept[:start] + kept[start + length :]
                if self._try(rebuilt(self._plan, fewer)):
                    kept = fewer
                else:
                    start += length
            length //= 2
