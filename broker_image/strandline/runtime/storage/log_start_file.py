"""The log start checkpoint of a data directory: it holds a start before records are deleted.

Used by `StoreCheckpoints` alone, which makes one write at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from strandline.log.checkpoint import FIRST_START, LogStartCheckpoint
from strandline.model import EpochStart, TopicPartition

Starts = Mapping[TopicPartition, EpochStart]
InThread = Callable[[Callable[[Starts], None], Starts], Awaitable[None]]


class LogStartFile:
    """What the checkpoint holds; on_persisted gets each log start that it was asked to hold."""

    def __init__(
        self,
        root: Path,
        found: Starts,
        *,
        on_persisted: Callable[[TopicPartition, int], None],
    ) -> None:
        self._file = LogStartCheckpoint(root)
        self._on_persisted = on_persisted
        self._starts = dict(found)
        self._due: dict[TopicPartition, int] = {}

    @property
    def is_due(self) -> bool:
        """Whether a later log start waits for the checkpoint."""
        return bool(self._due)

    def on_disk(self, tp: TopicPartition) -> int:
        """Return the start that the checkpoint holds."""
        return self._starts.get(tp, FIRST_START).start_offset

    def begin(self, tp: TopicPartition, offset: int) -> None:
        """Let a log begin later; `write` brings that to disk."""
        self._due[tp] = offset

    def forget(self, tp: TopicPartition) -> None:
        """Tell of no start of a log that began anew or was deleted."""
        self._due.pop(tp, None)

    async def write(self, starts: Starts, in_thread: InThread) -> None:
        """Write the present starts of all logs if they changed, then tell of those that were due.

        If that fails, they are due still.
        """
        due, begun = dict(self._due), {tp: at for tp, at in starts.items() if at.start_offset > 0}
        if begun != self._starts:
            await in_thread(self._file.write, begun)
            self._starts = begun
        for tp, offset in due.items():
            # A log that began anew meanwhile, or was deleted, is due no longer, or with another.
            if self._due.get(tp, -1) >= offset:
                if self._due[tp] == offset:
                    del self._due[tp]
                self._on_persisted(tp, offset)
