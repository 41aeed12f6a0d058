"""Makes the indexes of sealed segments that are missing, off the event loop.

An index lacks its file when the volume was full as the segment was sealed, or when somebody took
the file away. To make it anew is a walk of the whole segment: the reader that met it gets nothing
this time, and asks again; and so does a follower that was told to cut its log there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from strandline.core.epochs import EpochCache
from strandline.core.truncation import choose_truncation
from strandline.errors import ProtocolError, StorageError
from strandline.log.partition_log import PartitionLog
from strandline.log.segment_part import LogPart
from strandline.model import EpochEndOffset, TopicPartition
from strandline.runtime.event_loop.begun_tasks import BegunTasks

from .store_threads import StoreThreads


class MissingIndexes:
    """The indexes that are being made, one after another."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        threads: StoreThreads,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._logs = logs
        self._threads = threads
        self._on_failure = on_failure
        self._tasks = BegunTasks()
        self._making: set[TopicPartition] = set()
        self._one_at_a_time = asyncio.Lock()

    def has_all(
        self, tp: TopicPartition, *, from_offset: int, up_to_offset: int, max_bytes: int
    ) -> bool:
        """Tell whether a read needs no walk of a segment; begin to make the index that it lacks.

        Raises:  as a read on the event loop
        """
        if tp in self._making:
            return False
        log = self._logs[tp]
        part = log.unindexed(
            from_offset=from_offset, up_to_offset=up_to_offset, max_bytes=max_bytes
        )
        if part is None:
            return True
        self._making.add(tp)
        self._tasks.begin(self._make(tp, log, part))
        return False

    def may_cut(self, tp: TopicPartition, diverging: EpochEndOffset) -> bool:
        """Tell whether a log can be cut where its history parts from its leader's, without a walk.

        If not, the index that it lacks is begun to be made, and the leader is to be asked again.

        Raises:  as a read on the event loop
        """
        log = self._logs.get(tp)
        if log is None:
            return True
        end = log.log_end_offset
        offset = choose_truncation(diverging, EpochCache(log.epochs), log_end_offset=end)
        if not log.log_start_offset <= offset < end:
            return True
        return self.has_all(tp, from_offset=offset, up_to_offset=offset + 1, max_bytes=0)

    async def _make(self, tp: TopicPartition, log: PartitionLog, part: LogPart) -> None:
        try:
            async with self._one_at_a_time:
                read = await self._threads.run(part.read, max_bytes=0, any_size=True)
            log.finish_read(part, read)
        except ProtocolError:
            return  # cut or deleted meanwhile
        except StorageError as error:
            if self._logs.get(tp) is log:
                self._on_failure(error)
        finally:
            self._making.discard(tp)

    async def close(self) -> None:
        """Wait for what is being made."""
        await self._tasks.all_done()
