"""Produce: append record batches.

Registered in `apis`. Records go to the broker as they are: the broker checks batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from strandline.broker_interface import ProducedPartition, ProducePartition
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import LeaderHints
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    bounded,
    first_error,
    names_a_partition_twice,
)
from strandline.kafka_listener.wire import Message
from strandline.model import Acks

LZ4, ZSTD = 3, 4
"""The highest compression codec before and since FIRST_VERSION_WITH_ZSTD."""
FIRST_VERSION_WITH_ZSTD = 7

_ACKS = {acks.value: acks for acks in Acks}


def produce(context: RequestContext, version: int, request: Message) -> Response | DeferredResponse:
    """Append the batches now; respond when they are acknowledged.

    acks=0 has no response; an error then closes the connection, the only sign for the client.
    """
    acks = _ACKS.get(request["acks"])
    sent = [
        ProducePartition(
            topic_name=topic["name"],
            partition=partition["index"],
            batch=partition["records"] or b"",
        )
        for topic in request["topics"]
        for partition in topic["partitions"]
    ]
    requested = [(each.topic_name, each.partition) for each in sent]
    finish = partial(_response, context, requested, acks)

    def refuse(error: ErrorCode) -> Response:
        return finish([ProducedPartition(error=error)] * len(requested))

    if names_a_partition_twice(request):
        return refuse(ErrorCode.INVALID_REQUEST)
    if request["transactional_id"] is not None:
        return refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if acks is None:
        return refuse(ErrorCode.INVALID_REQUIRED_ACKS)
    result = context.broker.produce(
        sent,
        acks=acks,
        timeout_ms=bounded(request["timeout_ms"], context.settings.wait_max_ms),
        codec_max=ZSTD if version >= FIRST_VERSION_WITH_ZSTD else LZ4,
    )
    return DeferredResponse(
        result=result, finish=finish, may_cancel=False, acks_count=len(requested)
    )


def _response(
    context: RequestContext,
    requested: Sequence[tuple[str, int]],
    acks: Acks | None,
    produced: Sequence[ProducedPartition],
) -> Response:
    """Return the outcomes, ordered and grouped as the request was.

    Shape:   produced[i] is the outcome of requested[i]: topic name and partition
    """
    hints = LeaderHints(context.metadata)
    topics: dict[str, list[Message]] = {}
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
    error = first_error(outcome.error for outcome in produced)
    if acks is Acks.NONE:
        return Response(body=None, error=error, closes_connection=error is not ErrorCode.NONE)
    body: Message = {
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "node_endpoints": hints.endpoints(),
    }
    return Response(body=body, error=error)
