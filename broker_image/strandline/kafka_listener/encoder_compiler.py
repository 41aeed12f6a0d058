"""Turn a field table into a straight-line function that writes one message.

Called by `codec`. Neighbouring fields of fixed width become one `struct` call; large records
stay buffers of their own. The encoder ignores a field that the version lacks; a missing field
takes its default; a tagged field is written only if it differs from its default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from strandline.broker_interface import Buffer

from .schema_language import FIXED_FORMATS, Field
from .wire import (
    Message,
    SourceText,
    append_records,
    write_int32_length,
    write_varint,
)

Encode = Callable[[Message, list[Buffer], bytearray], None]
"""(message, buffers so far, last of them): appends the message to the buffers."""


def compile_encoder(
    fields: Sequence[Field], version: int, *, is_flexible: bool, title: str
) -> Encode:
    """Return the encoder of one message in one version."""
    source = SourceText(
        {
            "append_records": append_records,
            "int32_length": write_int32_length,
            "pack": struct.pack,
            "short": struct.Struct(">h").pack,
            "varint": write_varint,
        }
    )
    source.line("def encode(m, out, w):")
    source.indent()
    source.line("pass")
    _EncoderWriter(source, version, is_flexible=is_flexible).struct(fields, "m")
    encode: Encode = source.compile("encode", title)
    return encode


class _EncoderWriter:
    """Writes the statements that append fields to `w`, the last buffer of `out`."""

    def __init__(self, source: SourceText, version: int, *, is_flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = is_flexible

    def struct(self, fields: Sequence[Field], owner: str) -> None:
        """Write the code that writes the struct in the variable `owner`."""
        run: list[Field] = []
        tagged: list[Field] = []
        for field in fields:
            if self._version not in field.versions:
                continue
            if field.tag is not None:
                tagged.append(field)
            elif field.is_plain_fixed():
                run.append(field)
            else:
                self._fixed_run(run, owner)
                self._value(field, self._get(field, owner))
        self._fixed_run(run, owner)
        if self._flexible:
            self._tagged_section(tagged, owner)

    def _get(self, field: Field, owner: str) -> str:
        if field.has_default:
            return f"{owner}.get({field.name!r}, {field.default!r})"
        return f"{owner}[{field.name!r}]"

    def _fixed_run(self, run: list[Field], owner: str) -> None:
        """Write one pack for all fields gathered so far, and forget them."""
        if run:
            layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run))
            pack = self._source.constant(layout.pack)
            values = ", ".join(self._get(field, owner) for field in run)
            self._source.line(f"w += {pack}({values})")
            run.clear()

    def _value(self, field: Field, expression: str) -> None:
        name = self._source.new_name()
        self._source.line(f"{name} = {expression}")
        if field.is_array:
            self._array(field, name)
        elif field.kind == "struct":
            self.struct(field.fields, name)
        elif field.kind == "records":
            self._records(name)
        else:
            self._string(name, may_be_null=self._version in field.nullable)

    def _string(self, name: str, *, may_be_null: bool) -> None:
        source = self._source
        if may_be_null:
            source.line(f"if {name} is None: w += {self._null('short')}")
            source.line("else:")
            source.indent()
        source.line(f"{name} = {name}.encode()")
        length = f"varint(len({name}) + 1)" if self._flexible else f"short(len({name}))"
        source.line(f"w += {length}")
        source.line(f"w += {name}")
        if may_be_null:
            source.dedent()

    def _null(self, classic_writer: str) -> str:
        return "b'\\0'" if self._flexible else f"{classic_writer}(-1)"

    def _records(self, name: str) -> None:
        arguments = "varint, (0, 1)" if self._flexible else "int32_length, (-1, 0)"
        self._source.line(f"w = append_records(out, w, {name}, {arguments})")

    def _array(self, field: Field, name: str) -> None:
        source = self._source
        may_be_null = self._version in field.nullable
        if may_be_null:
            source.line(f"if {name} is None: w += {self._null('int32_length')}")
            source.line("else:")
            source.indent()
        length = f"varint(len({name}) + 1)" if self._flexible else f"int32_length(len({name}))"
        source.line(f"w += {length}")
        if field.kind in FIXED_FORMATS:
            source.line(f"w += pack('>%d{FIXED_FORMATS[field.kind]}' % len({name}), *{name})")
        else:
            element = source.new_name()
            source.line(f"for {element} in {name}:")
            source.indent()
            if field.kind == "struct":
                source.line("pass")
                self.struct(field.fields, element)
            else:
                self._string(element, may_be_null=False)
            source.dedent()
        if may_be_null:
            source.dedent()

    def _tagged_section(self, tagged: Sequence[Field], owner: str) -> None:
        """Write the code that writes the tagged fields at the end of a flexible struct."""
        source = self._source
        if not tagged:
            source.line("w += b'\\0'")
            return
        pieces, outer = source.new_name(), source.new_name()
        source.line(f"{pieces} = []")
        source.line(f"{outer} = w")
        for field in sorted(tagged, key=lambda tagged_field: tagged_field.tag or 0):
            value = source.new_name()
            source.line(f"{value} = {owner}.get({field.name!r}, {field.default!r})")
            is_set = value if field.is_array else f"{value} != {field.default!r}"
            source.line(f"if {is_set}:")
            source.indent()
            source.line("w = bytearray()")
            self._tagged_value(field, value)
            source.line(f"{pieces}.append(varint({field.tag}) + varint(len(w)) + w)")
            source.dedent()
        source.line(f"w = {outer}")
        source.line(f"w += varint(len({pieces}))")
        source.line(f"for w_piece in {pieces}: w += w_piece")

    def _tagged_value(self, field: Field, value: str) -> None:
        if field.is_plain_fixed():
            pack = self._source.constant(struct.Struct(">" + FIXED_FORMATS[field.kind]).pack)
            self._source.line(f"w += {pack}({value})")
        else:
            self._value(field, value)
