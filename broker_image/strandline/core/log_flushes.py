"""How far logs are on disk, where a topic wants each append fsynced (ADR 0055).

Used by `Replicas` alone. A leader then acknowledges and commits nothing above its durable end, and
a follower tells its leader of nothing above it.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.model import TopicPartition

from .effects import Effect
from .events import LogFlushed
from .fetchers import Fetchers
from .leader import LeaderReplica
from .notices import DurableEndAdvanced
from .partition import Failed, Partition


class LogFlushes:
    """Moves the durable ends of the partitions it shares with `Replicas`."""

    def __init__(self, partitions: Mapping[TopicPartition, Partition], fetchers: Fetchers) -> None:
        self._partitions = partitions
        self._fetchers = fetchers

    def on_flushed(self, event: LogFlushed, now_ms: int) -> list[Effect]:
        """Commit what waited for the leader's disk alone, or let a follower fetch again.

        The notice also comes if the durable end did not move: the topic may want no fsyncs any
        more, and requests of before still wait.
        """
        partition = self._partitions.get(event.tp)
        if partition is None or isinstance(partition.role, Failed):
            return []
        log, leader = partition.log, partition.role
        log.on_flushed(event.offset)
        if not isinstance(leader, LeaderReplica):
            self._fetchers.note_flushed(event.tp)
            return []
        advanced = DurableEndAdvanced(tp=event.tp, durable_end=log.durable_end_offset)
        return [advanced, *leader.advance_high_watermark(now_ms)]
