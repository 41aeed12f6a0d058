"""Incremental fetches: a follower sends its whole fetch once, then only the changes.

A session lives as long as one replication stream (KIP-227 without its session ids: a stream
delivers every frame once and in order, so no id must find the session). Both ends handle
whole fetches; the frames between them hold differences. Used by `replication_client` and
`replication_server`. Invariant: a frame that does not continue its session ends the stream.

The leader reads partitions in the order in which they last changed. A partition that got records
moves to the back, at the leader as at the follower, so partitions share the byte limit of
responses in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.core.events import FetchPartition, FollowerFetchReceived
from strandline.model import TopicPartition

from .frames import PARTITIONS_PER_FETCH_MAX, BadFrame, FetchFrame


@dataclass(slots=True)
class FollowerFetchSession:
    """The follower's end: remembers the fetch that the leader knows."""

    _last_sent: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    _session_epoch: int = 0

    def frame_of(self, fetch: FollowerFetchReceived) -> FetchFrame:
        """Return a fetch as its difference from the last one; the frame must be sent next."""
        wanted = {part.tp: part for part in fetch.partitions}
        frame = FetchFrame(
            request_id=fetch.request_id,
            follower=fetch.follower,
            broker_epoch=fetch.broker_epoch,
            clean_since_epoch=fetch.clean_since_epoch,
            max_wait_ms=fetch.max_wait_ms,
            without_records=fetch.without_records,
            session_epoch=self._session_epoch,
            changed=tuple(part for tp, part in wanted.items() if self._last_sent.get(tp) != part),
            forgotten=tuple(tp for tp in self._last_sent if tp not in wanted),
        )
        self._last_sent = wanted
        self._session_epoch += 1
        return frame


@dataclass(slots=True)
class LeaderFetchSession:
    """The leader's end: puts the whole fetch together again."""

    _wanted: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    _partitions: tuple[FetchPartition, ...] = ()
    _session_epoch: int = 0

    def fetch_of(self, frame: FetchFrame) -> FollowerFetchReceived:
        """Return the whole fetch that a frame stands for.

        Raises:  BadFrame if it is not the session's next frame, forgets a partition that the
                 session lacks, or makes the session larger than PARTITIONS_PER_FETCH_MAX
        """
        if frame.session_epoch != self._session_epoch:
            raise BadFrame(f"session epoch {frame.session_epoch} instead of {self._session_epoch}")
        self._session_epoch += 1
        for tp in frame.forgotten:
            if self._wanted.pop(tp, None) is None:
                raise BadFrame(f"a fetch forgets {tp}, which it never asked for")
        for part in frame.changed:
            self._wanted.pop(part.tp, None)
            self._wanted[part.tp] = part
        if len(self._wanted) > PARTITIONS_PER_FETCH_MAX:
            raise BadFrame(
                f"a session of {len(self._wanted)} partitions, at most {PARTITIONS_PER_FETCH_MAX}"
            )
        if frame.changed or frame.forgotten:
            self._partitions = tuple(self._wanted.values())
        return FollowerFetchReceived(
            request_id=frame.request_id,
            follower=frame.follower,
            broker_epoch=frame.broker_epoch,
            clean_since_epoch=frame.clean_since_epoch,
            max_wait_ms=frame.max_wait_ms,
            without_records=frame.without_records,
            partitions=self._partitions,
        )
