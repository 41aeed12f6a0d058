"""Files of deleted segments: each stays for a while, so that a read in progress ends well.

Those of segments that a truncation took whole go at once; only their removal, which takes as long
as the disk needs to free them, leaves the event loop.
Used by `ReplicaStore` alone. What is left when the process ends, the next load of its log removes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from strandline.errors import StorageError
from strandline.log.files import disk_failed
from strandline.runtime.event_loop.begun_tasks import BegunTasks


class SetAsideFiles:
    """Renamed files that wait for their removal; on_failure gets the error of a removal.

    As many wait as segments were deleted within their topic's file.delete.delay.ms.
    """

    def __init__(self, on_failure: Callable[[StorageError], None]) -> None:
        self._on_failure = on_failure
        self._removals = BegunTasks()

    def add(self, files: Sequence[Path], *, delay_ms: int) -> None:
        """Remove files of one folder off the event loop once the delay is over."""
        if files:
            self._removals.begin(self._remove_later(files, delay_ms))

    async def close(self) -> None:
        """Remove nothing more."""
        await self._removals.close()

    async def _remove_later(self, files: Sequence[Path], delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        try:
            await asyncio.to_thread(_remove, files)
        except OSError as error:
            self._on_failure(disk_failed(files[0].parent, "remove deleted segments", error))


def _remove(files: Sequence[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
