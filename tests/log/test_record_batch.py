"""Batch headers are parsed as kafka-python writes them, and refused with Kafka's error codes."""

from __future__ import annotations

import struct
from functools import partial

import pytest

from strandline.errors import CorruptBatch, ErrorCode, ProtocolError
from strandline.log.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    check_client_batch,
    parse_header,
    read_client_batch,
    read_fetched,
    stamp,
)
from tests.log.support.batches import batch, stamped
from tests.log.support.kafka_python import DefaultRecordBatch, DefaultRecordBatchBuilder

GZIP = 1


def check(
    source: bytes | bytearray | memoryview,
    *,
    codec_max: int = 4,
    message_max_bytes: int = 1000,
    segment_max_bytes: int = 1 << 30,
) -> BatchHeader:
    """Read and check a client's batch as the broker does; return its header."""
    sent = read_client_batch(source)
    check_client_batch(
        sent,
        codec_max=codec_max,
        message_max_bytes=message_max_bytes,
        segment_max_bytes=segment_max_bytes,
    )
    return sent.header


def kafka_batch(*, codec: int, records: int, producer: tuple[int, int, int] | None) -> bytes:
    """Let kafka-python encode a batch."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for delta in range(records):
        builder.append(
            delta, timestamp=1_700_000_000_000 + delta, key=b"k", value=b"v" * 50, headers=[]
        )
    if producer is not None:
        builder.set_producer_state(*producer, False)
    return bytes(builder.build())


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("records", [1, 7, 300])
@pytest.mark.parametrize("producer", [None, (281474976710656, 0, 5)])
def test_header_agrees_with_kafka_python(
    codec: int, records: int, producer: tuple[int, int, int] | None
) -> None:
    source = kafka_batch(codec=codec, records=records, producer=producer)
    theirs = DefaultRecordBatch(bytearray(source))
    ours = check(source, message_max_bytes=1 << 20)
    assert ours.base_offset == theirs.base_offset
    assert ours.size_bytes == theirs.size_in_bytes == len(source)
    assert ours.next_offset == theirs.next_offset == records
    assert ours.crc == theirs.crc
    assert ours.codec == theirs.compression_type == codec
    assert ours.max_timestamp == theirs.max_timestamp
    assert ours.producer_id == theirs.producer_id
    assert ours.base_sequence == theirs.base_sequence
    assert ours.records_count == theirs.records_count == records
    if producer is not None:
        assert ours.last_sequence == theirs.last_sequence


def test_stamped_batch_is_still_valid_for_kafka_python() -> None:
    source = kafka_batch(codec=GZIP, records=4, producer=None)
    header = parse_header(source)._replace(base_offset=1_000_000_007, leader_epoch=9)
    prefix, rest = stamp(header, source)
    assert isinstance(rest, memoryview)
    assert rest.obj is source, "the records must not be copied"
    theirs = DefaultRecordBatch(bytearray(bytes(prefix) + bytes(rest)))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.leader_epoch) == (1_000_000_007, 9)
    assert [r.offset for r in theirs] == list(range(1_000_000_007, 1_000_000_011))


def test_our_test_encoder_agrees_with_kafka_python() -> None:
    theirs = DefaultRecordBatch(bytearray(batch([b"a", b"bc"], base_offset=4, leader_epoch=2)))
    assert theirs.validate_crc()
    assert [(r.offset, r.value) for r in theirs] == [(4, b"a"), (5, b"bc")]


def flipped(source: bytes, position: int) -> bytes:
    return source[:position] + bytes([source[position] ^ 0x40]) + source[position + 1 :]


of_producer = partial(batch, producer_id=7, producer_epoch=0, base_sequence=0)
GOOD = of_producer([b"one", b"two"])
OLD = GOOD[:16] + b"\x01" + GOOD[17:]

REFUSED = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "half a header": (GOOD[:40], ErrorCode.INVALID_RECORD),
    "header without records": (GOOD[:HEADER_BYTES], ErrorCode.CORRUPT_MESSAGE),
    "one byte short": (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
    "one byte more": (GOOD + b"\x00", ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "magic 0": (GOOD[:16] + b"\x00" + GOOD[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "magic 1": (OLD, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "magic 1, short": (OLD[:30], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "magic 3": (GOOD[:16] + b"\x03" + GOOD[17:], ErrorCode.INVALID_RECORD),
    "length 0": (GOOD[:8] + bytes(4) + GOOD[12:], ErrorCode.CORRUPT_MESSAGE),
    "length negative": (GOOD[:8] + b"\xff" * 4 + GOOD[12:], ErrorCode.CORRUPT_MESSAGE),
    "stored crc flipped": (flipped(GOOD, 18), ErrorCode.CORRUPT_MESSAGE),
    "attributes flipped": (flipped(GOOD, 22), ErrorCode.CORRUPT_MESSAGE),
    "last byte flipped": (flipped(GOOD, len(GOOD) - 1), ErrorCode.CORRUPT_MESSAGE),
    "negative offset": (struct.pack(">q", -1) + GOOD[8:], ErrorCode.CORRUPT_MESSAGE),
    "too large": (batch([b"x" * 2000]), ErrorCode.MESSAGE_TOO_LARGE),
    "control": (batch([b"x"], attributes=0x20), ErrorCode.INVALID_RECORD),
    "transactional": (of_producer([b"x"], attributes=0x10), ErrorCode.INVALID_RECORD),
    "append time": (batch([b"x"], attributes=0x08), ErrorCode.INVALID_RECORD),
    "delete horizon": (batch([b"x"], attributes=0x40), ErrorCode.INVALID_RECORD),
    "codec 5": (batch([b"x"], attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "count above delta": (batch([b"x"], records_count=2), ErrorCode.INVALID_RECORD),
    "delta above count": (batch([b"x"], last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "no records": (batch([], last_offset_delta=0), ErrorCode.INVALID_RECORD),
    "negative delta": (batch([]), ErrorCode.CORRUPT_MESSAGE),
    "producer without epoch": (
        batch([b"x"], producer_id=7, base_sequence=0),
        ErrorCode.INVALID_RECORD,
    ),
    "producer without sequence": (
        batch([b"x"], producer_id=7, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "producer below none": (batch([b"x"], producer_id=-2), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_refused_batch_names_its_code(
    name: str, kind: type[bytes | bytearray | memoryview]
) -> None:
    source, code = REFUSED[name]
    with pytest.raises(ProtocolError) as refusal:
        check(kind(source))
    assert refusal.value.code is code


ACCEPTED = {
    "idempotent": GOOD,
    "plain": batch([b"x"]),
    "zstd": batch([b"x"], attributes=4),
    "no producer id, but a sequence as some clients send": batch([b"x"], base_sequence=0),
    "largest": batch([b"x" * 925]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_batch(name: str) -> None:
    source = ACCEPTED[name]
    assert check(memoryview(source)).size_bytes == len(source)


def test_a_codec_above_that_of_the_request_version_is_refused() -> None:
    for codec in range(5):
        check(batch([b"x"], attributes=codec), codec_max=codec)
    for codec in range(1, 5):
        with pytest.raises(ProtocolError) as refusal:
            check(batch([b"x"], attributes=codec), codec_max=codec - 1)
        assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_largest_accepted_is_exactly_the_limit() -> None:
    source = ACCEPTED["largest"]
    check(source, message_max_bytes=len(source))
    with pytest.raises(ProtocolError) as refusal:
        check(source, message_max_bytes=len(source) - 1)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_larger_than_a_segment_is_refused() -> None:
    with pytest.raises(ProtocolError) as refusal:
        check(GOOD, segment_max_bytes=len(GOOD) - 1)
    assert refusal.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_every_flipped_byte_within_the_crc_is_found() -> None:
    for position in [8, 9, 10, 11, *range(16, len(GOOD))]:
        with pytest.raises(ProtocolError):
            check(flipped(GOOD, position))


def test_followers_walk_gives_every_span() -> None:
    first = batch([b"a"] * 3, base_offset=10, leader_epoch=1)
    second = batch([b"b"], base_offset=13, leader_epoch=2)
    fetched = read_fetched(memoryview(first + second))
    assert [(s.base_offset, s.next_offset, s.leader_epoch) for s in fetched.spans] == [
        (10, 13, 1),
        (13, 14, 2),
    ]
    assert [header.size_bytes for header in fetched.headers] == [len(first), len(second)]
    assert read_fetched(b"").spans == ()


@pytest.mark.parametrize("cut", [1, 30, 61, 62])
def test_followers_walk_refuses_a_cut_batch(cut: int) -> None:
    source = batch([b"a"]) + stamped(batch([b"b"]), base_offset=1, leader_epoch=0)
    with pytest.raises(CorruptBatch):
        read_fetched(source[:-cut])


def test_followers_walk_checks_the_crc_of_later_batches() -> None:
    source = batch([b"a"]) + stamped(batch([b"b"]), base_offset=1, leader_epoch=0)
    with pytest.raises(CorruptBatch):
        read_fetched(flipped(source, len(source) - 2))


def test_parse_reads_at_a_position() -> None:
    assert parse_header(b"xyz" + GOOD, 3) == parse_header(GOOD)
