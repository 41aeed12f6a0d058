"""The trash of a data directory: deleted logs go there, and in time from there.

Run by `ReplicaStore` as one of its tasks (ADR 0024).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from strandline.config.storage import StorageConfig
from strandline.core.effects import PersistedPartition
from strandline.log.partition_folder import (
    UNREADABLE_SUFFIX,
    folder_of,
    leave_accepted,
)
from strandline.log.trash import Trash, TrashLimits, trashed_replicas
from strandline.log_fields import fields
from strandline.model import TopicPartition, TrashedReplica

from .store_threads import StoreThreads

_log = logging.getLogger(__name__)


class TrashKeeper:
    """Moves folders into the trash and back, and removes what lay there for too long."""

    def __init__(
        self,
        root: Path,
        config: StorageConfig,
        threads: StoreThreads,
        wall_time_us: Callable[[], int],
        *,
        trashed: tuple[TrashedReplica, ...],
        on_change: Callable[[tuple[TrashedReplica, ...]], None],
    ) -> None:
        """Trashed is what a start found; on_change gets what the trash holds after each change."""
        self._root = root
        self._threads = threads
        self._wall_time_us = wall_time_us
        self._on_change = on_change
        self._trashed = {each.tp: each for each in trashed}
        self._moving: dict[TopicPartition, TrashedReplica] = {}
        """Logs on their way into the trash or back: what is told never lacks them."""
        self._accepted: dict[TopicPartition, PersistedPartition] = {}
        """The states of logs on their way into the trash."""
        self._interval_seconds = config.trash_check_interval_ms / 1000
        self._trash = Trash(root, _limits(config))
        self._will_tell = False
        self._lock = asyncio.Lock()
        self._looking = asyncio.Lock()
        self._wake = asyncio.Event()
        self._stopping = False

    @property
    def size_bytes(self) -> int:
        """Bytes of deleted logs, as of the last look at the trash."""
        return self._trash.size_bytes

    def change_limits(self, config: StorageConfig) -> None:
        """Keep for another time or size, and look soon."""
        self._trash.change_limits(_limits(config))
        self._wake.set()

    def stop(self) -> None:
        """Let `run` end soon."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Remove what is too old or too much, now and then."""
        while not self._stopping:
            async with self._lock:
                removed = await self._threads.run(
                    self._trash.clean,
                    now_ms=self._wall_time_us() // 1000,
                    stopping=lambda: self._stopping,
                )
            if removed:
                await self.settle()
            for log in removed:
                _log.info(
                    "deleted log removed from the trash",
                    extra=fields(partition=str(log.tp), deleted_at_ms=log.deleted_at_ms),
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds):
                    await self._wake.wait()
            self._wake.clear()

    def announce(self, tp: TopicPartition, accepted: PersistedPartition | None) -> None:
        """Tell of a log that will come into the trash; one message tells of many.

        accepted is the newest state of its partition, None if there was none.
        """
        now_ms = self._wall_time_us() // 1000
        if not self._will_tell:
            self._will_tell = True
            asyncio.get_running_loop().call_soon(self._tell)
        topic_name = "" if accepted is None else accepted.topic_name
        self._moving[tp] = TrashedReplica(tp=tp, topic_name=topic_name, deleted_at_ms=now_ms)
        if accepted is not None:
            self._accepted[tp] = accepted

    async def put(self, deleted: Sequence[TopicPartition]) -> None:
        """Move the folders of deleted replicas to the trash."""
        accepted = {tp: self._accepted.pop(tp, None) for tp in deleted}
        await self._threads.run(self._move_to_trash, accepted)
        await self.settle(deleted)
        self._wake.set()

    async def settle(self, moved: Sequence[TopicPartition] = ()) -> None:
        """Look what the trash holds, and tell it: these logs have come where they were to go."""
        async with self._looking:
            found = await self._threads.run(trashed_replicas, self._root)
            self._trashed = {each.tp: each for each in found}
        for tp in moved:
            self._moving.pop(tp, None)
        self._tell()

    def _tell(self) -> None:
        self._will_tell = False
        told = {**self._trashed, **self._moving}
        self._on_change(tuple(told[tp] for tp in sorted(told)))

    def _move_to_trash(self, deleted: Mapping[TopicPartition, PersistedPartition | None]) -> None:
        """Move folders to the trash, also those that a start could not open and kept aside."""
        now_ms = self._wall_time_us() // 1000
        for tp, accepted in deleted.items():
            folder = folder_of(self._root, tp)
            if accepted is not None:
                with suppress(OSError):
                    leave_accepted(folder, accepted)
            self._trash.put([folder], now_ms=now_ms)
            for kept in sorted(self._root.glob(f"{folder.name}{UNREADABLE_SUFFIX}.*")):
                kept.rename(folder)
                self._trash.put([folder], now_ms=now_ms)

    async def restore(self, tp: TopicPartition) -> Path:
        """Move the newest deleted log of a partition back, and return its folder.

        It counts as moving until `settle` is called, so that what is told does not lack it.

        Raises:  ProtocolError UNKNOWN_TOPIC_OR_PARTITION if the trash has none
        """
        if tp in self._trashed:
            self._moving[tp] = self._trashed[tp]
        async with self._lock:
            return await self._threads.run(self._trash.restore, tp)


def _limits(config: StorageConfig) -> TrashLimits:
    return TrashLimits(
        retention_ms=config.trash_retention_ms, retention_bytes=config.trash_retention_bytes
    )
