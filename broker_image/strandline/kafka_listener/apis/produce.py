"""Produce: append record batches.

Registered in `apis`. Records go to the broker as they are: the broker checks batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from itertools import repeat

from strandline.broker_interface import ProducedPartition, ProducePartition
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import LeaderHints
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    bounded,
    names_a_partition_twice,
)
from strandline.kafka_listener.turns import Turns, spend
from strandline.kafka_listener.wire import Message
from strandline.model import Acks

LZ4, ZSTD = 3, 4
"""The highest compression codec before and since FIRST_VERSION_WITH_ZSTD."""
FIRST_VERSION_WITH_ZSTD = 7

PARTITIONS_AT_ONCE = 50
"""Partitions that are appended to at one go: an append takes more than other elements do."""

_ACKS = {acks.value: acks for acks in Acks}


def produce(
    context: RequestContext, version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Append the batches now; respond when they are acknowledged.

    acks=0 has no response; an error then closes the connection, the only sign for the client.
    """
    acks = _ACKS.get(request["acks"])
    sent, requested = [], []
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            sent.append(
                ProducePartition(
                    topic_name=topic["name"],
                    partition=partition["index"],
                    batch=partition["records"] or b"",
                )
            )
            requested.append((topic["name"], partition["index"]))
            yield
        yield
    finish = partial(_response, context, requested, acks)
    refusal = yield from _refusal(request)
    if refusal is not ErrorCode.NONE or acks is None:
        refused = ProducedPartition(error=refusal or ErrorCode.INVALID_REQUIRED_ACKS)
        return (yield from finish(repeat(refused, len(requested))))
    parts = []
    for first in range(0, max(1, len(sent)), PARTITIONS_AT_ONCE):
        part = sent[first : first + PARTITIONS_AT_ONCE]
        parts.append(
            context.broker.produce(
                part,
                acks=acks,
                timeout_ms=bounded(request["timeout_ms"], context.settings.wait_max_ms),
                codec_max=ZSTD if version >= FIRST_VERSION_WITH_ZSTD else LZ4,
            )
        )
        yield from spend(len(part))
    result = parts[0] if len(parts) == 1 else _all(parts)
    return DeferredResponse(
        result=result, finish=finish, may_cancel=False, acks_count=len(requested)
    )


def _refusal(request: Message) -> Turns[ErrorCode]:
    """Return the error that the request gets before its acks are looked at."""
    if (yield from names_a_partition_twice(request)):
        return ErrorCode.INVALID_REQUEST
    if request["transactional_id"] is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


async def _all(parts: Sequence[Awaitable[Sequence[ProducedPartition]]]) -> list[ProducedPartition]:
    """Return the outcomes of all parts in their order; acks come in any order."""
    return [each for part in parts for each in await part]


def _response(
    context: RequestContext,
    requested: Sequence[tuple[str, int]],
    acks: Acks | None,
    produced: Iterable[ProducedPartition],
) -> Turns[Response]:
    """Return the outcomes, ordered and grouped as the request was.

    Shape:   produced has the outcome of each of `requested` (topic name and partition), in order
    """
    hints = LeaderHints(context.metadata)
    topics: dict[str, list[Message]] = {}
    error = ErrorCode.NONE
    for (topic_name, partition), outcome in zip(requested, produced, strict=True):
        topics.setdefault(topic_name, []).append(
            {
                "index": partition,
                "error_code": outcome.error,
                "base_offset": outcome.base_offset,
                "log_start_offset": outcome.log_start_offset,
                "record_errors": (),
                "error_message": outcome.message,
                "current_leader": hints.of(topic_name, partition, outcome.error),
            }
        )
        if error is ErrorCode.NONE:
            error = outcome.error
        yield
    if acks is Acks.NONE:
        return Response(body=None, error=error, closes_connection=error is not ErrorCode.NONE)
    body: Message = {
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "node_endpoints": hints.endpoints(),
    }
    return Response(body=body, error=error)
