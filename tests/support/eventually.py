"""Wait for a condition with a bounded deadline, instead of sleeping for a guessed time.

`eventually` and `aeventually` call a condition until its result is truthy. The failure message
holds the last result or error, so that a test that ran out of time says what it saw.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

Result = TypeVar("Result")

POLL_INTERVAL_MS = 50
"""Pause between two tries: short compared with every deadline, long enough to spare the CPU.

After a try that took longer the pause is as long as that try, so that tries which start a program
leave the processor to what they wait for.
"""
PAUSE_MAX_MS = 1_000


class NotWithinDeadline(AssertionError):
    """A condition did not become true in time."""

    def __init__(self, what: str, within_ms: int, seen: object) -> None:
        super().__init__(f"{what}: not within {within_ms} ms; last seen: {seen!r}")


def eventually(
    condition: Callable[[], Result],
    within_ms: int,
    what: str,
    *,
    retry_on: tuple[type[Exception], ...] = (AssertionError,),
) -> Result:
    """Return the first truthy result of the condition.

    Errors of the kinds in `retry_on` count as "not yet"; any other ends the wait.

    Raises: NotWithinDeadline with the last result or error
    """
    deadline = time.monotonic() + within_ms / 1000
    while True:
        seen: object
        begun = time.monotonic()
        try:
            result = condition()
            if result:
                return result
            seen = result
        except retry_on as error:
            seen = error
        now = time.monotonic()
        if now >= deadline:
            raise NotWithinDeadline(what, within_ms, seen)
        time.sleep(min(max(POLL_INTERVAL_MS / 1000, now - begun), PAUSE_MAX_MS / 1000))


@overload
async def aeventually(
    condition: Callable[[], Awaitable[Result]],
    within_ms: int,
    what: str,
    *,
    retry_on: tuple[type[Exception], ...] = ...,
) -> Result: ...


@overload
async def aeventually(
    condition: Callable[[], Result],
    within_ms: int,
    what: str,
    *,
    retry_on: tuple[type[Exception], ...] = ...,
) -> Result: ...


async def aeventually(
    condition: Callable[[], Any],
    within_ms: int,
    what: str,
    *,
    retry_on: tuple[type[Exception], ...] = (AssertionError,),
) -> Any:
    """Return the first truthy result of the condition, which may be a coroutine function.

    The event loop runs on between two tries; a coroutine that does not return is cancelled at
    the deadline.

    Raises: NotWithinDeadline with the last result or error
    """
    deadline = time.monotonic() + within_ms / 1000
    seen: object = None
    while True:
        try:
            result = condition()
            if inspect.isawaitable(result):
                left = max(deadline - time.monotonic(), POLL_INTERVAL_MS / 1000)
                result = await asyncio.wait_for(result, left)
            if result:
                return result
            seen = result
        except retry_on as error:
            seen = error
        except TimeoutError as error:
            if time.monotonic() < deadline:
                raise
            raise NotWithinDeadline(what, within_ms, seen or error) from error
        if time.monotonic() >= deadline:
            raise NotWithinDeadline(what, within_ms, seen)
        await asyncio.sleep(POLL_INTERVAL_MS / 1000)
