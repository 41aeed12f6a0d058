"""Virtual time: what happens next, in order of (ms, order of scheduling)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[..., object]


class Timeline:
    """A heap of actions; now_ms is the time of the last one that was run."""

    __slots__ = ("_heap", "_sequence", "count", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.count = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []

    def at(self, ms: int, action: Action, *arguments: object) -> None:
        """Run an action at a time, not before now."""
        self._sequence += 1
        due_ms = max(self.now_ms, ms)
        heapq.heappush(self._heap, (due_ms, self._sequence, action, arguments))

    def after(self, delay_ms: int, action: Action, *arguments: object) -> None:
        """Run an action after a delay."""
        self.at(self.now_ms + delay_ms, action, *arguments)

    def run_next(self) -> bool:
        """Run the next action; return false if there is none."""
        if not self._heap:
            return False
        self.now_ms, _, action, arguments = heapq.heappop(self._heap)
        self.count += 1
        action(*arguments)
        return True
