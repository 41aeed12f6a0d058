"""Our codec against kio's and kafka-python's: the same bytes mean the same, in every version."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import random
import uuid
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from strandline.broker_interface import Buffer, Piece
from strandline.kafka_listener import codec, schemas
from strandline.kafka_listener.schema_language import Field
from strandline.kafka_listener.schemas import APIS
from strandline.kafka_listener.turns import at_once
from tests.kafka import client_codec
from tests.kafka.random_messages import random_message, with_record_buffers
from tests.kafka.wire_client import ELEMENTS_MAX

ROUNDS = 12
EVERY_MESSAGE = [
    pytest.param(api.key, version, direction, id=f"{api.name}-{direction}-{version}")
    for api in APIS.values()
    for version in range(api.served_min, api.served_max + 1)
    for direction in ("request", "response")
]
# kafka-python loads its own schemas in a way that Python 3.11 calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")

KAFKA_PYTHON_MODULES = ("producer", "consumer", "metadata", "admin")


def encode_with_ours(api_key: int, version: int, direction: str, message: Any) -> bytes:
    encoder = client_codec.request_encoder if direction == "request" else codec.response_encoder
    tail = bytearray()
    pieces: list[Piece] = [tail]
    at_once(encoder(api_key, version)(message, pieces, tail))
    return b"".join(piece for piece in pieces if isinstance(piece, Buffer))


def decode_with_ours(api_key: int, version: int, direction: str, data: bytes) -> Any:
    decoder = codec.request_decoder if direction == "request" else client_codec.response_decoder
    message, end = at_once(decoder(api_key, version)(memoryview(data), 0, ELEMENTS_MAX))
    assert end == len(data)
    return message


def our_values(message: Any, fields: Sequence[Field], version: int) -> Any:
    """Return the values in the order of the wire, without names, in plain types."""
    if message is None:
        return None
    values = []
    for field in fields:
        if version not in field.versions:
            continue
        value = message[field.name]
        if field.kind == "struct" and field.is_array:
            value = value and [our_values(item, field.fields, version) for item in value]
        elif field.kind == "struct":
            value = our_values(value, field.fields, version)
            if field.tag is not None and value is not None and set(value) == {-1}:
                value = None  # an encoder may leave out a tagged struct of defaults
        elif field.kind == "records":
            value = value if value is None else bytes(value)
        values.append(value)
    return values


def kio_values(value: Any) -> Any:
    """Return a value of kio in the shape of `our_values`."""
    if dataclasses.is_dataclass(value):
        return [kio_values(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [kio_values(item) for item in value]
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, bytes):
        return bytes(value)
    return value


def equal_but_for_absence(ours: Any, theirs: Any) -> bool:
    """Compare values; kio has an absent struct as a list of defaults, an absent number as None."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(equal_but_for_absence, ours, theirs))
    if ours is None and isinstance(theirs, list):
        return all(item == -1 for item in theirs)
    if theirs is None:
        return ours in (None, -1, bytes(16))
    return bool(ours == theirs)


def kafka_python_class(api_key: int, direction: str) -> Any:
    for name in KAFKA_PYTHON_MODULES:
        module = importlib.import_module(f"kafka.protocol.{name}")
        found = getattr(module, f"{APIS[api_key].name}{direction.capitalize()}", None)
        if found is not None:
            return found
    pytest.fail(f"no class for {APIS[api_key].name}")


def fields_of(api_key: int, direction: str) -> tuple[Field, ...]:
    api = APIS[api_key]
    return api.request if direction == "request" else api.response


@pytest.mark.parametrize("api_key,version,direction", EVERY_MESSAGE)
def test_every_message_means_the_same_to_kio(api_key: int, version: int, direction: str) -> None:
    source = random.Random(f"{api_key}-{version}-{direction}")
    load: Callable[..., Any] = (
        load_request_schema if direction == "request" else load_response_schema
    )
    entity_type = load(api_key, version)
    fields = fields_of(api_key, direction)
    for _ in range(ROUNDS):
        message = random_message(source, fields, version)
        data = encode_with_ours(api_key, version, direction, with_record_buffers(message, source))
        theirs, size = entity_reader(entity_type)(data, 0)
        assert size == len(data)
        assert equal_but_for_absence(our_values(message, fields, version), kio_values(theirs))
        written = BytesIO()
        entity_writer(entity_type)(written, theirs)
        again = decode_with_ours(api_key, version, direction, written.getvalue())
        assert our_values(again, fields, version) == our_values(
            decode_with_ours(api_key, version, direction, data), fields, version
        )
        assert equal_but_for_absence(our_values(again, fields, version), kio_values(theirs))


@pytest.mark.parametrize("api_key,version,direction", EVERY_MESSAGE)
def test_kafka_python_reads_and_writes_the_same_bytes(
    api_key: int, version: int, direction: str
) -> None:
    source = random.Random(f"second-{api_key}-{version}-{direction}")
    other = kafka_python_class(api_key, direction)
    fields = fields_of(api_key, direction)
    for _ in range(ROUNDS):
        message = random_message(source, fields, version)
        if api_key == schemas.API_VERSIONS and direction == "response":
            message["error_code"] = 0  # kafka-python reads version 0 after error 35
        data = encode_with_ours(api_key, version, direction, with_record_buffers(message, source))
        theirs = other.decode(data, version=version)
        theirs._header = None  # kafka-python leaves it unset if it decodes without a header
        again = decode_with_ours(api_key, version, direction, bytes(theirs.encode(version=version)))
        ours = decode_with_ours(api_key, version, direction, data)
        assert our_values(again, fields, version) == our_values(ours, fields, version)


@pytest.mark.parametrize("api_key,version,direction", EVERY_MESSAGE)
def test_our_decoder_reads_what_our_encoder_writes(
    api_key: int, version: int, direction: str
) -> None:
    source = random.Random(f"third-{api_key}-{version}-{direction}")
    fields = fields_of(api_key, direction)
    for _ in range(ROUNDS):
        message = random_message(source, fields, version)
        data = encode_with_ours(api_key, version, direction, with_record_buffers(message, source))
        again = decode_with_ours(api_key, version, direction, data)
        assert our_values(again, fields, version) == our_values(message, fields, version)


def test_the_table_serves_exactly_the_promised_versions() -> None:
    ranges = {api.name: (api.served_min, api.served_max) for api in APIS.values()}
    assert ranges == {
        "Produce": (3, 11),
        "Fetch": (4, 12),
        "ListOffsets": (1, 6),
        "Metadata": (0, 12),
        "FindCoordinator": (0, 4),
        "ApiVersions": (0, 4),
        "DeleteRecords": (0, 2),
        "InitProducerId": (0, 4),
        "OffsetForLeaderEpoch": (2, 4),
    }
    assert {api.name: api.advertised_min for api in APIS.values() if not api.serves(0)} == {
        "Produce": 0,
        "Fetch": 4,
        "ListOffsets": 1,
        "OffsetForLeaderEpoch": 2,
    }
    assert APIS[schemas.API_VERSIONS].flexible_from == 3
