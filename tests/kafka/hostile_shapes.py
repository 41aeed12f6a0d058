"""Requests that an attacker would send: each the largest or the strangest of its shape.

The sizes are beyond or right at the listener's bounds, so that the work of a shape is the most that
one request can cause.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from strandline.kafka_listener import schemas
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.wire import Message, write_varint
from tests.kafka.wire_client import request_bytes

ELEMENTS = 5_000
"""Elements that the tests' listener lets in: fewer than the shipped bound, to be done sooner."""
INT32_MAX = 2**31 - 1
MIB = 1 << 20

Shape = tuple[str, bytes]
"""Name and bytes."""


def all_shapes(elements: int = ELEMENTS) -> Iterator[Shape]:
    """Yield every shape against a listener that lets so many elements in."""
    yield from _frames()
    yield from _counts(elements)
    yield from _tagged_fields(elements)
    yield from _produces(elements)
    yield from _fetches(elements)
    yield from _offsets(elements)
    yield from _metadata(elements)
    yield from _others(elements)


def framed(api_key: int, version: int, rest: bytes, *, client: bytes = b"\x00\x00") -> bytes:
    """Return a frame with a header and bytes that need not be a message."""
    frame = struct.pack(">hhi", api_key, version, 1) + client + rest
    return struct.pack(">i", len(frame)) + frame


def request(api_key: int, version: int, message: Message) -> bytes:
    return request_bytes(api_key, version, message, correlation_id=1)


def topics(partitions: list[Message], *, name: str = "orders") -> list[Message]:
    return [{"name": name, "partitions": partitions}]


def _frames() -> Iterator[Shape]:
    for length in (0, -1, 7, INT32_MAX, ListenerSettings().request_max_bytes + 1):
        yield f"frame length {length}", struct.pack(">i", length) + bytes(8)
    announced = struct.pack(">ihhi", 10 * MIB, schemas.PRODUCE, 9, 1)
    yield "a frame that does not come to its end", announced + bytes(65_536)
    yield "a large frame without records", struct.pack(">ihhi", 50 * MIB, schemas.FETCH, 11, 1)
    yield "unknown API", framed(9_999, 0, bytes(MIB))
    yield "unknown version", framed(schemas.FETCH, 32_000, bytes(MIB))
    yield "client id beyond the frame", framed(schemas.FETCH, 11, b"", client=b"\x7f\xff")
    yield "client id without UTF-8", framed(schemas.FETCH, 11, b"", client=b"\x00\x02\xff\xff")
    yield "bytes behind a request", framed(schemas.API_VERSIONS, 0, bytes(4 * MIB - 100))
    yield "many small requests at once", framed(schemas.API_VERSIONS, 0, b"") * 1_000


def _counts(elements: int) -> Iterator[Shape]:
    for count in (INT32_MAX, -2, elements + 1):
        rest = struct.pack(">i", count) + bytes(4 * MIB - 100)
        yield f"array of {count}", framed(schemas.METADATA, 4, rest)
    rest = b"\x00" + b"\xff\xff\xff\xff\x0f" + bytes(MIB)
    yield "compact array of 2^32 - 2", framed(schemas.METADATA, 12, rest)
    yield "varint without end", framed(schemas.METADATA, 12, b"\x00" + b"\xff" * MIB)


