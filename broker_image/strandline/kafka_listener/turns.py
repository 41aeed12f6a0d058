"""Requests are handled in turns: between two turns of one request other clients are served.

Used by `connection` and `server`. The work for a request is a generator that yields once for each
element it has handled: each array element that it decoded, appended, looked up or encoded. A turn
ends when TURN_ELEMENTS were handled. One step of the event loop has one turn of those requests that
need more than their first, however many there are, so a step is as short beside a thousand large
requests as beside one (ADR 0043).

Invariant: whoever begins work and closes it is on the event loop; work that was closed ends at its
next turn, and nothing comes after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Turns: TypeAlias = Generator[None, None, Result]
"""Work that yields once for each element, and returns its result."""

TURN_ELEMENTS = 250
"""Elements of a turn: the dearest, a partition that is appended to, takes about 0.1 ms."""


def spend(count: int) -> Turns[None]:
    """Count elements that were handled at one go."""
    for _ in range(count):
        yield


def at_once(work: Turns[Result]) -> Result:
    """Do all the work now and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result


def take_turn(work: Turns[None]) -> int:
    """Do a turn; return its elements: fewer than TURN_ELEMENTS if the work is over."""
    count = 0
    for _ in work:
        count += 1
        if count == TURN_ELEMENTS:
            break
    return count


class TurnQueue:
    """The work that was not over after its first turn, with what follows it; all have turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Turns[None], Callable[[], None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, work: Turns[None], then: Callable[[], None]) -> int:
        """Do the first turn now and return its elements; `then` follows a later last turn only."""
        count = take_turn(work)
        if count == TURN_ELEMENTS:
            self._put(work, then)
        return count

    def _put(self, work: Turns[None], then: Callable[[], None]) -> None:
        self._waiting.append((work, then))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Do one turn; what comes after it is for a later step of the loop."""
        work, then = self._waiting.popleft()
        if self._waiting:
            self._loop.call_soon(self._next)
        if take_turn(work) == TURN_ELEMENTS:
            self._put(work, then)
        else:
            then()
