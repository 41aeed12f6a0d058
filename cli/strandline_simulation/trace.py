"""The last events of a schedule for its reader, and a digest of all of them."""

from __future__ import annotations

import zlib
from collections import deque

from strandline.model import BrokerId, PartitionState, StoredPartition

from .virtual_time import VirtualTime

EVENTS_KEPT = 50
LINE_MAX = 700


class Trace:
    """Changed by its own methods alone; equal digests mean the same events in the same order."""

    __slots__ = ("_last", "_virtual_time", "digest")

    def __init__(self, virtual_time: VirtualTime) -> None:
        self._virtual_time = virtual_time
        self._last: deque[tuple[int, object, object]] = deque(maxlen=EVENTS_KEPT)
        self.digest = 0

    def record(self, who: object, what: object) -> None:
        """Remember an event, and mix its place and kind into the digest."""
        now_ms = self._virtual_time.now_ms
        self._last.append((now_ms, who, what))
        self.digest = zlib.crc32(f"{now_ms} {who} {type(what).__name__}".encode(), self.digest)

    def on_status_written(
        self, _writer: BrokerId, before: StoredPartition, state: PartitionState
    ) -> None:
        """Remember what was committed."""
        self.record(before.name, state)

    def lines(self) -> tuple[str, ...]:
        """Return the last events as text."""
        return tuple(f"{ms:>6} {who}: {what}"[:LINE_MAX] for ms, who, what in self._last)
