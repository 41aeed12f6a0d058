"""The threads on which a `ReplicaStore` makes its blocking disk calls.

One for each background task, so that no task waits for another one's disk call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from strandline.log.files import disk_failed

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
BACKGROUND_TASKS = 6


class StoreThreads:
    """Runs blocking calls of one data directory."""

    def __init__(self, root: Path, *, count: int = BACKGROUND_TASKS) -> None:
        self._root = root
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="replica-store")

    def beside(self, count: int) -> StoreThreads:
        """Return as many threads for a part whose calls would fill these."""
        return StoreThreads(self._root, count=count)

    async def run(
        self,
        call: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Run a blocking call on a thread; LogDirectoryFailed for an OSError."""

        def blocking() -> Result:
            try:
                return call(*args, **kwargs)
            except OSError as error:
                operation = call.__name__.strip("_").replace("_", " ")
                raise disk_failed(self._root, operation, error) from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, blocking)

    def close(self) -> None:
        """End the threads, which are idle."""
        self._threads.shutdown()
