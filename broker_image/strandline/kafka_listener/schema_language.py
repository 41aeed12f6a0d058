"""The notation for the fields of messages, and its parser.

Called by `schemas`; the compilers read the `Field` trees made here. A line holds fields that
belong together, with commas between them; each field is

    name type [versions] [marks]

    type      bool int8 int16 int32 int64 string uuid records struct; `[]` before it: array
    versions  `3+` from version 3 on, `0-3` both included; left out: every version
    `?` `?9+` null is allowed, in every version or from that one on (`?1-3` in that range)
    `=x`      value that stands for an absent one: a number, `null`, `false`, `true`, `''`
    `#0`      tagged field 0: written after the others, and only if it is not its default

Lines indented below a struct, the last field of its line, are its fields. Order is the order on
the wire.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

FIXED_FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uuid": "16s"}
"""Types of fixed width and their `struct` letters; a uuid is 16 bytes."""

OTHER_TYPES = frozenset({"string", "records", "struct"})
LAST_VERSION = 32767

Default = int | str | bool | bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions `first` to `last`, both included."""

    first: int = 0
    last: int = LAST_VERSION

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


EVERY_VERSION = Versions()
NO_VERSION = Versions(first=1, last=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message; `fields` is empty unless kind is "struct".

    default is meaningful only if has_default; a tagged field always has one.
    """

    name: str
    kind: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    has_default: bool
    default: Default
    fields: tuple[Field, ...] = ()

    def is_plain_fixed(self) -> bool:
        """Tell whether the field is one value of fixed width, so that it can join a run."""
        return not self.is_array and self.kind in FIXED_FORMATS


def fixed_layout(run: Iterable[Field]) -> struct.Struct:
    """Return the layout of neighbouring fields of fixed width."""
    return struct.Struct(">" + "".join(FIXED_FORMATS[field.kind] for field in run))


class NotationError(Exception):
    """The parser cannot read a line of the schema table: our own mistake, found at import."""


def parse_fields(text: str) -> tuple[Field, ...]:
    """Return the fields that a schema text describes."""
    lines = [line for line in text.splitlines() if line.strip()]
    fields, rest = _parse_level(lines, _indent(lines[0]) if lines else 0)
    if rest:
        raise NotationError(f"unexpected indentation: {rest[0]!r}")
    return fields


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parse_level(lines: list[str], indent: int) -> tuple[tuple[Field, ...], list[str]]:
    """Consume the lines of one level; return its fields and the lines after them."""
    fields: list[Field] = []
    while lines and _indent(lines[0]) == indent:
        line, lines = lines[0], lines[1:]
        children: tuple[Field, ...] = ()
        if lines and _indent(lines[0]) > indent:
            children, lines = _parse_level(lines, _indent(lines[0]))
        *before, last = line.split(",")
        fields += [_parse_field(text, ()) for text in before]
        fields.append(_parse_field(last, children))
    return tuple(fields), lines


def _parse_field(text: str, children: tuple[Field, ...]) -> Field:
    name, type_name, *marks = text.split()
    is_array = type_name.startswith("[]")
    kind = type_name.removeprefix("[]")
    is_known = kind in FIXED_FORMATS or kind in OTHER_TYPES
    if not is_known or (kind == "struct") != bool(children):
        raise NotationError(f"type and fields do not fit: {text!r}")
    versions, nullable, tag = EVERY_VERSION, NO_VERSION, None
    has_default, default = False, None
    for mark in marks:
        if mark.startswith("?"):
            nullable = _parse_versions(mark[1:])
        elif mark.startswith("#"):
            tag = int(mark[1:])
        elif mark.startswith("="):
            has_default, default = True, _parse_default(mark[1:])
        else:
            versions = _parse_versions(mark)
    return Field(
        name=name, kind=kind, is_array=is_array, versions=versions, nullable=nullable, tag=tag,
        has_default=has_default or tag is not None, default=default, fields=children,
    )  # fmt: skip


def _parse_versions(text: str) -> Versions:
    if not text:
        return EVERY_VERSION
    if text.endswith("+"):
        return Versions(first=int(text[:-1]))
    first, dash, last = text.partition("-")
    return Versions(first=int(first), last=int(last if dash else first))


def _parse_default(text: str) -> Default:
    words: dict[str, Default] = {"null": None, "true": True, "false": False, "''": ""}
    return words[text] if text in words else int(text)
