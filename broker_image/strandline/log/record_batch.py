"""Read the 61-byte header of record batches v2; check them; stamp offset and epoch.

Called by `runtime` on batches of clients and leaders, and by the other modules of this package on
batches on disk. Records are never decoded: the header has everything that replication needs. The
CRC does not cover base offset and leader epoch, so a batch goes from the client to every disk and
to the consumer without being re-encoded or re-summed.

Source: Kafka DefaultRecordBatch (layout), LogValidator and ProduceRequest.validateRecords
(what a client may send).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from strandline.broker_interface import Buffer
from strandline.errors import CorruptBatch, ErrorCode, InvariantViolation, ProtocolError
from strandline.model import BatchSpan, LeaderEpoch, TopicPartition

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""Base offset and batch length; the length counts the bytes after them."""
STAMP_BYTES = 16
"""Base offset, batch length, leader epoch: the prefix that a leader writes anew."""
MAGIC_POSITION = 16
MAGIC_V2 = 2
CRC_FROM = 21
NO_PRODUCER_ID = -1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
NOT_FOR_CLIENTS = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT

SEQUENCE_MASK = (1 << 31) - 1
"""Sequence numbers wrap from 2^31 - 1 to 0."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_STAMP = struct.Struct(">qii")


class BatchHeader(NamedTuple):
    """The fields of a batch in the order of the wire.

    A tuple and not a frozen dataclass: every path makes one for every batch, and a tuple costs a
    fifth. base_offset and base_sequence are those of the first record.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LENGTH_PREFIX_BYTES

    @property
    def next_offset(self) -> int:
        """Offset after the last record; the record count is never used for offsets."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record."""
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def codec(self) -> int:
        """Compression codec of the records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def span(self) -> BatchSpan:
        """The batch as the core sees it."""
        return BatchSpan(
            base_offset=self.base_offset,
            next_offset=self.next_offset,
            leader_epoch=LeaderEpoch(self.leader_epoch),
        )


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at a position without copying; the batch itself may end beyond the buffer.

    Raises:  CorruptBatch if the header is cut, of another magic, or shows impossible sizes
    """
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(problem="batch header is cut", bytes_left=len(buffer) - position)
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC_V2:
        raise CorruptBatch(problem="magic is not 2", magic=header.magic)
    if header.length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
        raise CorruptBatch(problem="batch length is below the header", length=header.length)
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise CorruptBatch(
            problem="an offset is negative",
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
        )
    return header


def pack_header(header: BatchHeader) -> bytes:
    """Return the bytes that `parse_header` reads."""
    return _HEADER.pack(*header)


def check_crc(header: BatchHeader, buffer: Buffer, position: int = 0) -> None:
    """Compare the stored CRC-32C with that of the bytes from attributes to the end.

    Shape:   the whole batch lies in the buffer
    Raises:  CorruptBatch if they differ
    """
    view = memoryview(buffer)
    actual = crc32c(view[position + CRC_FROM : position + header.size_bytes])
    if actual != header.crc:
        raise CorruptBatch(problem="CRC-32C differs", stored=header.crc, actual=actual)


class FetchedBatches(NamedTuple):
    """The checked batches of a leader, one behind the other; `read_fetched` makes them."""

    headers: tuple[BatchHeader, ...]
    buffer: Buffer

    @property
    def spans(self) -> tuple[BatchSpan, ...]:
        """The batches as the core sees them."""
        return tuple(header.span for header in self.headers)


def read_fetched(buffer: Buffer) -> FetchedBatches:
    """Check every batch that a leader sent, CRC included.

    Raises:  CorruptBatch at the first one that is malformed, cut, or of another CRC
    Source:  KAFKA-18723: a follower checks before it appends
    """
    headers: list[BatchHeader] = []
    position, end = 0, len(buffer)
    while position < end:
        header = parse_header(buffer, position)
        if position + header.size_bytes > end:
            raise CorruptBatch(problem="batch is cut", position=position, size=header.size_bytes)
        check_crc(header, buffer, position)
        headers.append(header)
        position += header.size_bytes
    return FetchedBatches(tuple(headers), buffer)


