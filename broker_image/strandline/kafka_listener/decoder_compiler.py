"""Turn a field table into a straight-line function that reads one message.

Called by `codec`. Neighbouring fields of fixed width become one `struct` call; records stay
a memoryview of the frame. The decoder compares every count and length with the rest of the frame,
and the number of all array elements and tagged fields with a bound of the caller, because a few
bytes of a frame can ask for a large object or a long loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby

from .schema_language import FIXED_FORMATS, Field, fixed_layout
from .schemas import ApiSchema
from .turns import Turns
from .wire import (
    STRING_MAX_BYTES,
    CodecWriter,
    MalformedRequest,
    Message,
    long_varint,
    read_varint,
    skip_tagged_fields,
)

Decode = Callable[[memoryview, int, int], Turns[tuple[Message, int]]]
"""(frame, position, greatest number of array elements and tagged fields) -> (message, position
after it), in turns."""

MALFORMED_CAUSES = (struct.error, IndexError, UnicodeDecodeError)
"""What a generated function raises, besides MalformedRequest, when a frame is wrong."""


def compile_decoder(api: ApiSchema, fields: Sequence[Field], version: int) -> Decode:
    """Return the decoder of one version of a message: of the API's request or of its response."""
    writer = _DecoderWriter(
        version,
        is_flexible=api.is_flexible(version),
        Malformed=MalformedRequest,
        long_varint=long_varint,
        read_varint=read_varint,
        skip_tagged=skip_tagged_fields,
        unpack_from=struct.unpack_from,
        to_str=str,
    )
    with writer.block("def decode(b, p, left):"):
        writer.line("end = len(b)")
        writer.line(f"return {writer.struct(fields)}, p")
        # A message without arrays is decoded in turns, too: this makes it a generator.
        writer.line("yield")
    decode: Decode = writer.compile("decode", f"{api.name} {version} decoder")
    return decode


class _DecoderWriter(CodecWriter):
    """Writes the statements that read fields; `b` frame, `p` position, `end`, `left` elements."""

    def struct(self, fields: Sequence[Field]) -> str:
        """Write the code that reads a struct; return the expression of its value."""
        present = [field for field in fields if self._version in field.versions]
        items = {
            field.name: self._default(field)
            for field in fields
            if field.has_default and self._version not in field.versions
        }
        untagged = (field for field in present if field.tag is None)
        for is_fixed, run in groupby(untagged, Field.is_plain_fixed):
            if is_fixed:
                items |= self._fixed_run(list(run))
            else:
                for field in run:
                    items[field.name] = self._value(field)
        if self._flexible:
            items |= self._tagged_section([field for field in present if field.tag is not None])
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in items.items()) + "}"

    def _default(self, field: Field) -> str:
        return "[]" if field.is_array else repr(field.default)

    def _fixed_run(self, run: Sequence[Field]) -> dict[str, str]:
        """Write one unpack for neighbouring fields; return the name of each field's value."""
        layout = fixed_layout(run)
        names = [self.new_name() for _ in run]
        self.line(f"{', '.join(names)}, = {self.constant(layout.unpack_from)}(b, p)")
        self.line(f"p += {layout.size}")
        return {field.name: name for field, name in zip(run, names, strict=True)}

    def _value(self, field: Field) -> str:
        if field.is_array:
            return self._array(field)
        if field.kind == "struct":
            name = self.new_name()
            self.line(f"{name} = {self.struct(field.fields)}")
            return name
        return self._sized(field)

    def _length(self, classic_format: str) -> str:
        """Write the code that reads a length; return its name. -1 is null in both encodings."""
        name = self.new_name()
        if self._flexible:
            self.line(f"{name} = b[p]")
            self.line(f"if {name} < 128: p += 1")
            self.line(f"else: {name}, p = long_varint(b, p)")
            self.line(f"{name} -= 1")
        else:
            layout = struct.Struct(classic_format)
            self.line(f"{name}, = {self.constant(layout.unpack_from)}(b, p)")
            self.line(f"p += {layout.size}")
        return name

    def _null_or_refusal(self, field: Field, length: str, name: str) -> None:
        """Write the branch for a negative length."""
        with self.block(f"if {length} < 0:"):
            if self._version in field.nullable:
                self.line(f"if {length} != -1: raise Malformed('length below -1')")
                self.line(f"{name} = None")
            else:
                self.line(f"raise Malformed('{field.name} is null')")

    def _sized(self, field: Field) -> str:
        """Write the code that reads a string or records; return the name of the value."""
        name = self.new_name()
        length = self._length(">i" if field.kind == "records" else ">h")
        self._null_or_refusal(field, length, name)
        self.line(f"elif {length} > end - p: raise Malformed('{field.name} beyond the frame')")
        if self._flexible and field.kind == "string":
            with self.block(f"elif {length} > {STRING_MAX_BYTES}:"):
                self.line(f"raise Malformed('{field.name} above {STRING_MAX_BYTES} bytes')")
        piece = f"b[p:p + {length}]"
        with self.block("else:"):
            value = piece if field.kind == "records" else f"to_str({piece}, 'utf-8')"
            self.line(f"{name} = {value}")
            self.line(f"p += {length}")
        return name

    def _array(self, field: Field) -> str:
        name = self.new_name()
        count = self._length(">i")
        self._null_or_refusal(field, count, name)
        with self.block("else:"):
            self.line(f"left -= {count}")
            self.line(f"if left < 0 or {count} > end - p: raise Malformed('too many {field.name}')")
            if field.kind in FIXED_FORMATS:
                letter = FIXED_FORMATS[field.kind]
                self.line(f"{name} = list(unpack_from('>%d{letter}' % {count}, b, p))")
                self.line(f"p += {struct.calcsize('>' + letter)} * {count}")
                return name
            self.line(f"{name} = []")
            with self.block(f"for _ in range({count}):"):
                is_struct = field.kind == "struct"
                element = self.struct(field.fields) if is_struct else self._sized(field)
                self.line(f"{name}.append({element})")
                self.line("yield")
        return name

    def _tagged_section(self, tagged: Sequence[Field]) -> dict[str, str]:
        """Write the code that reads tagged fields; return the name of each field's value."""
        names = {field.name: self.new_name() for field in tagged}
        for field in tagged:
            self.line(f"{names[field.name]} = {self._default(field)}")
        count = self.new_name()
        self.line(f"{count}, p = read_varint(b, p)")
        self.line(f"left -= {count}")
        self.line("if left < 0: raise Malformed('too many tagged fields')")
        if not tagged:
            self.line(f"if {count}: p = yield from skip_tagged(b, p, {count})")
            return names
        tag, size, stop = (self.new_name() for _ in range(3))
        with self.block(f"for _ in range({count}):"):
            self.line(f"{tag}, p = read_varint(b, p)")
            self.line(f"{size}, p = read_varint(b, p)")
            self.line(f"{stop} = p + {size}")
            self.line(f"if {stop} > end: raise Malformed('tagged field beyond the frame')")
            for field in tagged:
                with self.block(f"if {tag} == {field.tag}:"):
                    is_fixed = field.is_plain_fixed()
                    value = self._fixed_run([field])[field.name] if is_fixed else self._value(field)
                    self.line(f"{names[field.name]} = {value}")
                    self.line(f"if p != {stop}: raise Malformed('size of tagged field is wrong')")
            self.line(f"p = {stop}")
            self.line("yield")
        return names
