"""Incremental fetches: a follower sends its whole fetch once, then only the changes.

A session lives as long as one replication stream (KIP-227 without its session ids: a stream
delivers every frame once and in order, so no id must find the session). Both ends handle whole
fetches together with their changes; the frames between them hold the changes. Used by
`replication_client` and `replication_server`. Invariant: a frame that does not continue its session
ends the stream.

The leader reads partitions in the order in which they last changed. A partition that got records
moves to the back, at the leader as at the follower, so partitions share the byte limit of
responses in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.core.events import FollowerFetchReceived
from strandline.core.fetch_changes import FetchChanges, FetchPartition
from strandline.model import TopicPartition

from .frames import PARTITIONS_PER_FETCH_MAX, BadFrame, FetchFrame


@dataclass(slots=True)
class FollowerFetchSession:
    """The follower's end: remembers the fetch that the leader knows.

    What the core says of changes since that very fetch is sent as it is; after a fetch that did not
    get here, or without the core's word, the whole fetches are compared.
    """

    _last_sent: tuple[FetchPartition, ...] = ()
    _last_changes: FetchChanges | None = None
    _session_epoch: int = 0

    def frame_of(self, fetch: FollowerFetchReceived) -> FetchFrame:
        """Return a fetch as its difference from the last one; the frame must be sent next."""
        changed, forgotten = self._difference(fetch)
        frame = FetchFrame(
            request_id=fetch.request_id,
            follower=fetch.follower,
            broker_epoch=fetch.broker_epoch,
            clean_since_epoch=fetch.clean_since_epoch,
            max_wait_ms=fetch.max_wait_ms,
            without_records=fetch.without_records,
            session_epoch=self._session_epoch,
            changed=changed,
            forgotten=forgotten,
        )
        self._last_sent, self._last_changes = fetch.partitions, fetch.changes
        self._session_epoch += 1
        return frame

    def _difference(
        self, fetch: FollowerFetchReceived
    ) -> tuple[tuple[FetchPartition, ...], tuple[TopicPartition, ...]]:
        changes, last = fetch.changes, self._last_changes
        if changes is not None and last is not None and changes.follows(last):
            return changes.changed, changes.forgotten
        known = {part.tp: part for part in self._last_sent}
        wanted = {part.tp: part for part in fetch.partitions}
        return (
            tuple(part for tp, part in wanted.items() if known.get(tp) != part),
            tuple(tp for tp in known if tp not in wanted),
        )


@dataclass(slots=True)
class LeaderFetchSession:
    """The leader's end: puts the whole fetch together again; session_id names the stream."""

    session_id: int
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
            changes=FetchChanges(
                session_id=self.session_id,
                session_epoch=frame.session_epoch,
                changed=frame.changed,
                forgotten=frame.forgotten,
            ),
        )
