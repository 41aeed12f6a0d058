"""Requests of producers and consumers: refused, served, or left to wait; the end of every wait.

A step completes a waiting request when an effect of that step touched what the
request waits for; otherwise the request waits until its deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from strandline.errors import ErrorCode
from strandline.model import Acks, BatchSpan, TopicPartition

from .effects import (
    AppendAsLeader,
    CompleteFetch,
    DeleteReplica,
    Effect,
    PersistLogStart,
    ReplyDeleteRecords,
    ReplyProduce,
)
from .events import DelayedFetchReceived, ProduceReceived
from .follower_fetches import FollowerFetches
from .leader import LeaderReplica
from .log_starts import LogStarts
from .notices import (
    BecameFollower,
    BecameLeader,
    DurableEndAdvanced,
    HighWatermarkAdvanced,
    LowWatermarkAdvanced,
    ReplicaFailed,
    RequestExpired,
)
from .partition import Partition
from .purgatory import (
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedFollowerFetch,
    DelayedProduce,
    Purgatory,
)
from .reads import find_leader


class Requests:
    """Serves requests on the partitions it shares with `Replicas`."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        purgatory: Purgatory,
        followers: FollowerFetches,
        log_starts: LogStarts,
    ) -> None:
        self._partitions = partitions
        self._purgatory = purgatory
        self._followers = followers
        self._log_starts = log_starts

    def on_produce(self, event: ProduceReceived, now_ms: int) -> list[Effect]:
        """Append a batch, or return the refusal; acks=all waits for the high watermark.

        acks=1 waits for the leader's own disk, where the topic asks for it.
        Leadership comes first: only the leader's log knows the newest sequence.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND is never sent: under min ISR the high watermark
        is frozen, so such a request waits, and expires or is committed later.
        """
        leader = find_leader(self._partitions.get(event.tp), None)
        if isinstance(leader, ErrorCode):
            return [_refused(event, leader)]
        sequence = event.sequence
        if isinstance(sequence, ErrorCode) and sequence is not ErrorCode.NONE:
            return [_refused(event, sequence)]
        waits_for_disk = event.acks is Acks.LEADER and leader.log.flushes_every_append
        may_wait = event.acks is Acks.ALL or waits_for_disk
        # Before the append, so that a refused record is in no log.
        if event.acks is Acks.ALL and leader.is_under_min_isr:
            return [_refused(event, ErrorCode.NOT_ENOUGH_REPLICAS)]
        if may_wait and self._purgatory.is_full:
            return [_refused(event, ErrorCode.REQUEST_TIMED_OUT)]
        effects: list[Effect] = []
        if isinstance(sequence, BatchSpan):
            base_offset, next_offset = sequence.base_offset, sequence.next_offset
        else:
            append = leader.append(event)
            effects.append(append)
            effects += leader.advance_high_watermark(now_ms)
            base_offset, next_offset = append.base_offset, leader.log.log_end_offset
        delayed = DelayedProduce(
            request_id=event.request_id,
            tp=event.tp,
            base_offset=base_offset,
            required_offset=next_offset,
            deadline_ms=now_ms + event.timeout_ms,
            waits_for_disk=waits_for_disk,
        )
        reached = leader.log.durable_end_offset if waits_for_disk else leader.log.high_watermark
        if may_wait and reached < next_offset:
            self._purgatory.add(delayed)
        else:
            effects.append(_produced(delayed, leader))
        return effects

    def on_delayed_fetch(self, event: DelayedFetchReceived, now_ms: int) -> list[Effect]:
        """Let a consumer wait until a high watermark passes the one it saw.

        Over the bound no fetch waits: it completes as expired, and the consumer may fetch again.
        """
        for tp, seen in event.watches:
            leader = find_leader(self._partitions.get(tp), None)
            if isinstance(leader, ErrorCode) or leader.log.high_watermark > seen:
                return [CompleteFetch(request_id=event.request_id, expired=False)]
        if event.max_wait_ms <= 0 or self._purgatory.is_full:
            return [CompleteFetch(request_id=event.request_id, expired=True)]
        self._purgatory.add(
            DelayedFetch(
                request_id=event.request_id,
                watches=event.watches,
                deadline_ms=now_ms + event.max_wait_ms,
            )
        )
        return []

    def complete(self, effects: Sequence[Effect]) -> list[Effect]:
        """Complete the requests that the effects of this step touched.

        A high watermark alone does not end a follower's wait: it travels with the next
        response, else idle partitions would keep every follower busy (KAFKA-9952).
        """
        grown, committed, changed, begun_later = _touched(effects)
        done: list[Effect] = []
        if grown or changed:
            followers = self._purgatory.take_follower_fetches([*grown, *changed])
            done += [self._followers.respond(delayed) for delayed in followers]
        for tp in [*changed, *committed]:
            leader = find_leader(self._partitions.get(tp), None)
            if isinstance(leader, ErrorCode):
                lost = self._purgatory.take_all_produce(tp)
                done += [_refused(produce, leader) for produce in lost]
            else:
                high_watermark = leader.log.high_watermark
                committed_now = self._purgatory.take_produce(
                    tp, high_watermark=high_watermark, durable_end=leader.log.durable_end_offset
                )
                done += [_produced(produce, leader) for produce in committed_now]
                done += _completed(self._purgatory.take_fetches(tp, high_watermark=high_watermark))
        for tp in changed:
            done += _completed(self._purgatory.take_all_fetches(tp))
        for tp in [*changed, *begun_later]:
            done += self._log_starts.complete(tp)
        return done

    def expire(self, now_ms: int) -> list[Effect]:
        """Complete the requests whose time is over."""
        done: list[Effect] = []
        for delayed in self._purgatory.expire(now_ms):
            match delayed:
                case DelayedProduce():
                    done.append(_refused(delayed, ErrorCode.REQUEST_TIMED_OUT))
                case DelayedDeleteRecords(request_id=request_id, tp=tp):
                    error = ErrorCode.REQUEST_TIMED_OUT
                    done.append(ReplyDeleteRecords(request_id=request_id, tp=tp, error=error))
                case DelayedFetch():
                    done.append(CompleteFetch(request_id=delayed.request_id, expired=True))
                case DelayedFollowerFetch():
                    done.append(self._followers.respond(delayed))
                case _:
                    assert_never(delayed)
            done.append(RequestExpired(operation=delayed.operation))
        return done


