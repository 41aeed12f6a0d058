"""ListOffsets and OffsetForLeaderEpoch.

Registered in `apis`. Both respond at once; the offsets they return are bounded by the high
watermark or by the epochs that the broker knows.
"""

from __future__ import annotations

from strandline.errors import ErrorCode
from strandline.kafka_listener.response import (
    RequestContext,
    Response,
    epoch_or_none,
    names_a_partition_twice,
    per_partition,
    refused_whole,
)
from strandline.kafka_listener.wire import Message
from strandline.model import LeaderEpoch

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
"""Older clients repeat a request after LEADER_NOT_AVAILABLE. Source: KIP-207."""


def list_offsets(context: RequestContext, version: int, request: Message) -> Response:
    """Return the earliest offset or the high watermark of each partition.

    Search by time would have to open batches; the broker refuses it.
    """
    if names_a_partition_twice(request):
        return refused_whole(request, ErrorCode.INVALID_REQUEST)
    knows_offset_not_available = version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE

    def entry_for(topic_name: str, partition: Message) -> Message:
        listed = context.broker.list_offset(
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
            "offset": listed.offset,
            "leader_epoch": listed.leader_epoch,
        }

    return per_partition(request, entry_for)


def offset_for_leader_epoch(context: RequestContext, _version: int, request: Message) -> Response:
    """Return where the requested epoch ends in the leader's log. Source: KIP-320."""
    if names_a_partition_twice(request):
        return refused_whole(request, ErrorCode.INVALID_REQUEST)

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

    return per_partition(request, entry_for)
