"""The log start checkpoint of a data directory: written before records are deleted.

Used by `ReplicaStore` alone. One writer at a time: the checkpoint task writes later starts off the
event loop; a log that begins anew at an earlier offset waits for its own write.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from strandline.log.checkpoint import LogStartCheckpoint
from strandline.model import TopicPartition


class LogStartFile:
    """What the checkpoint holds; on_persisted gets each log start that is on disk."""

    def __init__(
        self,
        root: Path,
        found: Mapping[TopicPartition, int],
        *,
        on_persisted: Callable[[TopicPartition, int], None],
    ) -> None:
        self._file = LogStartCheckpoint(root)
        self._on_persisted = on_persisted
        self._starts = dict(found)
        self._due: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()

    @property
    def is_due(self) -> bool:
        """Whether a later log start waits for the checkpoint."""
        return bool(self._due)

    def on_disk(self, tp: TopicPartition) -> int:
        """Return the start that the checkpoint holds, or that is being written to it."""
        return self._starts.get(tp, 0)

    def begin(self, tp: TopicPartition, offset: int) -> None:
        """Let a log begin later; `write` brings that to disk."""
        self._due[tp] = offset

    def lower(self, tp: TopicPartition, offset: int) -> None:
        """Write the checkpoint before a log begins below the start that the checkpoint holds.

        Otherwise a restart would take the log for one that lost its end.
        """
        self._due.pop(tp, None)
        if self._starts.get(tp, 0) > offset:
            self._starts[tp] = offset
            self._write()

    async def write(
        self,
        starts: Mapping[TopicPartition, int],
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        """Write the present starts of all logs, then tell of those that were due."""
        due, self._due = self._due, {}
        self._starts = {tp: start for tp, start in starts.items() if start > 0}
        await in_thread(self._write)
        for tp, offset in due.items():
            # A log that began anew below it meanwhile took its start out of the checkpoint.
            if self._starts.get(tp, 0) >= offset:
                self._on_persisted(tp, offset)

    def _write(self) -> None:
        """Write the newest starts; without the lock, the older of two writes could come last."""
        with self._lock:
            self._file.write(dict(self._starts))
