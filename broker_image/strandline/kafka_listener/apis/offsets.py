"""ListOffsets and OffsetForLeaderEpoch.

Registered in `apis`. The offsets they return are bounded by the high watermark or by the epochs
that the broker knows. A search by time does not respond at once, nor does ListOffsets for a
partition that the broker has not heard of yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from strandline.broker_interface import ListedOffset
from strandline.errors import ErrorCode
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    epoch_or_none,
    names_a_partition_twice,
    per_partition,
    refused_whole,
)
from strandline.kafka_listener.turns import Turns
from strandline.kafka_listener.wire import Message
from strandline.model import LeaderEpoch

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
"""Older clients repeat a request after LEADER_NOT_AVAILABLE. Source: KIP-207."""

_Found = Mapping[tuple[str, int], ListedOffset]
"""What was found by time, by topic name and partition."""


def list_offsets(
    context: RequestContext, version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Return the earliest offset, the high watermark, or the first offset at or after a time."""
    if (yield from names_a_partition_twice(request)):
        return (yield from refused_whole(request, ErrorCode.INVALID_REQUEST))
    by_time, unheard = [], []
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            if partition["timestamp"] >= 0:
                by_time.append((topic["name"], partition))
            if not context.broker.knows(topic["name"], partition["index"]):
                unheard.append((topic["name"], partition["index"]))
            yield
        yield
    finish = partial(_listed, context, version, request)
    if not by_time and not unheard:
        return (yield from finish({}))
    found = _search(context, unheard, by_time)
    return DeferredResponse(result=found, finish=finish, may_cancel=True)


async def _search(
    context: RequestContext,
    unheard: Sequence[tuple[str, int]],
    wanted: Sequence[tuple[str, Message]],
) -> _Found:
    """Wait for news of unheard partitions, then search one partition after the other.

    Each request waits for one search at a time.
    """
    if unheard:
        await context.broker.heard(unheard)
    return {
        (topic_name, partition["index"]): await context.broker.find_offset(
            topic_name,
            partition["index"],
            partition["timestamp"],
            epoch_or_none(partition["current_leader_epoch"]),
        )
        for topic_name, partition in wanted
    }


def _listed(
    context: RequestContext, version: int, request: Message, found: _Found
) -> Turns[Response]:
    """Return the response; what was not searched is known at once."""
    knows_offset_not_available = version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE

    def entry_for(topic_name: str, partition: Message) -> Message:
        listed = found.get((topic_name, partition["index"])) or context.broker.list_offset(
            topic_name,
            partition["index"],
            partition["timestamp"],
            epoch_or_none(partition["current_leader_epoch"]),
        )
        error = listed.error
        if error is ErrorCode.OFFSET_NOT_AVAILABLE and not knows_offset_not_available:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return {
            "index": partition["index"],
            "error_code": error,
            "timestamp": listed.timestamp_ms,
            "offset": listed.offset,
            "leader_epoch": listed.leader_epoch,
        }

    return per_partition(request, entry_for)


def offset_for_leader_epoch(
    context: RequestContext, _version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Return where the requested epoch ends in the leader's log. Source: KIP-320."""
    if (yield from names_a_partition_twice(request)):
        return (yield from refused_whole(request, ErrorCode.INVALID_REQUEST))

    def entry_for(topic_name: str, partition: Message) -> Message:
        error, end = context.broker.end_offset_for_epoch(
            topic_name,
            partition["index"],
            LeaderEpoch(partition["leader_epoch"]),
            epoch_or_none(partition["current_leader_epoch"]),
        )
        return {
            "error_code": error,
            "index": partition["index"],
            "leader_epoch": end.leader_epoch,
            "end_offset": end.end_offset,
        }

    return (yield from per_partition(request, entry_for))
