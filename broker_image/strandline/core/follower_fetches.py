"""Fetches of followers, on the leader: counted on arrival, then completed or held back.

A fetch counts once, when it arrives; what its `FetchSession` knows to tell nothing new counts
without a look. After a wait, which `Requests` ends, partitions are read again, and the second read
does not count. Which replicas are copies is decided here; how fast they may copy is the shell's
affair (ADR 0061).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strandline.errors import ErrorCode
from strandline.model import BrokerId, TopicPartition

from .effects import Effect, LogReadInfo, ReplyFetch
from .events import FollowerFetchReceived
from .fetch_changes import FetchPartition
from .fetch_session import FetchSession
from .isr import maximal_isr
from .leader import LeaderReplica
from .notices import fenced
from .partition import Partition
from .purgatory import DelayedFollowerFetch, Purgatory
from .reads import find_leader, read_for_follower, refused


class FollowerFetches:
    """Serves followers on the partitions it shares with `Replicas`."""

    def __init__(
        self, partitions: Mapping[TopicPartition, Partition], purgatory: Purgatory
    ) -> None:
        self._partitions = partitions
        self._purgatory = purgatory
        self._sessions: dict[BrokerId, FetchSession] = {}

    def on_fetch(self, event: FollowerFetchReceived, now_ms: int) -> list[Effect]:
        """Count what a follower has, then respond or let it wait for more.

        While a fetch of a later process waits, the leader refuses an earlier process for all
        partitions: that broker epoch ended (KIP-380).
        """
        waiting = self._purgatory.waiting_follower(event.follower)
        if waiting is not None and waiting.broker_epoch > event.broker_epoch:
            return _refuse_all(event, ErrorCode.STALE_BROKER_EPOCH)
        effects: list[Effect] = []
        if waiting is not None:
            # The new fetch supersedes the waiting one, whose response the follower drops.
            self._purgatory.take(waiting)
            effects.append(
                ReplyFetch(request_id=waiting.request_id, follower=waiting.follower, partitions=())
            )
        session = self._session_of(event, now_ms)
        asked, reads = session.to_look_at(), list[LogReadInfo]()
        delayed = _delayed(event, session, now_ms)
        for fetch in asked:
            leader = self._admit(event, fetch)
            if isinstance(leader, ErrorCode):
                effects += fenced(leader, "fetch")
                reads.append(refused(fetch.tp, fetch.fetch_offset, leader))
            else:
                read, counted = _count(leader, event, fetch, now_ms)
                effects += counted
                reads.append(_for(delayed, read, leader))
                if _tells_nothing(leader, event.follower, fetch, read):
                    session.settle(fetch.tp, leader.followers[event.follower])
        waiting_copies = frozenset[TopicPartition]()
        if event.copies_after_ms > 0:
            waiting_copies = frozenset(read.tp for read in reads if read.is_copy)
        urgent = (_is_urgent(read) for read in reads if read.tp not in waiting_copies)
        if event.max_wait_ms > 0 and session.wanted and not any(urgent):
            self._purgatory.add(_with_copies_later(delayed, waiting_copies, event, now_ms))
            return effects
        return [*effects, _reply(delayed, asked, reads)]

    def respond(self, delayed: DelayedFollowerFetch) -> ReplyFetch:
        """Return the response to a fetch whose wait is over: by news, or by its deadline."""
        asked = delayed.session.to_look_at()
        return _reply(delayed, asked, self._read(delayed, asked))

    def _session_of(self, event: FollowerFetchReceived, now_ms: int) -> FetchSession:
        """Return the follower's session with this fetch; begin one if the fetch continues none."""
        session = self._sessions.get(event.follower)
        if session is not None and session.continues_with(event, now_ms):
            return session
        if session is not None:
            session.end()
        session = self._sessions[event.follower] = FetchSession.begun_by(event, now_ms)
        return session

    def _admit(
        self, event: FollowerFetchReceived, fetch: FetchPartition
    ) -> LeaderReplica | ErrorCode:
        leader = find_leader(self._partitions.get(fetch.tp), fetch.leader_epoch)
        if isinstance(leader, ErrorCode):
            return leader
        if event.follower not in leader.followers:
            # Not assigned as far as we know: the follower may know a later assignment.
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        admitted = leader.admit(
            event.follower,
            broker_epoch=event.broker_epoch,
            clean_since_epoch=event.clean_since_epoch,
        )
        return leader if admitted else ErrorCode.STALE_BROKER_EPOCH

    def _read(
        self, delayed: DelayedFollowerFetch, asked: Sequence[FetchPartition]
    ) -> list[LogReadInfo]:
        reads: list[LogReadInfo] = []
        for fetch in asked:
            leader = find_leader(self._partitions.get(fetch.tp), fetch.leader_epoch)
            if isinstance(leader, ErrorCode):
                reads.append(refused(fetch.tp, fetch.fetch_offset, leader))
            elif delayed.follower not in leader.followers:
                error = ErrorCode.UNKNOWN_LEADER_EPOCH
                reads.append(refused(fetch.tp, fetch.fetch_offset, error, leader))
            else:
                reads.append(_for(delayed, read_for_follower(leader, fetch), leader))
        return reads


