"""Produce: append record batches.

Registered in `handlers`. Records are handed through as they are; of a batch only the fields
outside its records are looked at. What the log must judge (CRC, size, sequence) is the
broker's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from strandline.broker_interface import (
    ProducedPartition,
    ProducePartition,
)
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import LeaderHints
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    bounded,
    first_error,
)
from strandline.kafka_listener.wire import Message
from strandline.model import Acks

RECORD_BATCH_HEADER_BYTES = 61
BYTES_BEFORE_BATCH_LENGTH_COUNTS = 12
MAGIC_POSITION = 16
MAGIC = 2
COMPRESSION_MASK = 0x07
ZSTD = 4
TRANSACTIONAL_OR_CONTROL_MASK = 0x30
FIRST_PRODUCE_VERSION_WITH_ZSTD = 7

_BATCH_FIELDS = struct.Struct(">iibIh")
"""From byte 8: batch length, leader epoch, magic, CRC, attributes."""

_ACKS = {acks.value: acks for acks in Acks}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestedPartition:
    """One partition of a produce request; with error NONE its batch goes to the broker."""

    topic_name: str
    partition: int
    error: ErrorCode


def check_batch(records: memoryview | None, version: int) -> ErrorCode:
    """Return why records are not exactly one batch this broker takes, NONE if they are.

    Source: Kafka ProduceRequest.validateRecords; old formats as UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    if records is None or len(records) <= MAGIC_POSITION:
        return ErrorCode.INVALID_RECORD
    magic = records[MAGIC_POSITION]
    if magic < MAGIC:
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    if magic != MAGIC or len(records) < RECORD_BATCH_HEADER_BYTES:
        return ErrorCode.INVALID_RECORD
    length, _, _, _, attributes = _BATCH_FIELDS.unpack_from(records, 8)
    size = length + BYTES_BEFORE_BATCH_LENGTH_COUNTS
    if size != len(records):
        # Longer than declared is a second batch; shorter was cut on its way.
        return ErrorCode.INVALID_RECORD if size < len(records) else ErrorCode.CORRUPT_MESSAGE
    if attributes & TRANSACTIONAL_OR_CONTROL_MASK:
        return ErrorCode.INVALID_RECORD
    if attributes & COMPRESSION_MASK == ZSTD and version < FIRST_PRODUCE_VERSION_WITH_ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.NONE


def produce(context: RequestContext, version: int, request: Message) -> Response | DeferredResponse:
    """Append what may be appended, now; respond when it is acknowledged.

    acks=0 has no response; an error then closes the connection, the only sign a client can get.
    """
    acks = _ACKS.get(request["acks"])
    request_error = ErrorCode.NONE
    if request["transactional_id"] is not None:
        request_error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif acks is None:
        request_error = ErrorCode.INVALID_REQUIRED_ACKS
    requested: list[_RequestedPartition] = []
    batches: list[ProducePartition] = []
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            records = partition["records"]
            error = request_error or check_batch(records, version)
            requested.append(
                _RequestedPartition(
                    topic_name=topic["name"], partition=partition["index"], error=error
                )
            )
            if error is ErrorCode.NONE:
                batches.append(
                    ProducePartition(
                        topic_name=topic["name"], partition=partition["index"], batch=records
                    )
                )

    def finish(produced: Sequence[ProducedPartition]) -> Response:
        return _produce_response(context, requested, produced, acks)

    if not batches or acks is None:
        return finish(())
    timeout_ms = bounded(request["timeout_ms"], context.settings.wait_max_ms)
    result = context.broker.produce(batches, acks=acks, timeout_ms=timeout_ms)
    return DeferredResponse(result=result, finish=finish, may_cancel=False)


def _produce_response(
    context: RequestContext,
    requested: Sequence[_RequestedPartition],
    produced: Sequence[ProducedPartition],
    acks: Acks | None,
) -> Response:
    """Join errors found here and the broker's outcomes, ordered and grouped as the request was."""
    outcomes = iter(produced)
    hints = LeaderHints(context)
    topics: dict[str, list[Message]] = {}
    errors: list[ErrorCode] = []
    for partition in requested:
        outcome = ProducedPartition(error=partition.error) if partition.error else next(outcomes)
        errors.append(outcome.error)
        topics.setdefault(partition.topic_name, []).append(
            {
                "index": partition.partition,
                "error_code": outcome.error,
                "base_offset": outcome.base_offset,
                "log_start_offset": outcome.log_start_offset,
                "record_errors": (),
                "error_message": outcome.message,
                "current_leader": hints.of(
                    partition.topic_name, partition.partition, outcome.error
                ),
            }
        )
    error = first_error(errors)
    if acks is Acks.NONE:
        return Response(body=None, error=error, closes_connection=error is not ErrorCode.NONE)
    body: Message = {
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "node_endpoints": hints.endpoints(),
    }
    return Response(body=body, error=error)
