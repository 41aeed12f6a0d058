"""Helpers that compiled codecs call at run time, and the small writer of source text.

Called by the generated functions of `decoder_compiler` and `encoder_compiler`. No read goes beyond
its frame; nothing here trusts a length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from strandline.broker_interface import Buffer, Piece

from .turns import Turns

Message = dict[str, Any]
"""A decoded message: field name to value; structs are messages, arrays are lists."""

COPIED_RECORDS_MAX_BYTES = 4096
"""Records up to this size are copied into the last buffer: cheaper than one more buffer."""

UNSIGNED_VARINT_MAX_BYTES = 5

STRING_MAX_BYTES = 32_767
"""A string is no longer in compact form than it can be in classic form. Source: Kafka's
MessageDataGenerator."""


class MalformedRequest(Exception):
    """The bytes of a frame are not the message that its header promises."""


def long_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of more than one byte; return it and the position after it."""
    value = 0
    for index in range(UNSIGNED_VARINT_MAX_BYTES):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise MalformedRequest("varint longer than five bytes")


def skip_tagged_fields(data: memoryview, position: int, count: int) -> Turns[int]:
    """Return the position after `count` unknown tagged fields; the caller bounds the count."""
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > len(data):
            raise MalformedRequest("tagged field beyond the frame")
        yield
    return position


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint; return it and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    return long_varint(data, position)


def write_varint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def append_records(
    out: list[Piece],
    tail: bytearray,
    records: Sequence[Piece] | None,
    write_length: Callable[[int], bytes],
    null_and_offset: tuple[int, int],
) -> bytearray:
    """Append records to a message without copying large ones.

    Shape:   tail is the last buffer of out; null_and_offset is the length that means null and
             the number added to a real length (compact lengths count from one)
    Returns: the buffer for the fields that follow
    """
    null, offset = null_and_offset
    if records is None:
        tail += write_length(null)
        return tail
    size = sum(len(buffer) for buffer in records)
    tail += write_length(size + offset)
    if size <= COPIED_RECORDS_MAX_BYTES:
        for buffer in records:
            tail += cast("Buffer", buffer)  # so few records are in no file
        return tail
    out.extend(records)
    tail = bytearray()
    out.append(tail)
    return tail


class CodecWriter:
    """Writes the source of one codec: lines, their indentation, and the constants they name."""

    def __init__(self, version: int, *, is_flexible: bool, **constants: object) -> None:
        self._version = version
        self._flexible = is_flexible
        self._constants = constants
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        """Write one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write the head of a block; the lines written meanwhile are its body."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def new_name(self) -> str:
        """Return a local name that was not used before."""
        self._names += 1
        return f"v{self._names}"

    def constant(self, value: object) -> str:
        """Bind a value to a name that generated code can use; return the name."""
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def compile(self, name: str, title: str) -> Any:
        """Run the generated definition and return the function of that name.

        The text comes from our own schema table alone; no byte of a request enters it.
        """
        code = compile("\n".join(self._lines), f"<codec {title}>", "exec")
        exec(code, self._constants)  # noqa: S102 - our own table is the only source
        return self._constants[name]
