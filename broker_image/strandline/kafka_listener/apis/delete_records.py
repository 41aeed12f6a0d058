"""DeleteRecords: a client moves the start of logs.

Registered in `apis`. Each log begins at its new start when the function returns; the response
waits until the logs of all live replicas begin there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
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
from strandline.kafka_listener.turns import TURN_ELEMENTS, Turns
from strandline.kafka_listener.wire import Message


def delete_records(
    context: RequestContext, _version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Delete records below an offset of each partition; -1 means all that consumers see."""
    if (yield from names_a_partition_twice(request)):
        return (yield from refused_whole(request, ErrorCode.INVALID_REQUEST))
    timeout_ms = bounded(request["timeout_ms"], context.settings.wait_max_ms)
    deletions = []
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            deletions.append(
                context.broker.delete_records(
                    topic["name"], partition["index"], partition["offset"], timeout_ms=timeout_ms
                )
            )
            yield
        yield
    finish = partial(_response, request)
    return DeferredResponse(result=_all(deletions), finish=finish, may_cancel=False)


async def _all(deletions: Sequence[Awaitable[DeletedRecords]]) -> list[DeletedRecords]:
    """Return the outcomes; gathering them would look at all in one step of the event loop."""
    outcomes = []
    for number, deletion in enumerate(deletions, start=1):
        outcomes.append(await deletion)
        if number % TURN_ELEMENTS == 0:
            await asyncio.sleep(0)
    return outcomes


def _response(request: Message, outcomes: Sequence[DeletedRecords]) -> Turns[Response]:
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
            yield
        topics.append({"name": topic["name"], "partitions": entries})
        yield
    return Response(body={"topics": topics}, error=first_error(each.error for each in outcomes))
