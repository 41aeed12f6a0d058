"""Turn a field table into a straight-line function that reads one message.

Called by `codec`. Neighbouring fields of fixed width become one `struct` call; records stay
a memoryview of the frame. The decoder compares every count and length with the rest of the frame,
and the number of all array elements with a bound of the caller, because a few bytes of a frame
can ask for a large object.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from .schema_language import FIXED_FORMATS, Field
from .wire import (
    MalformedRequest,
    Message,
    SourceText,
    long_varint,
    read_varint,
    skip_tagged_fields,
)

Decode = Callable[[memoryview, int, int], tuple[Message, int]]
"""(frame, position, greatest number of array elements) -> (message, position after it)."""

MALFORMED_CAUSES = (struct.error, IndexError, UnicodeDecodeError)
"""What a generated function raises, besides MalformedRequest, when a frame is wrong."""


def compile_decoder(
    fields: Sequence[Field], version: int, *, is_flexible: bool, title: str
) -> Decode:
    """Return the decoder of one message in one version."""
    source = SourceText(
        {
            "Malformed": MalformedRequest,
            "long_varint": long_varint,
            "read_varint": read_varint,
            "skip_tagged": skip_tagged_fields,
            "unpack_from": struct.unpack_from,
            "to_str": str,
        }
    )
    source.line("def decode(b, p, left):")
    source.indent()
    source.line("end = len(b)")
    result = _DecoderWriter(source, version, is_flexible=is_flexible).struct(fields)
    source.line(f"return {result}, p")
    decode: Decode = source.compile("decode", title)
    return decode


class _DecoderWriter:
    """Writes the statements that read fields; `b` frame, `p` position, `end`, `left` elements."""

    def __init__(self, source: SourceText, version: int, *, is_flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = is_flexible

    def struct(self, fields: Sequence[Field]) -> str:
        """Write the code that reads a struct; return the expression of its value."""
        items: dict[str, str] = {}
        run: list[Field] = []
        tagged: list[Field] = []
        for field in fields:
            if self._version not in field.versions:
                if field.has_default:
                    items[field.name] = self._default(field)
            elif field.tag is not None:
                tagged.append(field)
            elif field.is_plain_fixed():
                run.append(field)
            else:
                self._fixed_run(run, items)
                items[field.name] = self._value(field)
        self._fixed_run(run, items)
        if self._flexible:
            self._tagged_section(tagged, items)
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in items.items()) + "}"

    def _default(self, field: Field) -> str:
        return "[]" if field.is_array else repr(field.default)

    def _fixed_run(self, run: list[Field], items: dict[str, str]) -> None:
        """Write one unpack for all fields gathered so far, and forget them."""
        if not run:
            return
        layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run))
        names = [self._source.new_name() for _ in run]
        items.update(zip((field.name for field in run), names, strict=True))
        unpack = self._source.constant(layout.unpack_from)
        self._source.line(f"{', '.join(names)}, = {unpack}(b, p)")
        self._source.line(f"p += {layout.size}")
        run.clear()

    def _value(self, field: Field) -> str:
        if field.is_array:
            return self._array(field)
        if field.kind == "struct":
            return self._struct_value(field)
        return self._sized(field)

    def _struct_value(self, field: Field) -> str:
        name = self._source.new_name()
        self._source.line(f"{name} = {self.struct(field.fields)}")
        return name

    def _length(self, classic_format: str) -> str:
        """Write the code that reads a length; return its name. -1 is null in both encodings."""
        source, name = self._source, self._source.new_name()
        if self._flexible:
            source.line(f"{name} = b[p]")
            source.line(f"if {name} < 128: p += 1")
            source.line(f"else: {name}, p = long_varint(b, p)")
            source.line(f"{name} -= 1")
        else:
            size = struct.calcsize(classic_format)
            unpack = source.constant(struct.Struct(classic_format).unpack_from)
            source.line(f"{name}, = {unpack}(b, p)")
            source.line(f"p += {size}")
        return name

    def _null_or_refusal(self, field: Field, length: str, name: str) -> None:
        """Write the branch for a negative length."""
        source = self._source
        source.line(f"if {length} < 0:")
        source.indent()
        if self._version in field.nullable:
            source.line(f"if {length} != -1: raise Malformed('length below -1')")
            source.line(f"{name} = None")
        else:
            source.line(f"raise Malformed('{field.name} is null')")
        source.dedent()

    def _sized(self, field: Field) -> str:
        """Write the code that reads a string or records; return the name of the value."""
        source, name = self._source, self._source.new_name()
        length = self._length(">i" if field.kind == "records" else ">h")
        self._null_or_refusal(field, length, name)
        source.line(f"elif {length} > end - p: raise Malformed('{field.name} beyond the frame')")
        source.line("else:")
        source.indent()
        piece = f"b[p:p + {length}]"
        value = piece if field.kind == "records" else f"to_str({piece}, 'utf-8')"
        source.line(f"{name} = {value}")
        source.line(f"p += {length}")
        source.dedent()
        return name

    def _array(self, field: Field) -> str:
        source, name = self._source, self._source.new_name()
        count = self._length(">i")
        self._null_or_refusal(field, count, name)
        source.line("else:")
        source.indent()
        source.line(f"left -= {count}")
        source.line(f"if left < 0 or {count} > end - p: raise Malformed('too many {field.name}')")
        if field.kind in FIXED_FORMATS:
            width = struct.calcsize(">" + FIXED_FORMATS[field.kind])
            source.line(
                f"{name} = list(unpack_from('>%d{FIXED_FORMATS[field.kind]}' % {count}, b, p))"
            )
            source.line(f"p += {width} * {count}")
        else:
            source.line(f"{name} = []")
            source.line(f"for _ in range({count}):")
            source.indent()
            element = self.struct(field.fields) if field.kind == "struct" else self._sized(field)
            source.line(f"{name}.append({element})")
            source.dedent()
        source.dedent()
        return name

    def _tagged_section(self, tagged: Sequence[Field], items: dict[str, str]) -> None:
        """Write the code that reads the tagged fields at the end of a flexible struct."""
        source = self._source
        for field in tagged:
            items[field.name] = source.new_name()
            source.line(f"{items[field.name]} = {self._default(field)}")
        count = source.new_name()
        source.line(f"{count}, p = read_varint(b, p)")
        if not tagged:
            source.line(f"if {count}: p = skip_tagged(b, p, {count})")
            return
        tag, size, stop = (source.new_name() for _ in range(3))
        source.line(f"for _ in range({count}):")
        source.indent()
        source.line(f"{tag}, p = read_varint(b, p)")
        source.line(f"{size}, p = read_varint(b, p)")
        source.line(f"{stop} = p + {size}")
        source.line(f"if {stop} > end: raise Malformed('tagged field beyond the frame')")
        for field in tagged:
            source.line(f"if {tag} == {field.tag}:")
            source.indent()
            inner: dict[str, str] = {}
            if field.is_plain_fixed():
                self._fixed_run([field], inner)
            else:
                inner[field.name] = self._value(field)
            source.line(f"{items[field.name]} = {inner[field.name]}")
            source.line(f"if p != {stop}: raise Malformed('size of tagged field is wrong')")
            source.dedent()
        source.line(f"p = {stop}")
        source.dedent()
