"""A tiny encoder of record batches v2, written from Kafka's format and not from our parser."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from crc32c import crc32c


def varint(value: int) -> bytes:
    """Encode a signed number, zig-zag, seven bits a byte."""
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


BASE_TIMESTAMP_MS = 1_700_000_000_000


def record(offset_delta: int, value: bytes, *, time_delta_ms: int = 0) -> bytes:
    """Encode one record without key and headers."""
    body = b"\x00" + varint(time_delta_ms) + varint(offset_delta) + varint(-1)
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    values: list[bytes],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    magic: int = 2,
    last_offset_delta: int | None = None,
    records_count: int | None = None,
    max_timestamp_ms: int = BASE_TIMESTAMP_MS,
    timestamps_ms: Sequence[int] = (),
    pack: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """Encode one batch; last_offset_delta and records_count replace the true ones in its header.

    timestamps_ms has one for each record, and then its greatest is that of the header; pack
    compresses the records.
    """
    count = len(values)
    times = timestamps_ms or [BASE_TIMESTAMP_MS] * max(count, 1)
    records = b"".join(
        record(delta, value, time_delta_ms=times[delta] - times[0])
        for delta, value in enumerate(values)
    )
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        times[0],
        max(timestamps_ms) if timestamps_ms else max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count if records_count is None else records_count,
    ) + pack(records)
    length = 4 + 1 + 4 + len(covered)
    prefix = struct.pack(">qiibI", base_offset, length, leader_epoch, magic, crc32c(covered))
    return prefix + covered


def stamped(source: bytes, *, base_offset: int, leader_epoch: int) -> bytes:
    """Return a batch with this base offset and leader epoch, as a leader stores it."""
    return (
        struct.pack(">q", base_offset)
        + source[8:12]
        + struct.pack(">i", leader_epoch)
        + source[16:]
    )
