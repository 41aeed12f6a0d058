"""Turn a field table into a straight-line function that writes one message.

Called by `codec`. Neighbouring fields of fixed width become one `struct` call; large records
stay buffers of their own. The encoder ignores a field that the version lacks; a missing field
takes its default; a tagged field is written only if it differs from its default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from strandline.broker_interface import Piece

from .schema_language import FIXED_FORMATS, Field, fixed_layout
from .schemas import ApiSchema
from .turns import Turns
from .wire import CodecWriter, Message, append_records, write_varint

Encode = Callable[[Message, list[Piece], bytearray], Turns[None]]
"""(message, buffers so far, last of them): appends the message to the buffers, in turns."""


def compile_encoder(api: ApiSchema, fields: Sequence[Field], version: int) -> Encode:
    """Return the encoder of one version of a message: of the API's request or of its response."""
    writer = _EncoderWriter(
        version,
        is_flexible=api.is_flexible(version),
        append_records=append_records,
        int32_length=struct.Struct(">i").pack,
        pack=struct.pack,
        short=struct.Struct(">h").pack,
        varint=write_varint,
    )
    with writer.block("def encode(m, out, w):"):
        # A message without arrays is encoded in turns, too: this makes it a generator.
        writer.line("yield from ()")
        writer.struct(fields, "m")
    encode: Encode = writer.compile("encode", f"{api.name} {version} encoder")
    return encode


class _EncoderWriter(CodecWriter):
    """Writes the statements that append fields to `w`, the last buffer of `out`."""

    def struct(self, fields: Sequence[Field], owner: str) -> None:
        """Write the code that writes the struct in the variable `owner`."""
        present = [field for field in fields if self._version in field.versions]
        untagged = (field for field in present if field.tag is None)
        for is_fixed, run in groupby(untagged, Field.is_plain_fixed):
            if is_fixed:
                self._fixed_run(list(run), owner)
            else:
                for field in run:
                    self._value(field, self._get(field, owner))
        if self._flexible:
            self._tagged_section([field for field in present if field.tag is not None], owner)

    def _get(self, field: Field, owner: str) -> str:
        if field.has_default:
            return f"{owner}.get({field.name!r}, {field.default!r})"
        return f"{owner}[{field.name!r}]"

    def _fixed_run(self, run: Sequence[Field], owner: str) -> None:
        """Write one pack for neighbouring fields."""
        pack = self.constant(fixed_layout(run).pack)
        values = ", ".join(self._get(field, owner) for field in run)
        self.line(f"w += {pack}({values})")

    def _value(self, field: Field, expression: str) -> None:
        name = self.new_name()
        self.line(f"{name} = {expression}")
        if field.is_array:
            with self._unless_null(field, name, "int32_length"):
                self._array(field, name)
        elif field.kind == "struct":
            self.struct(field.fields, name)
        elif field.kind == "records":
            arguments = "varint, (0, 1)" if self._flexible else "int32_length, (-1, 0)"
            self.line(f"w = append_records(out, w, {name}, {arguments})")
        else:
            with self._unless_null(field, name, "short"):
                self._string(name)

    @contextmanager
    def _unless_null(self, field: Field, name: str, classic_length: str) -> Iterator[None]:
        """Write the code for null, if the version allows it; the lines meanwhile are the rest."""
        if self._version not in field.nullable:
            yield
            return
        null = "b'\\0'" if self._flexible else f"{classic_length}(-1)"
        self.line(f"if {name} is None: w += {null}")
        with self.block("else:"):
            yield

    def _string(self, name: str) -> None:
        self.line(f"{name} = {name}.encode()")
        length = f"varint(len({name}) + 1)" if self._flexible else f"short(len({name}))"
        self.line(f"w += {length}")
        self.line(f"w += {name}")

    def _array(self, field: Field, name: str) -> None:
        length = f"varint(len({name}) + 1)" if self._flexible else f"int32_length(len({name}))"
        self.line(f"w += {length}")
        if field.kind in FIXED_FORMATS:
            self.line(f"w += pack('>%d{FIXED_FORMATS[field.kind]}' % len({name}), *{name})")
            return
        element = self.new_name()
        with self.block(f"for {element} in {name}:"):
            if field.kind == "struct":
                self.line("pass")
                self.struct(field.fields, element)
            else:
                self._string(element)
            self.line("yield")

    def _tagged_section(self, tagged: Sequence[Field], owner: str) -> None:
        """Write the code that writes the tagged fields at the end of a flexible struct."""
        if not tagged:
            self.line("w += b'\\0'")
            return
        pieces, outer = self.new_name(), self.new_name()
        self.line(f"{pieces} = []")
        self.line(f"{outer} = w")
        for field in sorted(tagged, key=lambda tagged_field: tagged_field.tag or 0):
            value = self.new_name()
            self.line(f"{value} = {owner}.get({field.name!r}, {field.default!r})")
            is_set = value if field.is_array else f"{value} != {field.default!r}"
            with self.block(f"if {is_set}:"):
                self.line("w = bytearray()")
                if field.is_plain_fixed():
                    self.line(f"w += {self.constant(fixed_layout([field]).pack)}({value})")
                else:
                    self._value(field, value)
                self.line(f"{pieces}.append(varint({field.tag}) + varint(len(w)) + w)")
        self.line(f"w = {outer}")
        self.line(f"w += varint(len({pieces}))")
        self.line(f"for w_piece in {pieces}: w += w_piece")
