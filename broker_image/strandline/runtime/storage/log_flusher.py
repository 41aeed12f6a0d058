"""Brings logs to disk off the event loop, and makes the producer states of cut logs anew.

Run by `ReplicaStore` as two of its tasks. A log is flushed soon after each roll, and every
`log.flush.offset.checkpoint.interval.ms` if it was written (ADR 0025). What `flush.messages` asks
for is done by `LogSyncs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from strandline.errors import CorruptBatch, LogDirectoryFailed, StorageError
from strandline.log.partition_log import PartitionLog
from strandline.model import TopicPartition

from .log_syncs import SYNCS_AT_ONCE_MAX, LogSyncs, fsync
from .store_threads import StoreThreads


class LogFlusher:
    """Flushes the logs of a store.

    on_flush gets the seconds of each flush and sync; on_flushed follows a round that moved recovery
    points. For on_log_flushed see `LogSyncs`.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        threads: StoreThreads,
        *,
        interval_ms: int,
        on_flush: Callable[[float], None],
        on_flushed: Callable[[], None],
        on_log_flushed: Callable[[TopicPartition, int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._logs = logs
        self._threads = threads
        self._interval_seconds = interval_ms / 1000
        self._on_flush = on_flush
        self._on_flushed = on_flushed
        self._flush_due: set[TopicPartition] = set()
        self._rebuild_due: set[TopicPartition] = set()
        self._flush_wake = asyncio.Event()
        self._rebuild_wake = asyncio.Event()
        self._stopping = False
        self._syncs = LogSyncs(
            logs,
            threads.beside(SYNCS_AT_ONCE_MAX),
            on_flush=on_flush,
            on_log_flushed=on_log_flushed,
            on_failure=on_failure,
        )

    def after_settings(self, tp: TopicPartition) -> None:
        """Have a log synced if its topic now wants each append on disk."""
        self._syncs.after_settings(tp)

    def after_append(self, tp: TopicPartition) -> None:
        """Have a log synced if its topic wants that, and flushed if it has rolled."""
        self._syncs.after_append(tp)
        self.after_roll(tp)

    def after_roll(self, tp: TopicPartition) -> None:
        """Have a log flushed if it has rolled."""
        if self._logs[tp].sealed_waiting:
            self._flush_due.add(tp)
            self._flush_wake.set()

    def after_cut(self, tp: TopicPartition) -> None:
        """Have the producer state of a log made anew if the cut calls for it."""
        if self._logs[tp].rebuild is not None:
            self._rebuild_due.add(tp)
            self._rebuild_wake.set()

    def stop(self) -> None:
        """Let both tasks end by themselves."""
        self._stopping = True
        self._flush_wake.set()
        self._rebuild_wake.set()

    async def close(self) -> None:
        """Let the syncs that run end."""
        await self._syncs.close()

    async def flush_from_time_to_time(self) -> None:
        """Flush the logs that rolled, and at each interval those that were written."""
        clock = asyncio.get_running_loop()
        next_round = clock.time() + self._interval_seconds
        while not self._stopping:
            # asyncio.wait_for of Python 3.11 drops a cancellation that comes with the wake.
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_round):
                    await self._flush_wake.wait()
            self._flush_wake.clear()
            due, self._flush_due = self._flush_due, set()
            if clock.time() >= next_round:
                next_round = clock.time() + self._interval_seconds
                due.update(self._logs)
            await self.flush(sorted(due))

    async def flush(self, due: Sequence[TopicPartition]) -> None:
        """Bring logs to disk one after another; LogDirectoryFailed."""
        moved = [await self._flush_log(tp) for tp in due]
        if any(moved):
            self._on_flushed()

    async def _flush_log(self, tp: TopicPartition) -> bool:
        log = self._logs.get(tp)
        flush = log.begin_flush() if log is not None else None
        if log is None or flush is None:
            return False
        try:
            self._on_flush(await self._threads.run(fsync, flush))
        except LogDirectoryFailed as error:
            if self._logs.get(tp) is log:
                raise log.fail(error) from error
            return False  # its folder went to the trash meanwhile
        log.end_flush(flush)
        return True

    async def rebuild_producers(self) -> None:
        """Make producer states anew, one after another."""
        while not self._stopping:
            await self._rebuild_wake.wait()
            self._rebuild_wake.clear()
            while self._rebuild_due:
                await self._rebuild(self._rebuild_due.pop())

    async def _rebuild(self, tp: TopicPartition) -> None:
        log = self._logs.get(tp)
        rebuild = log.rebuild if log is not None else None
        if log is None or rebuild is None:
            return
        try:
            producers = await self._threads.run(rebuild.run)
        except (LogDirectoryFailed, CorruptBatch) as error:
            if self._logs.get(tp) is log and log.rebuild is rebuild:
                raise log.fail(error) from error
            return  # another cut, or the trash, overtook it
        log.end_rebuild(rebuild, producers)