def _delayed(
    event: FollowerFetchReceived, session: FetchSession, now_ms: int
) -> DelayedFollowerFetch:
    """Return a fetch as it waits; one without records waits for its deadline alone."""
    return DelayedFollowerFetch(
        request_id=event.request_id,
        follower=event.follower,
        broker_epoch=event.broker_epoch,
        session=session,
        watched=frozenset() if event.without_records else session.wanted.keys(),
        without_records=event.without_records,
        deadline_ms=now_ms + event.max_wait_ms,
    )


def _with_copies_later(
    delayed: DelayedFollowerFetch,
    copies: frozenset[TopicPartition],
    event: FollowerFetchReceived,
    now_ms: int,
) -> DelayedFollowerFetch:
    """Let a fetch wait until its copies may go on, or for news of its other partitions."""
    if not copies:
        return delayed
    return replace(
        delayed,
        watched=frozenset(delayed.watched) - copies,
        deadline_ms=now_ms + min(event.max_wait_ms, event.copies_after_ms),
    )


def _for(delayed: DelayedFollowerFetch, read: LogReadInfo, leader: LeaderReplica) -> LogReadInfo:
    """Leave out records that a follower has no room for; mark those for a copy."""
    if delayed.without_records:
        return replace(read, up_to_offset=read.from_offset)
    if read.from_offset < read.up_to_offset and _is_copy(leader, delayed.follower):
        return replace(read, is_copy=True)
    return read


def _is_copy(leader: LeaderReplica, follower: BrokerId) -> bool:
    """Tell whether a replica is being added and nothing is committed by what it has.

    A replica that may be in the ISR already holds commits back: it is none.

    Source:  Kafka 3.9 ReplicaManager.shouldLeaderThrottle
    """
    is_added = follower in leader.state.adding_replicas
    return is_added and follower not in maximal_isr(leader.proposer.isr)


def _reply(
    delayed: DelayedFollowerFetch, asked: Sequence[FetchPartition], reads: Sequence[LogReadInfo]
) -> ReplyFetch:
    """Respond with the news: records, refusals, high watermarks and log starts the follower lacks.

    Shape:   reads[i] was read for asked[i]
    """
    news = tuple(
        read
        for fetch, read in zip(asked, reads, strict=True)
        if _is_urgent(read) or _is_news(fetch, read)
    )
    return ReplyFetch(request_id=delayed.request_id, follower=delayed.follower, partitions=news)


def _refuse_all(event: FollowerFetchReceived, error: ErrorCode) -> list[Effect]:
    reply = ReplyFetch(
        request_id=event.request_id,
        follower=event.follower,
        partitions=tuple(
            refused(fetch.tp, fetch.fetch_offset, error) for fetch in event.partitions
        ),
    )
    return [*fenced(error, "fetch"), reply]


def _count(
    leader: LeaderReplica, event: FollowerFetchReceived, fetch: FetchPartition, now_ms: int
) -> tuple[LogReadInfo, list[Effect]]:
    """Count a fetch and read for it; its response tells of the records it commits."""
    read = read_for_follower(leader, fetch)
    if read.error is not ErrorCode.NONE or read.diverging is not None:
        # A fetch outside our history is not progress (KAFKA-8400).
        return read, []
    effects = leader.record_fetch(
        event.follower,
        fetch_offset=fetch.fetch_offset,
        log_start_offset=fetch.log_start_offset,
        now_ms=now_ms,
        has_room=not event.without_records,
    )
    if read.high_watermark != leader.log.high_watermark:
        read = read_for_follower(leader, fetch)
    return read, effects


def _tells_nothing(
    leader: LeaderReplica, follower: BrokerId, fetch: FetchPartition, read: LogReadInfo
) -> bool:
    """Tell whether this fetch, if it came again, would change and tell nothing but the time.

    Without records to read the follower is at the leader's end. A follower that is not in the
    maximal ISR may be proposed by any fetch of it.
    """
    if _is_urgent(read) or _is_news(fetch, read):
        return False
    entry = leader.proposer.entry_of(follower)
    return entry is not None and leader.followers[follower].covers(entry)


def _is_news(fetch: FetchPartition, read: LogReadInfo) -> bool:
    return (
        read.high_watermark != fetch.high_watermark
        or read.log_start_offset > fetch.log_start_offset
    )


def _is_urgent(read: LogReadInfo) -> bool:
    return (
        read.error is not ErrorCode.NONE
        or read.diverging is not None
        or read.from_offset < read.up_to_offset
    )