def _tagged_fields(elements: int) -> Iterator[Shape]:
    many = write_varint(2 * MIB - 100) + b"\x63\x00" * (2 * MIB - 100)
    yield "tagged fields in the header", framed(schemas.METADATA, 12, many)
    yield "tagged fields in the body", framed(schemas.METADATA, 12, b"\x00\x01\x01\x00" + many)
    most = write_varint(elements) + b"\x63\x00" * elements
    yield (
        "as many tagged fields as are let in",
        framed(schemas.METADATA, 12, most + b"\x01\x01\x00\x00"),
    )
    beyond = b"\x01\x63\xff\xff\xff\xff\x0f"
    yield "a tagged field beyond the frame", framed(schemas.METADATA, 12, beyond)
    each = b"\x02" + bytes(16) + b"\x02t" + write_varint(5) + b"\x63\x00" * 5
    rest = b"\x00" + write_varint(elements // 2 + 1) + each[1:] * (elements // 2)
    yield "tagged fields in each element", framed(schemas.METADATA, 12, rest + b"\x01\x00\x00")


def _produce(partitions: list[Message], acks: int = -1) -> bytes:
    message = {"transactional_id": None, "acks": acks, "timeout_ms": INT32_MAX}
    return request(schemas.PRODUCE, 9, {**message, "topics": topics(partitions)})


def _produces(elements: int) -> Iterator[Shape]:
    distinct: list[Message] = [{"index": each, "records": [b"x"]} for each in range(elements - 1)]
    yield "produce to unknown partitions", _produce(distinct)
    yield "produce to a partition many times", _produce([distinct[0]] * (elements - 1))
    yield "produce without records", _produce([{"index": 0, "records": None}])
    yield "produce of noughts", _produce([{"index": 0, "records": [bytes(8 * MIB)]}])
    yield "produce with impossible acks", _produce(distinct, acks=7)


def _fetch(partitions: list[Message], **changed: object) -> bytes:
    message = {"max_wait_ms": 0, "min_bytes": 1, "forgotten_topics": [], **changed}
    return request(schemas.FETCH, 11, {**message, "topics": topics(partitions)})


def _fetches(elements: int) -> Iterator[Shape]:
    first: Message = {"index": 0, "fetch_offset": 0, "partition_max_bytes": INT32_MAX}
    distinct = [{**first, "index": each} for each in range(elements - 1)]
    yield "fetch of a partition many times", _fetch([first] * (elements - 1))
    yield "fetch of unknown partitions", _fetch(distinct)
    yield "fetch as a follower", _fetch(distinct, replica_id=1)
    yield "fetch in an unknown session", _fetch(distinct, session_id=5, session_epoch=9)
    forgotten = topics(list(range(elements - 3)))  # type: ignore[arg-type]  # plain numbers
    yield "fetch that forgets much", _fetch([first], forgotten_topics=forgotten)
    yield "fetch of nothing for ever", _fetch([first], max_wait_ms=INT32_MAX, min_bytes=INT32_MAX)
    yield "fetch of no bytes", _fetch([{**first, "partition_max_bytes": -5}], max_bytes=-5)


def _offsets(elements: int) -> Iterator[Shape]:
    listed: list[Message] = [{"index": each, "timestamp": -1} for each in range(elements - 1)]
    head = {"replica_id": -1, "isolation_level": 0}
    once = {**head, "topics": topics(listed)}
    yield "offsets of unknown partitions", request(schemas.LIST_OFFSETS, 6, once)
    again = {**head, "topics": topics([listed[0]] * (elements - 1))}
    yield "offsets of a partition many times", request(schemas.LIST_OFFSETS, 6, again)
    epochs: list[Message] = [{"index": each, "leader_epoch": 1} for each in range(elements - 1)]
    asked = {"topics": topics(epochs)}
    yield "epochs of unknown partitions", request(schemas.OFFSET_FOR_LEADER_EPOCH, 4, asked)


def _metadata(elements: int) -> Iterator[Shape]:
    names = {
        "illegal names": ["?" * 150 + str(each) for each in range(elements)],
        "unknown names": [f"topic-{each}" for each in range(elements)],
        "one name many times": ["orders"] * elements,
        "a name that is too long": ["n" * 32_767],
    }
    for title, asked in names.items():
        message: Message = {"topics": [{"name": each, "topic_id": bytes(16)} for each in asked]}
        yield f"metadata of {title}", request(schemas.METADATA, 9, message)
    ids = [{"name": None, "topic_id": each.to_bytes(16, "big")} for each in range(elements)]
    yield "metadata of unknown ids", request(schemas.METADATA, 12, {"topics": ids})


def _others(elements: int) -> Iterator[Shape]:
    keys = {"key_type": 0, "coordinator_keys": ["g"] * elements}
    yield "coordinators of many groups", request(schemas.FIND_COORDINATOR, 4, keys)
    name: Message = {"client_software_name": "n" * 32_767, "client_software_version": "v" * 32_767}
    yield "a long client name", request(schemas.API_VERSIONS, 3, name)
    transactional = {"transactional_id": "t" * 32_767, "transaction_timeout_ms": 1}
    yield "a long transactional id", request(schemas.INIT_PRODUCER_ID, 4, transactional)
