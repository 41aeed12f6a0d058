"""Where logs begin: the leader decides by retention and clients, its followers come after it.

Used by `Replicas` and `Requests` alone. A log start moves up only, and never above the high
watermark. Readers see a later start at once; a segment is deleted only when the start is on disk,
so that no restart finds a log that begins within deleted records (ADR 0035).

Source: Kafka 3.9 Partition.deleteRecordsOnLeader, UnifiedLog.deleteOldSegments
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.errors import ErrorCode
from strandline.model import TO_HIGH_WATERMARK, TopicPartition

from .effects import Effect, ReplyDeleteRecords
from .events import DeleteRecordsReceived, LogStartPersisted, RetentionReached
from .fetchers import Fetchers
from .leader import LeaderReplica
from .partition import Partition
from .purgatory import DelayedDeleteRecords, Purgatory
from .reads import find_leader


class LogStarts:
    """Moves the log starts of the partitions it shares with `Replicas`."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        purgatory: Purgatory,
        fetchers: Fetchers,
    ) -> None:
        self._partitions = partitions
        self._purgatory = purgatory
        self._fetchers = fetchers

    def on_delete_records(self, event: DeleteRecordsReceived, now_ms: int) -> list[Effect]:
        """Begin the leader's log at the offset of a client, then wait for the live replicas.

        A response of REQUEST_TIMED_OUT means that the leader's log may begin there already.
        """
        leader = find_leader(self._partitions.get(event.tp), None)
        if isinstance(leader, ErrorCode):
            return [_respond(event, leader)]
        high_watermark = leader.log.high_watermark
        offset = high_watermark if event.offset == TO_HIGH_WATERMARK else event.offset
        if not 0 <= offset <= high_watermark:
            return [_respond(event, ErrorCode.OFFSET_OUT_OF_RANGE)]
        if self._purgatory.is_full:
            return [_respond(event, ErrorCode.REQUEST_TIMED_OUT)]
        leader.unsettle_followers()
        effects = leader.log.advance_start(offset, reason="delete_records")
        effects += leader.advance_low_watermark()
        self._purgatory.add(
            DelayedDeleteRecords(
                request_id=event.request_id,
                tp=event.tp,
                offset=offset,
                deadline_ms=now_ms + event.timeout_ms,
            )
        )
        return effects + self.complete(event.tp)

    def on_retention_reached(self, event: RetentionReached) -> list[Effect]:
        """Begin a led log at a later segment; a follower gets its start from its leader."""
        leader = find_leader(self._partitions.get(event.tp), None)
        if isinstance(leader, ErrorCode) or event.offset > leader.log.high_watermark:
            return []
        leader.unsettle_followers()
        return leader.log.advance_start(event.offset, reason="retention")

    def on_persisted(self, event: LogStartPersisted) -> list[Effect]:
        """Delete segments below a log start that is on disk now, and tell of the start."""
        partition = self._partitions.get(event.tp)
        if partition is None:
            return []
        effects = partition.log.on_start_persisted(event.offset)
        if isinstance(partition.role, LeaderReplica):
            effects += partition.role.advance_low_watermark()
        elif effects:
            self._fetchers.refetch(event.tp)
        return effects

    def complete(self, tp: TopicPartition) -> list[Effect]:
        """Respond to the deletions of a partition that are done, or not the leader's any more."""
        leader = find_leader(self._partitions.get(tp), None)
        if isinstance(leader, ErrorCode):
            return [_respond(each, leader) for each in self._purgatory.take_all_deletions(tp)]
        done = self._purgatory.take_deletions(tp, low_watermark=leader.low_watermark)
        return [
            ReplyDeleteRecords(
                request_id=each.request_id,
                tp=tp,
                error=ErrorCode.NONE,
                low_watermark=leader.low_watermark,
            )
            for each in done
        ]


def _respond(
    request: DeleteRecordsReceived | DelayedDeleteRecords, error: ErrorCode
) -> ReplyDeleteRecords:
    return ReplyDeleteRecords(request_id=request.request_id, tp=request.tp, error=error)
