"""DeleteRecords: a client moves the start of logs.

Registered in `apis`. Each log begins at its new start when the function returns; the response
waits until the logs of all live replicas begin there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from strandline.broker_interface import DeletedRecords
from strandline.errors import ErrorCode
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    bounded,
    first_error,
    names_a_partition_twice,
    refused_whole,
)
from strandline.kafka_listener.wire import Message


def delete_records(
    context: RequestContext, _version: int, request: Message
) -> Response | DeferredResponse:
    """Delete records below an offset of each partition; -1 means all that consumers see."""
    if names_a_partition_twice(request):
        return refused_whole(request, ErrorCode.INVALID_REQUEST)
    timeout_ms = bounded(request["timeout_ms"], context.settings.wait_max_ms)
    deletions = [
        context.broker.delete_records(
            topic["name"], partition["index"], partition["offset"], timeout_ms=timeout_ms
        )
        for topic in request["topics"]
        for partition in topic["partitions"]
    ]
    finish = partial(_response, request)
    return DeferredResponse(result=asyncio.gather(*deletions), finish=finish, may_cancel=False)


def _response(request: Message, outcomes: Sequence[DeletedRecords]) -> Response:
    """Return the outcomes, in the order of the request."""
    left = iter(outcomes)
    topics = []
    for topic in request["topics"]:
        entries = []
        for partition in topic["partitions"]:
            outcome = next(left)
            entries.append(
                {
                    "index": partition["index"],
                    "low_watermark": outcome.low_watermark,
                    "error_code": outcome.error,
                }
            )
        topics.append({"name": topic["name"], "partitions": entries})
    return Response(body={"topics": topics}, error=first_error(each.error for each in outcomes))
