"""Random values for the messages of our schemas, within what kio can represent."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

from strandline.kafka_listener.schema_language import FIXED_FORMATS, Field
from strandline.kafka_listener.wire import Message

WORDS = ("", "a", "orders", "Δ-topic", "x" * 127, "y" * 128, "z" * 300)
KNOWN_ERRORS = (-1, 0, 1, 3, 5, 6, 15, 35, 53, 70, 74, 100)
TIMES_MS = (0, 1, 500, 86_400_000)
ARRAY_SIZES = (0, 1, 2, 3, 130)


def random_message(source: random.Random, fields: Sequence[Field], version: int) -> Message:
    """Return a value for every field that the version has."""
    return {
        field.name: random_value(source, field, version)
        for field in fields
        if version in field.versions
    }


def random_value(source: random.Random, field: Field, version: int) -> Any:
    if version in field.nullable and source.random() < 0.2:
        return None
    if field.tag is not None and source.random() < 0.4:
        return [] if field.is_array else field.default
    if not field.is_array:
        return _single(source, field, version)
    largest = ARRAY_SIZES[-1] if field.kind != "struct" else 3
    sizes = [size for size in ARRAY_SIZES if size <= largest]
    return [_single(source, field, version) for _ in range(source.choice(sizes))]


def _single(source: random.Random, field: Field, version: int) -> Any:
    if field.kind == "struct":
        return random_message(source, field.fields, version)
    if field.kind == "string":
        return source.choice(WORDS)
    if field.kind == "records":
        size = source.choice((0, 1, 126, 127, 128, 5000, 20000))
        return source.randbytes(size)
    if field.kind == "uuid":
        return source.randbytes(16)
    if field.kind == "bool":
        return source.random() < 0.5
    if field.name == "error_code":
        return source.choice(KNOWN_ERRORS)
    if field.name.endswith("_ms"):
        return source.choice(TIMES_MS)
    bits = 8 * struct.calcsize(">" + FIXED_FORMATS[field.kind]) - 1
    return source.choice((-1, 0, 1, source.randrange(-(1 << bits), 1 << bits), (1 << bits) - 1))


def with_record_buffers(message: Any, source: random.Random) -> Any:
    """Return the message with all records cut at random into buffers, as our encoder takes them."""
    if isinstance(message, list):
        return [with_record_buffers(item, source) for item in message]
    if isinstance(message, dict):
        return {key: with_record_buffers(value, source) for key, value in message.items()}
    if isinstance(message, bytes) and len(message) != 16:
        cut = source.randrange(len(message) + 1)
        return [message[:cut], memoryview(message)[cut:]]
    return message
