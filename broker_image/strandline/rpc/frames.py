"""Frames of the replication stream: the contents of one gRPC message, byte by byte.

A message is a sequence of frames `[u32 length of the rest | u8 kind | body]`, big endian.
Called by `replication_client` and `replication_server`; knows nothing of sockets. Invariant:
a frame that this module cannot parse completely raises `BadFrame`.

Kinds: FETCH (follower -> leader: the changes of its fetch, see `fetch_session`), RECORDS (leader
-> follower: one partition of a response) and END (the response is complete). A response is several
frames, so that messages of bounded size can carry it without a copy of record bytes.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from strandline.core.effects import LogReadInfo
from strandline.core.fetch_changes import FetchPartition
from strandline.errors import ErrorCode, StrandlineError
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    EpochEndOffset,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)

Buffer = bytes | bytearray | memoryview

FETCH, RECORDS, END = 1, 2, 3
_HEAD = struct.Struct("!IB")
_FETCH = struct.Struct("!QiqqIBQII")  # ..., max wait, without records, session epoch, counts
_CHANGED = struct.Struct("!16siqiiqq")
_FORGOTTEN = struct.Struct("!16si")
_RECORDS = struct.Struct("!Q16sihqqBiq")  # ..., has diverging, diverging epoch, its end
_END = struct.Struct("!Q")

PARTITIONS_PER_FETCH_MAX = 20_000
"""Bound on the partitions that one fetch may change, and on those that it may forget."""
TOPIC_IDS_CACHED_MAX = 10_000
"""Topic ids whose conversion is cached, because each RECORDS frame names its topic again."""


class BadFrame(StrandlineError):
    """A peer sent bytes that are no frame of ours; its stream is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrame:
    """A fetch as its difference from the previous one on the same stream.

    session_epoch counts the fetches of a stream from 0; changed holds new partitions and those
    with another position, forgotten those that the follower no longer fetches.
    """

    request_id: int
    follower: BrokerId
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    max_wait_ms: int
    without_records: bool
    session_epoch: int
    changed: tuple[FetchPartition, ...]
    forgotten: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsFrame:
    """One partition of a response; `records` holds whole batches, possibly none."""

    request_id: int
    tp: TopicPartition
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    diverging: EpochEndOffset | None
    records: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFrame:
    """The response to request_id is complete."""

    request_id: int


Frame = FetchFrame | RecordsFrame | EndFrame


def encode_fetch(fetch: FetchFrame) -> list[Buffer]:
    """Return the frame as a list of buffers to be joined once."""
    body = bytearray(
        _FETCH.pack(
            fetch.request_id,
            fetch.follower,
            fetch.broker_epoch,
            fetch.clean_since_epoch,
            fetch.max_wait_ms,
            fetch.without_records,
            fetch.session_epoch,
            len(fetch.changed),
            len(fetch.forgotten),
        )
    )
    for part in fetch.changed:
        body += _CHANGED.pack(
            _topic_bytes(part.tp.topic_id),
            part.tp.partition,
            part.fetch_offset,
            part.leader_epoch,
            part.last_fetched_epoch,
            part.high_watermark,
            part.log_start_offset,
        )
    for tp in fetch.forgotten:
        body += _FORGOTTEN.pack(_topic_bytes(tp.topic_id), tp.partition)
    return [_HEAD.pack(1 + len(body), FETCH), body]


def encode_records(
    request_id: int, part: LogReadInfo | RecordsFrame, records: Sequence[Buffer]
) -> list[Buffer]:
    """Return the frame of one partition as a list of buffers, records uncopied."""
    diverging = part.diverging
    fixed = _RECORDS.pack(
        request_id,
        _topic_bytes(part.tp.topic_id),
        part.tp.partition,
        part.error,
        part.high_watermark,
        part.log_start_offset,
        0 if diverging is None else 1,
        -1 if diverging is None else diverging.leader_epoch,
        -1 if diverging is None else diverging.end_offset,
    )
    size = sum(map(len, records))
    return [_HEAD.pack(1 + len(fixed) + size, RECORDS), fixed, *records]


def encode_end(request_id: int) -> list[Buffer]:
    """Return the frame that completes a response."""
    return [_HEAD.pack(1 + _END.size, END), _END.pack(request_id)]


