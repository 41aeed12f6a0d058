"""Tasks that one part of the broker began, and that end with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from strandline.log_fields import fields

_log = logging.getLogger(__name__)
CANCEL_AGAIN_SECONDS = 1.0
"""A cancellation that meets the end of another wait inside a library can be lost there."""
CANCELS_MAX = 5


class BegunTasks:
    """A set of running tasks; an unexpected error of one of them ends the process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Run it beside the others."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_raise_unexpected)

    async def all_done(self) -> None:
        """Wait until none is running, also of those that begin meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Ask all of them to end; one that was asked before is not interrupted again."""
        for task in self._tasks:
            if not task.cancelling():
                task.cancel()

    async def close(self) -> None:
        """Cancel all of them and wait until they ended."""
        await end_all(self._tasks)


async def end_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they ended; what they raise is dropped."""
    asked = list(tasks)
    left = set(asked)
    for _ in range(CANCELS_MAX):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_SECONDS)
    # Looked at here, so that the event loop does not report them as lost.
    await asyncio.gather(*(task for task in asked if task.done()), return_exceptions=True)
    for task in left:
        _log.error("task does not end", extra=fields(task=repr(task)))


def _raise_unexpected(task: asyncio.Task[None]) -> None:
    """Hand an error to the event loop, whose handler ends the process."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