def _touched(effects: Sequence[Effect]) -> tuple[list[TopicPartition], ...]:
    """Return the partitions with news for followers, with commits, with a new role or a new start.

    A new start is one that all live replicas have.
    """
    grown: dict[TopicPartition, None] = {}
    committed: dict[TopicPartition, None] = {}
    changed: dict[TopicPartition, None] = {}
    begun_later: dict[TopicPartition, None] = {}
    for effect in effects:
        match effect:
            case AppendAsLeader() | PersistLogStart():
                grown[effect.tp] = None
            case HighWatermarkAdvanced() | DurableEndAdvanced():
                committed[effect.tp] = None
            case LowWatermarkAdvanced():
                begun_later[effect.tp] = None
            case BecameLeader() | BecameFollower() | ReplicaFailed() | DeleteReplica():
                changed[effect.tp] = None
            case _:
                pass
    return list(grown), list(committed), list(changed), list(begun_later)


def _completed(fetches: Sequence[DelayedFetch]) -> list[Effect]:
    return [CompleteFetch(request_id=fetch.request_id, expired=False) for fetch in fetches]


def _refused(produce: ProduceReceived | DelayedProduce, error: ErrorCode) -> ReplyProduce:
    return ReplyProduce(request_id=produce.request_id, tp=produce.tp, error=error)


def _produced(delayed: DelayedProduce, leader: LeaderReplica) -> ReplyProduce:
    return ReplyProduce(
        request_id=delayed.request_id,
        tp=delayed.tp,
        error=ErrorCode.NONE,
        base_offset=delayed.base_offset,
        log_start_offset=leader.log.log_start_offset,
    )
