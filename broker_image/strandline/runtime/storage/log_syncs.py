"""Brings logs to disk behind their appends, as `flush.messages` asks (ADR 0055).

Used by `LogFlusher` alone. A sync of a log is an fsync without summaries, on a thread of its own,
and covers what the log held when it began. At most one of a log runs; what is appended meanwhile is
for the next one. A cut voids the sync that it overtakes: the records that were synced below its end
may be others by now. Nothing is told of such a sync, and the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from strandline.errors import LogDirectoryFailed, StorageError
from strandline.log.log_flush import LogFlush, LogSync
from strandline.log.partition_log import PartitionLog
from strandline.model import TopicPartition
from strandline.runtime.event_loop.begun_tasks import BegunTasks

from .store_threads import StoreThreads

SYNCS_AT_ONCE_MAX = 8
"""Logs that are synced at the same time: a disk does not get faster with more."""


class LogSyncs:
    """The syncs of a store.

    threads are its own, which it closes. on_flush gets the seconds of each sync; on_log_flushed
    gets a log, and an offset below which all of it is on disk. It is called between two steps of
    the core, which may take the offset at once.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        threads: StoreThreads,
        *,
        on_flush: Callable[[float], None],
        on_log_flushed: Callable[[TopicPartition, int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._logs = logs
        self._threads = threads
        self._on_flush = on_flush
        self._on_log_flushed = on_log_flushed
        self._on_failure = on_failure
        self._syncing: set[TopicPartition] = set()
        self._tasks = BegunTasks()
        self._stopping = False

    def after_append(self, tp: TopicPartition) -> None:
        """Have a log synced if its topic wants that of what it holds now."""
        log = self._logs[tp]
        if log.flushes_every_append or log.is_sync_due:
            self._begin(tp)

    def after_settings(self, tp: TopicPartition) -> None:
        """Tell of what is on disk if that counts from now on, also if all of the log is."""
        if self._logs[tp].flushes_every_append:
            self._begin(tp)

    async def close(self) -> None:
        """Let the syncs that run end; no other one begins."""
        self._stopping = True
        await self._tasks.all_done()
        self._threads.close()

    def _begin(self, tp: TopicPartition) -> None:
        if tp not in self._syncing and not self._stopping:
            self._syncing.add(tp)
            self._tasks.begin(self._sync_until_done(tp))

    async def _sync_until_done(self, tp: TopicPartition) -> None:
        """Sync a log, or the one that took its place, until nothing is due any more."""
        try:
            while (log := self._logs.get(tp)) is not None and not self._stopping:
                if not await self._sync(tp, log):
                    return
        except LogDirectoryFailed as error:
            self._on_failure(error)
        finally:
            self._syncing.discard(tp)

    async def _sync(self, tp: TopicPartition, log: PartitionLog) -> bool:
        """Sync a log once; return whether another sync is due."""
        end_offset, is_valid = log.log_end_offset, True
        sync = log.begin_sync()
        if sync is not None:
            try:
                self._on_flush(await self._threads.run(fsync, sync))
            except LogDirectoryFailed as error:
                if self._logs.get(tp) is log:
                    raise log.fail(error) from error
                return True  # its folder went to the trash meanwhile
            is_valid = log.end_sync(sync)
        if self._logs.get(tp) is not log:
            return True
        if is_valid:
            self._on_log_flushed(tp, end_offset)
        if log.flushes_every_append:
            return not is_valid or end_offset < log.log_end_offset
        return log.is_sync_due


def fsync(work: LogFlush | LogSync) -> float:
    """Run a flush or sync; return how many seconds it took."""
    begun = time.perf_counter()
    work.run()
    return time.perf_counter() - begun
