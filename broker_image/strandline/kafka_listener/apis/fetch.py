"""Fetch: read records below the high watermark.

Registered in `handlers`. The response holds the broker's buffers of records, uncopied.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.broker_interface import (
    ConsumerFetchedPartition,
    ConsumerFetchPartition,
)
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import LeaderHints
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    bounded,
    epoch_or_none,
    first_error,
)
from strandline.kafka_listener.wire import Message

NO_SESSION = 0
SESSION_EPOCHS_OF_FULL_FETCH = frozenset({-1, 0})
READ_COMMITTED = 1


def fetch(context: RequestContext, _version: int, request: Message) -> Response | DeferredResponse:
    """Read below the high watermark, waiting as long as the client allows.

    Sessions are not kept: the response carries session id 0, after which clients send every
    partition again. A follower does not fetch here.
    """
    if request["replica_id"] >= 0:
        return _fetch_error(request, ErrorCode.INVALID_REQUEST)
    is_full = request["session_epoch"] in SESSION_EPOCHS_OF_FULL_FETCH
    if request["session_id"] != NO_SESSION and not is_full:
        return _fetch_error(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    partitions = [
        ConsumerFetchPartition(
            topic_name=topic["name"],
            partition=partition["index"],
            fetch_offset=partition["fetch_offset"],
            max_bytes=max(0, partition["partition_max_bytes"]),
            leader_epoch=epoch_or_none(partition["current_leader_epoch"]),
            last_fetched_epoch=epoch_or_none(partition["last_fetched_epoch"]),
        )
        for topic in request["topics"]
        for partition in topic["partitions"]
    ]

    def finish(fetched: Sequence[ConsumerFetchedPartition]) -> Response:
        return _fetch_response(context, request, fetched)

    result = context.broker.fetch(
        partitions,
        max_wait_ms=bounded(request["max_wait_ms"], context.settings.wait_max_ms),
        min_bytes=max(0, request["min_bytes"]),
        max_bytes=bounded(request["max_bytes"], context.settings.fetch_max_bytes),
    )
    return DeferredResponse(result=result, finish=finish, may_cancel=True)


def _fetch_error(request: Message, error: ErrorCode) -> Response:
    """Refuse a whole fetch: for each partition, and at the top in versions with a top error."""
    topics = [
        {
            "name": topic["name"],
            "partitions": [
                _fetched_message(partition["index"], ConsumerFetchedPartition(error=error))
                for partition in topic["partitions"]
            ],
        }
        for topic in request["topics"]
    ]
    return Response(body={"error_code": error, "topics": topics}, error=error)


def _fetched_message(index: int, data: ConsumerFetchedPartition) -> Message:
    """Return one partition; without transactions the last stable offset is the high watermark."""
    diverging = data.diverging
    return {
        "index": index,
        "error_code": data.error,
        "high_watermark": data.high_watermark,
        "last_stable_offset": data.high_watermark,
        "log_start_offset": data.log_start_offset,
        "diverging_epoch": diverging
        and {"epoch": diverging.leader_epoch, "end_offset": diverging.end_offset},
        "aborted_transactions": None,
        "records": data.records,
    }


def _fetch_response(
    context: RequestContext, request: Message, fetched: Sequence[ConsumerFetchedPartition]
) -> Response:
    outcomes = iter(fetched)
    hints = LeaderHints(context)
    is_committed = request["isolation_level"] == READ_COMMITTED
    topics: list[Message] = []
    for topic in request["topics"]:
        partitions: list[Message] = []
        for partition in topic["partitions"]:
            data = next(outcomes)
            message = _fetched_message(partition["index"], data)
            message["current_leader"] = hints.of(topic["name"], partition["index"], data.error)
            if is_committed and data.error is ErrorCode.NONE:
                message["aborted_transactions"] = ()
            partitions.append(message)
        topics.append({"name": topic["name"], "partitions": partitions})
    return Response(body={"topics": topics}, error=first_error(data.error for data in fetched))
