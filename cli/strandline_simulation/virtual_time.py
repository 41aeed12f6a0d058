"""Virtual time: what happens next, in order of (ms, order of scheduling)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Callback = Callable[..., object]


class VirtualTime:
    """A heap of callbacks; now_ms is the time of the last one that was run."""

    __slots__ = ("_heap", "_sequence", "count", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.count = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, Callback, tuple[Any, ...]]] = []

    def at(self, ms: int, callback: Callback, *arguments: object) -> None:
        """Run a callback at a time, not before now."""
        self._sequence += 1
        due_ms = max(self.now_ms, ms)
        heapq.heappush(self._heap, (due_ms, self._sequence, callback, arguments))

    def after(self, delay_ms: int, callback: Callback, *arguments: object) -> None:
        """Run a callback after a delay."""
        self.at(self.now_ms + delay_ms, callback, *arguments)

    def run_next(self) -> bool:
        """Run the next callback; return false if there is none."""
        if not self._heap:
            return False
        self.now_ms, _, callback, arguments = heapq.heappop(self._heap)
        self.count += 1
        callback(*arguments)
        return True
