"""Find the first record of a batch that reaches a timestamp.

Called by `time_search`. Records are read as far as their offset and timestamp; the bytes of the
batch bound every length. Without compression and with gzip the answer is the record. The codecs
that Python lacks are not unpacked: the batch then counts as one record with its greatest timestamp,
so that a reader gets records before the one that it asked for, and misses none (ADR 0042).

Source: Kafka DefaultRecord (layout), ByteUtils.readVarint (zig-zag numbers).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from strandline.broker_interface import Buffer
from strandline.model import LeaderEpoch

from .record_batch import HEADER_BYTES, BatchHeader

UNPACKED_MAX_BYTES = 4 << 20
"""Bytes of a compressed batch's records that a search unpacks."""
RECORDS_READ_MAX = 16_384
"""Records of a batch that a search reads, about 20 ms; behind them it answers the next one."""
UNCOMPRESSED, GZIP = 0, 1
NUMBER_MAX_BYTES = 10
"""A number takes at most 64 bits, seven in each byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """A record that reaches a timestamp, and the leader epoch of its batch."""

    offset: int
    timestamp_ms: int
    leader_epoch: LeaderEpoch


def first_record(
    header: BatchHeader, batch: Buffer, *, timestamp_ms: int, from_offset: int
) -> FoundRecord | None:
    """Return the first record from an offset on that reaches a timestamp.

    Shape:   the batch's greatest timestamp reaches it, and the batch reaches beyond from_offset
    Returns: None if all records that reach it lie below from_offset. Where the records cannot tell,
             the last offset that none of them precedes, with the batch's greatest timestamp
    """
    unknown_from = header.base_offset
    unpacked = _unpacked(header, batch)
    if unpacked is not None:
        try:
            for offset, time_ms in _times(header, unpacked):
                if offset >= from_offset and time_ms >= timestamp_ms:
                    return _found(header, offset, time_ms)
                unknown_from = offset + 1
        except ValueError:
            # Not records of Kafka's format: the header is all that is known of them.
            unknown_from = header.base_offset
    if unknown_from == header.next_offset:
        # The header promises what no record keeps. Below from_offset one may have kept it.
        return None if header.base_offset < from_offset else _claimed(header, header.base_offset)
    return _claimed(header, max(unknown_from, from_offset))


def _claimed(header: BatchHeader, offset: int) -> FoundRecord:
    return _found(header, offset, header.max_timestamp)


def _found(header: BatchHeader, offset: int, timestamp_ms: int) -> FoundRecord:
    return FoundRecord(
        offset=offset, timestamp_ms=timestamp_ms, leader_epoch=LeaderEpoch(header.leader_epoch)
    )


def _unpacked(header: BatchHeader, batch: Buffer) -> bytes | None:
    """Return the first bytes of a batch's records; None if they cannot be unpacked."""
    records = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.codec == UNCOMPRESSED:
        return bytes(records)
    if header.codec != GZIP:
        return None
    try:
        return zlib.decompressobj(wbits=31).decompress(records, UNPACKED_MAX_BYTES)
    except zlib.error:
        return None


def _times(header: BatchHeader, records: bytes) -> Iterator[tuple[int, int]]:
    """Yield offset and timestamp of each record, up to a bound or the end of the bytes.

    Raises:  ValueError if the bytes are no records; a record that is cut ends them
    """
    position, size = 0, len(records)
    for delta in range(min(header.last_offset_delta + 1, RECORDS_READ_MAX)):
        try:
            length, begin = _number(records, position)
            time_delta_ms, after = _number(records, begin + 1)
            offset_delta, _ = _number(records, after)
        except IndexError:
            return
        if length <= 0 or offset_delta != delta:
            raise ValueError(length, offset_delta)
        position = begin + length
        yield header.base_offset + offset_delta, header.base_timestamp + time_delta_ms
        if position >= size:
            return


def _number(data: bytes, position: int) -> tuple[int, int]:
    """Read a zig-zag number; return it and the position behind it; IndexError if it is cut."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw = 0
    for index in range(NUMBER_MAX_BYTES):
        byte = data[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise ValueError(position)
