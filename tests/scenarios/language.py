"""A line of a scenario: a word, and key=value pairs that are the arguments of its function.

The function's signature is the grammar: names, types and defaults of its keyword arguments. An
unknown word or key fails with the list of those that exist.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import NoneType, UnionType

BROKER_IDS = tuple[int, ...]
WORDS = tuple[str, ...]


class ScenarioError(Exception):
    """A scenario uses a word or an argument that the language does not have."""


@dataclass(frozen=True, slots=True)
class Command:
    """A word of the language, with an example; its function's docstring says what it does.

    `further` maps keys that the function takes as **figures to their meaning.
    """

    run: Callable[..., list[str] | None]
    example: str
    further: Mapping[str, str] = field(default_factory=dict)

    @property
    def word(self) -> str:
        return self.run.__name__

    @property
    def meaning(self) -> str:
        return " ".join((inspect.getdoc(self.run) or "").split())

    @property
    def arguments(self) -> dict[str, inspect.Parameter]:
        found = inspect.signature(self.run).parameters
        return {n: p for n, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def usage(self) -> str:
        """Return the arguments as a line of help, optional ones in brackets."""
        hints, needed = typing.get_type_hints(self.run), inspect.Parameter.empty
        usages = {name: f"{name}={_choices(hints[name])}" for name in self.arguments}
        return " ".join(
            usages[name] if each.default is needed else f"[{usages[name]}]"
            for name, each in self.arguments.items()
        )

    def values(self, texts: Mapping[str, str]) -> dict[str, object]:
        """Return the arguments' texts as values of the arguments' types."""
        known, hints = self.arguments, typing.get_type_hints(self.run)
        for key in texts:
            if key not in known and key not in self.further:
                every = ", ".join([*known, *self.further]) or "none"
                raise ScenarioError(f"{self.word} takes no {key!r}; its arguments are: {every}")
        missing = [
            n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in texts
        ]
        if missing:
            raise ScenarioError(f"{self.word} needs {', '.join(missing)}: {self.example}")
        try:
            return {key: _value(text, hints.get(key, int)) for key, text in texts.items()}
        except ValueError as error:
            raise ScenarioError(f"{self.word}: {error}; for example: {self.example}") from error


def _choices(kind: object) -> str:
    if kind is bool:
        return "yes|no"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return ""


def _value(text: str, kind: object) -> object:
    if isinstance(kind, UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not NoneType)
    if kind == BROKER_IDS:
        return () if text == "none" else tuple(map(int, text.split(",")))
    if kind == WORDS:
        return tuple(text.split(","))
    if kind is bool:
        if text not in {"yes", "no"}:
            raise ValueError(f"{text!r} is neither yes nor no")
        return text == "yes"
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(text)
        except ValueError:
            every = ", ".join(str(each.value) for each in kind)
            raise ValueError(f"{text!r} is none of: {every}") from None
    return int(text) if kind is int else text


def split(line: str) -> dict[str, str]:
    """Return the keys of a line with their texts."""
    texts: dict[str, str] = {}
    for pair in line.split()[1:]:
        key, equals, text = pair.partition("=")
        if not equals or key in texts:
            raise ScenarioError(f"{line!r}: {pair!r} is not a key=value of its own")
        texts[key] = text
    return texts