def decode(message: Buffer) -> Iterator[Frame]:
    """Yield the frames of one gRPC message; record bytes are slices of it, not copies.

    Raises: BadFrame for anything that is not exactly a sequence of known frames.
    """
    view, size = memoryview(message), len(message)
    position = 0
    while position < size:
        if position + _HEAD.size > size:
            raise BadFrame("a frame header is cut off")
        length, kind = _HEAD.unpack_from(view, position)
        end = position + 4 + length
        if length < 1 or end > size:
            raise BadFrame(f"a frame claims {length} bytes, {size - position - 4} are there")
        body = view[position + _HEAD.size : end]
        try:
            yield _decode_body(kind, body)
        except (struct.error, ValueError) as error:
            raise BadFrame(f"frame of kind {kind}: {error}") from error
        position = end


def _decode_body(kind: int, body: memoryview) -> Frame:
    if kind == RECORDS:
        return _decode_records(body)
    if kind == END and len(body) == _END.size:
        return EndFrame(request_id=_END.unpack(body)[0])
    if kind == FETCH:
        return _decode_fetch(body)
    raise BadFrame(f"unknown frame kind {kind} of {len(body)} bytes")


def _decode_fetch(body: memoryview) -> FetchFrame:
    (
        request_id,
        follower,
        broker_epoch,
        clean_since,
        max_wait,
        without_records,
        session_epoch,
        changed,
        forgotten,
    ) = _FETCH.unpack_from(body)
    if max(changed, forgotten) > PARTITIONS_PER_FETCH_MAX:
        raise BadFrame(
            f"a fetch changes {changed} and forgets {forgotten} partitions, "
            f"at most {PARTITIONS_PER_FETCH_MAX} each"
        )
    changed_end = _FETCH.size + changed * _CHANGED.size
    if len(body) != changed_end + forgotten * _FORGOTTEN.size:
        raise BadFrame(f"a fetch of {changed} and {forgotten} partitions has {len(body)} bytes")
    return FetchFrame(
        request_id=request_id,
        follower=BrokerId(follower),
        broker_epoch=BrokerEpoch(broker_epoch),
        clean_since_epoch=BrokerEpoch(clean_since),
        max_wait_ms=max_wait,
        without_records=bool(without_records),
        session_epoch=session_epoch,
        changed=tuple(map(_fetch_partition, _CHANGED.iter_unpack(body[_FETCH.size : changed_end]))),
        forgotten=tuple(
            _topic_partition(*fields) for fields in _FORGOTTEN.iter_unpack(body[changed_end:])
        ),
    )


def _fetch_partition(fields: tuple[Any, ...]) -> FetchPartition:
    topic, partition, offset, epoch, last_epoch, high_watermark, log_start = fields
    if min(partition, offset, high_watermark, log_start) < 0:
        raise BadFrame("a fetch has a negative partition or offset")
    return FetchPartition(
        tp=_topic_partition(topic, partition),
        fetch_offset=offset,
        leader_epoch=LeaderEpoch(epoch),
        last_fetched_epoch=LeaderEpoch(last_epoch),
        high_watermark=high_watermark,
        log_start_offset=log_start,
    )


def _decode_records(body: memoryview) -> RecordsFrame:
    (request_id, topic, partition, error, high_watermark, log_start, has_diverging, epoch, end) = (
        _RECORDS.unpack_from(body)
    )
    diverging = None
    if has_diverging:
        diverging = EpochEndOffset(leader_epoch=LeaderEpoch(epoch), end_offset=end)
    return RecordsFrame(
        request_id=request_id,
        tp=_topic_partition(topic, partition),
        error=ErrorCode(error),
        high_watermark=high_watermark,
        log_start_offset=log_start,
        diverging=diverging,
        records=body[_RECORDS.size :],
    )


def _topic_partition(topic: bytes, partition: int) -> TopicPartition:
    return TopicPartition(topic_id=_topic_id(topic), partition=partition)


@lru_cache(maxsize=TOPIC_IDS_CACHED_MAX)
def _topic_id(topic: bytes) -> TopicId:
    return TopicId(str(uuid.UUID(bytes=topic)))


@lru_cache(maxsize=TOPIC_IDS_CACHED_MAX)
def _topic_bytes(topic_id: TopicId) -> bytes:
    return uuid.UUID(topic_id).bytes
