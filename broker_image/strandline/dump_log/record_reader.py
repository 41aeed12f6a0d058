"""Decodes the records of a batch; brokers never do.

Called by `log_reader`. The bytes of the batch bound every length, so a damaged batch ends in an
error and not in a loop or a large allocation.

Source: Kafka DefaultRecord (layout), ByteUtils.readVarint (zig-zag numbers).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from strandline.broker_interface import Buffer
from strandline.errors import CorruptBatch
from strandline.log.record_batch import HEADER_BYTES, BatchHeader

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the compression codecs by their number."""
GZIP = 1
UNPACKED_MAX_BYTES = 64 << 20
"""Bound of a batch's records once decompressed."""
NUMBER_MAX_BYTES = 10
"""A number takes at most 64 bits, seven in each byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; key and value are None where the client sent none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Unreadable(CorruptBatch):
    """The records are compressed by a codec that this reader does not know."""


def codec_name(header: BatchHeader) -> str:
    """Return the name of a batch's codec, its number if it has none."""
    return CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec)


def read_records(header: BatchHeader, batch: Buffer) -> list[Record]:
    """Return the records of a whole batch.

    Raises:  Unreadable for a codec other than none and gzip; CorruptBatch if the records
             are not as many, or not of the lengths, that the batch says
    """
    data = bytes(batch[HEADER_BYTES : header.size_bytes])
    if header.codec == GZIP:
        data = _gunzip(data)
    elif header.codec:
        raise Unreadable(problem="records are compressed", codec=codec_name(header))
    records = list(_records(header, data))
    if len(records) != header.records_count:
        raise CorruptBatch(
            problem="number of records differs", told=header.records_count, found=len(records)
        )
    return records


def _gunzip(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(data, UNPACKED_MAX_BYTES)
    except zlib.error as error:
        raise CorruptBatch(problem="records are not gzip", cause=str(error)) from error
    if not unpacker.eof:
        raise CorruptBatch(problem="compressed records are cut or too large")
    return unpacked


def _records(header: BatchHeader, data: bytes) -> Iterator[Record]:
    reader = _FieldReader(data)
    while reader.position < len(data):
        length = reader.number()
        end = reader.position + length
        if length < 0 or end > len(data):
            raise CorruptBatch(problem="record is cut", length=length)
        reader.take(1)  # attributes: unused by Kafka
        timestamp_ms = header.base_timestamp + reader.number()
        offset = header.base_offset + reader.number()
        key, value = reader.nullable(), reader.nullable()
        headers = tuple(
            ((reader.nullable() or b"").decode(errors="replace"), reader.nullable())
            for _ in range(reader.count())
        )
        if reader.position != end:
            raise CorruptBatch(problem="record length differs", offset=offset, length=length)
        yield Record(
            offset=offset, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers
        )


class _FieldReader:
    """A position in the bytes of a batch's records; never passes their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self.position:
            raise CorruptBatch(problem="field is cut", length=length)
        self.position += length
        return self._data[self.position - length : self.position]

    def number(self) -> int:
        """Read a zig-zag number: the lowest bit is the sign."""
        raw = 0
        for index in range(NUMBER_MAX_BYTES):
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
        raise CorruptBatch(problem="number without an end")

    def count(self) -> int:
        """Read the number of elements that follow; each takes at least a byte."""
        count = self.number()
        if not 0 <= count <= len(self._data) - self.position:
            raise CorruptBatch(problem="impossible count", count=count)
        return count

    def nullable(self) -> bytes | None:
        """Read bytes behind their length, -1 for none."""
        length = self.number()
        return None if length == -1 else self.take(length)
