"""Tasks that one part of the broker began, and that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


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
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _raise_unexpected(task: asyncio.Task[None]) -> None:
    """Hand an error to the event loop, whose handler ends the process."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
