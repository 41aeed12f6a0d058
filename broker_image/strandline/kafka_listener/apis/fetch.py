"""Fetch: read records below the high watermark.

Registered in `apis`. The response holds the broker's buffers of records, uncopied.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import repeat

from strandline.broker_interface import ConsumerFetchedPartition, ConsumerFetchPartition
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import LeaderHints
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    bounded,
    epoch_or_none,
    names_a_partition_twice,
    per_partition,
)
from strandline.kafka_listener.turns import Turns
from strandline.kafka_listener.wire import Message

NO_SESSION = 0
SESSION_EPOCHS_OF_FULL_FETCH = frozenset({-1, 0})
READ_COMMITTED = 1


def fetch(
    context: RequestContext, _version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Read below the high watermark, waiting as long as the client allows.

    Sessions are not kept: the response carries session id 0, after which clients send every
    partition again. A follower does not fetch here.
    """

    def refuse(error: ErrorCode) -> Turns[Response]:
        refused = ConsumerFetchedPartition(error=error)
        return _response(context, request, repeat(refused), error=error)

    if request["replica_id"] >= 0 or (yield from names_a_partition_twice(request)):
        return (yield from refuse(ErrorCode.INVALID_REQUEST))
    is_full = request["session_epoch"] in SESSION_EPOCHS_OF_FULL_FETCH
    if request["session_id"] != NO_SESSION and not is_full:
        return (yield from refuse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    partitions = []
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            partitions.append(
                ConsumerFetchPartition(
                    topic_name=topic["name"],
                    partition=partition["index"],
                    fetch_offset=partition["fetch_offset"],
                    max_bytes=max(0, partition["partition_max_bytes"]),
                    leader_epoch=epoch_or_none(partition["current_leader_epoch"]),
                    last_fetched_epoch=epoch_or_none(partition["last_fetched_epoch"]),
                )
            )
            yield
        yield
    memory = context.new_response_memory()
    fits = context.settings.fetch_response_max_bytes(context.response_memory.used)
    result = context.broker.fetch(
        partitions,
        max_wait_ms=bounded(request["max_wait_ms"], context.settings.wait_max_ms),
        min_bytes=max(0, request["min_bytes"]),
        max_bytes=bounded(request["max_bytes"], fits),
        admit=memory.admit,
    )
    finish = partial(_response, context, request, error=ErrorCode.NONE)
    return DeferredResponse(result=result, finish=finish, may_cancel=True, memory=memory)


def _response(
    context: RequestContext,
    request: Message,
    fetched: Iterable[ConsumerFetchedPartition],
    *,
    error: ErrorCode,
) -> Turns[Response]:
    """Return the outcomes; without transactions the last stable offset is the high watermark.

    Shape:   fetched has an outcome for each partition of the request, in its order; error is
             that of the whole request
    """
    outcomes = iter(fetched)
    hints = LeaderHints(context.metadata)
    is_committed = request["isolation_level"] == READ_COMMITTED

    def entry_for(topic_name: str, partition: Message) -> Message:
        data, index = next(outcomes), partition["index"]
        end = data.diverging
        return {
            "index": index,
            "error_code": data.error,
            "high_watermark": data.high_watermark,
            "last_stable_offset": data.high_watermark,
            "log_start_offset": data.log_start_offset,
            "diverging_epoch": end and {"epoch": end.leader_epoch, "end_offset": end.end_offset},
            "current_leader": hints.of(topic_name, index, data.error),
            "aborted_transactions": () if is_committed and data.error is ErrorCode.NONE else None,
            "records": data.records,
        }

    return per_partition(request, entry_for, error=error)