class ClientBatch(NamedTuple):
    """Exactly one batch, as a client sent it; `read_client_batch` makes it."""

    header: BatchHeader
    buffer: Buffer


def read_client_batch(buffer: Buffer) -> ClientBatch:
    """Read the header of a buffer that must be exactly one batch, without checking its values.

    Raises:  ProtocolError with Kafka's code for the fault
    Source:  ProduceRequest.validateRecords
    """
    if len(buffer) > MAGIC_POSITION and buffer[MAGIC_POSITION] in {0, 1}:
        raise ProtocolError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, magic=buffer[MAGIC_POSITION])
    if len(buffer) < HEADER_BYTES or buffer[MAGIC_POSITION] != MAGIC_V2:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD, problem="not a record batch v2", size=len(buffer)
        )
    header = parse_header(buffer)
    if header.size_bytes > len(buffer):
        raise CorruptBatch(problem="batch is cut", size=header.size_bytes, got=len(buffer))
    if header.size_bytes < len(buffer):
        raise ProtocolError(
            ErrorCode.INVALID_RECORD, problem="more than one batch", size=header.size_bytes
        )
    return ClientBatch(header, buffer)


def check_client_batch(
    batch: ClientBatch, *, codec_max: int, message_max_bytes: int, segment_max_bytes: int
) -> None:
    """Check that a batch may be appended: its sizes, its CRC, then the values of its header.

    Shape:   codec_max is the highest codec that the version of the client's request knows
    Raises:  ProtocolError with Kafka's code for the fault
    Source:  LogValidator, UnifiedLog.append
    """
    header = batch.header
    if header.size_bytes > message_max_bytes:
        raise ProtocolError(
            ErrorCode.MESSAGE_TOO_LARGE, size=header.size_bytes, accepted=message_max_bytes
        )
    if header.size_bytes > segment_max_bytes:
        raise ProtocolError(
            ErrorCode.RECORD_LIST_TOO_LARGE, size=header.size_bytes, accepted=segment_max_bytes
        )
    check_crc(header, batch.buffer)
    if header.attributes & NOT_FOR_CLIENTS:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD,
            problem="attribute bits a producer must not set",
            attributes=header.attributes,
        )
    if header.codec > codec_max:
        raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, codec=header.codec)
    if header.records_count != header.last_offset_delta + 1:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD,
            problem="record count and last offset delta differ",
            records_count=header.records_count,
            last_offset_delta=header.last_offset_delta,
        )
    if header.producer_id == NO_PRODUCER_ID:
        # Some clients without a producer id leave epoch and sequence 0; both are ignored then.
        return
    if min(header.producer_id, header.producer_epoch, header.base_sequence) < 0:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD,
            problem="producer id, epoch and sequence do not fit together",
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )


def stamp(header: BatchHeader, buffer: Buffer) -> list[Buffer]:
    """Return a batch with the header's offset and epoch: a new prefix and a view of the rest."""
    prefix = _STAMP.pack(header.base_offset, header.length, header.leader_epoch)
    return [prefix, memoryview(buffer)[STAMP_BYTES:]]


def check_follows(
    header: BatchHeader, next_offset: int, last_epoch: int, tp: TopicPartition
) -> None:
    """Stop the broker if a batch does not lie at the log end, under the last epoch or a later."""
    if header.base_offset != next_offset or header.leader_epoch < last_epoch:
        raise InvariantViolation(
            "a batch is appended at the log end, under the present epoch",
            base_offset=header.base_offset,
            log_end_offset=next_offset,
            leader_epoch=header.leader_epoch,
            last_epoch=last_epoch,
            partition=str(tp),
        )
