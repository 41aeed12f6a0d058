"""Produce and Fetch: the two requests that carry records.

Registered in `handlers`. Records are handed through as they are; of a produced batch only the
fields outside its records are looked at. What the log must judge (CRC, size, sequence) is the
broker's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from strandline.broker_interface import (
    FetchedPartitionData,
    FetchPartitionRequest,
    ProducedPartition,
    ProducePartition,
)
from strandline.errors import ErrorCode
from strandline.model import Acks

from .addresses import LeaderHints
from .offset_requests import known_epoch
from .reply import Later, Reply, RequestContext, first_error
from .wire import Message

RECORD_BATCH_HEADER_BYTES = 61
BYTES_BEFORE_BATCH_LENGTH_COUNTS = 12
MAGIC_POSITION = 16
MAGIC = 2
COMPRESSION_MASK = 0x07
ZSTD = 4
TRANSACTIONAL_OR_CONTROL_MASK = 0x30
FIRST_PRODUCE_VERSION_WITH_ZSTD = 7

NO_SESSION = 0
SESSION_EPOCHS_OF_FULL_FETCH = frozenset({-1, 0})
READ_COMMITTED = 1

_BATCH_FIELDS = struct.Struct(">iibIh")
"""From byte 8: batch length, leader epoch, magic, CRC, attributes."""

_ACKS = {acks.value: acks for acks in Acks}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """One partition of a produce request; refusal NONE means that the broker decides."""

    topic_name: str
    partition: int
    refusal: ErrorCode


def _bounded(value: int, most: int) -> int:
    """Return what a client asked for, neither negative nor more than we allow."""
    return max(0, min(value, most))


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


def produce(context: RequestContext, version: int, request: Message) -> Reply | Later:
    """Append what may be appended, now; answer when it is acknowledged.

    acks=0 has no answer; an error then closes the connection, the only sign a client can get.
    """
    acks = _ACKS.get(request["acks"])
    refusal = ErrorCode.NONE
    if request["transactional_id"] is not None:
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif acks is None:
        refusal = ErrorCode.INVALID_REQUIRED_ACKS
    slots: list[_Slot] = []
    batches: list[ProducePartition] = []
    for topic in request["topics"]:
        for partition in topic["partitions"]:
            records = partition["records"]
            refused = refusal or check_batch(records, version)
            slots.append(
                _Slot(topic_name=topic["name"], partition=partition["index"], refusal=refused)
            )
            if refused is ErrorCode.NONE:
                batches.append(
                    ProducePartition(
                        topic_name=topic["name"], partition=partition["index"], batch=records
                    )
                )

    def finish(produced: Sequence[ProducedPartition]) -> Reply:
        return _produce_reply(context, slots, produced, acks)

    if not batches or acks is None:
        return finish(())
    timeout_ms = _bounded(request["timeout_ms"], context.settings.wait_max_ms)
    result = context.broker.produce(batches, acks=acks, timeout_ms=timeout_ms)
    return Later(result=result, finish=finish, may_cancel=False)


def _produce_reply(
    context: RequestContext,
    slots: Sequence[_Slot],
    produced: Sequence[ProducedPartition],
    acks: Acks | None,
) -> Reply:
    """Join refusals and outcomes in the order of the request, grouped as it was."""
    outcomes = iter(produced)
    hints = LeaderHints(context)
    topics: dict[str, list[Message]] = {}
    errors: list[ErrorCode] = []
    for slot in slots:
        outcome = ProducedPartition(error=slot.refusal) if slot.refusal else next(outcomes)
        errors.append(outcome.error)
        topics.setdefault(slot.topic_name, []).append(
            {
                "index": slot.partition,
                "error_code": outcome.error,
                "base_offset": outcome.base_offset,
                "log_start_offset": outcome.log_start_offset,
                "record_errors": (),
                "error_message": outcome.message,
                "current_leader": hints.of(slot.topic_name, slot.partition, outcome.error),
            }
        )
    error = first_error(errors)
    if acks is Acks.NONE:
        return Reply(body=None, error=error, closes_connection=error is not ErrorCode.NONE)
    body: Message = {
        "topics": [{"name": name, "partitions": answers} for name, answers in topics.items()],
        "node_endpoints": hints.endpoints(),
    }
    return Reply(body=body, error=error)


def fetch(context: RequestContext, _version: int, request: Message) -> Reply | Later:
    """Read below the high watermark, waiting as long as the client allows.

    Sessions are not kept: the answer carries session id 0, after which clients send every
    partition again. A follower does not fetch here.
    """
    if request["replica_id"] >= 0:
        return _fetch_refusal(request, ErrorCode.INVALID_REQUEST)
    is_full = request["session_epoch"] in SESSION_EPOCHS_OF_FULL_FETCH
    if request["session_id"] != NO_SESSION and not is_full:
        return _fetch_refusal(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    partitions = [
        FetchPartitionRequest(
            topic_name=topic["name"],
            partition=partition["index"],
            fetch_offset=partition["fetch_offset"],
            max_bytes=max(0, partition["partition_max_bytes"]),
            leader_epoch=known_epoch(partition["current_leader_epoch"]),
            last_fetched_epoch=known_epoch(partition["last_fetched_epoch"]),
        )
        for topic in request["topics"]
        for partition in topic["partitions"]
    ]

    def finish(fetched: Sequence[FetchedPartitionData]) -> Reply:
        return _fetch_reply(context, request, fetched)

    result = context.broker.fetch(
        partitions,
        max_wait_ms=_bounded(request["max_wait_ms"], context.settings.wait_max_ms),
        min_bytes=max(0, request["min_bytes"]),
        max_bytes=_bounded(request["max_bytes"], context.settings.fetch_max_bytes),
    )
    return Later(result=result, finish=finish, may_cancel=True)


def _fetch_refusal(request: Message, error: ErrorCode) -> Reply:
    """Refuse a whole fetch: at the top for versions that have that place, and per partition."""
    topics = [
        {
            "name": topic["name"],
            "partitions": [
                _fetched_message(partition["index"], FetchedPartitionData(error=error))
                for partition in topic["partitions"]
            ],
        }
        for topic in request["topics"]
    ]
    return Reply(body={"error_code": error, "topics": topics}, error=error)


def _fetched_message(index: int, data: FetchedPartitionData) -> Message:
    """Answer one partition; without transactions the last stable offset is the high watermark."""
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


def _fetch_reply(
    context: RequestContext, request: Message, fetched: Sequence[FetchedPartitionData]
) -> Reply:
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
    return Reply(body={"topics": topics}, error=first_error(data.error for data in fetched))
