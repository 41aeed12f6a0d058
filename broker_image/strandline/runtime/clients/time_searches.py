"""Offsets by time: searches of the logs, off the event loop.

Used by `broker_api` alone. One thread makes all searches, in the order of their coming, so that
they take no thread from consumers' reads. A request waits for one search at a time, so one that
names many partitions lets others in after each (ADR 0042).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from strandline.broker_interface import ListedOffset
from strandline.core.reads import VisibleRange
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode, ProtocolError, StorageError
from strandline.log.partition_log import PartitionLog
from strandline.log.record_times import FoundRecord
from strandline.model import LeaderEpoch, TopicPartition
from strandline.runtime.storage.replica_store import ReplicaStore

THREADS = 1
"""More would take the interpreter from the event loop: a search reads records in Python."""


class TimeSearches:
    """Searches the logs of this broker as far as consumers may see them."""

    def __init__(self, *, replicas: Replicas, store: ReplicaStore) -> None:
        self._replicas = replicas
        self._store = store
        self._thread = ThreadPoolExecutor(THREADS, thread_name_prefix="time search")

    def close(self) -> None:
        """Begin no further search; one that runs ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def find(
        self, tp: TopicPartition, timestamp_ms: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        """Return the first visible record at or after a time, offset -1 if there is none.

        A read that the disk fails is the end of this directory, as for a fetch (ADR 0010).

        Returns: OFFSET_NOT_AVAILABLE if a record of that time may be committed that this leader
                 does not know to be; NOT_LEADER_OR_FOLLOWER if the log was cut meanwhile
        Source:  Kafka Partition.fetchOffsetForTimestamp
        """
        visible = self._replicas.consumer_reads.visible_range(tp, leader_epoch)
        if isinstance(visible, ErrorCode):
            return ListedOffset(error=visible)
        log = self._store.logs.get(tp)
        if log is None:
            return ListedOffset(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            found = await self._find(log, timestamp_ms, visible)
        except ProtocolError as refusal:
            return ListedOffset(error=refusal.code)
        except StorageError as failure:
            self._store.fail(failure)
            return ListedOffset(error=ErrorCode.KAFKA_STORAGE_ERROR)
        if found is not None:
            return ListedOffset(
                error=ErrorCode.NONE,
                offset=found.offset,
                timestamp_ms=found.timestamp_ms,
                leader_epoch=found.leader_epoch,
            )
        unknown = visible.end_is_unknown
        return ListedOffset(error=ErrorCode.OFFSET_NOT_AVAILABLE if unknown else ErrorCode.NONE)

    async def _find(
        self, log: PartitionLog, timestamp_ms: int, visible: VisibleRange
    ) -> FoundRecord | None:
        """Search one segment after the other until a record is found.

        Only a segment that is cut by the log start or by the high watermark, or whose greatest
        record was cut off, is searched in vain.
        """
        changes = log.changes
        from_offset = visible.log_start_offset
        while True:
            search = log.begin_time_search(
                timestamp_ms, from_offset=from_offset, up_to_offset=visible.high_watermark
            )
            if search is None:
                return None
            running = asyncio.get_running_loop().run_in_executor(self._thread, search.run)
            found = log.end_time_search(search, await running)
            if log.changes != changes:
                raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=str(log.tp))
            if found is not None:
                return found
            from_offset = search.end_offset
