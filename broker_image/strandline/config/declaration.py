"""How a setting is declared and checked: key, type, accepted range.

A concern is a frozen dataclass whose fields are made with `integer`, `fraction` or `text`. Loading
refuses unknown keys: a misspelt key must not silently leave a default in place, because
several defaults decide about durability.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from strandline.errors import ConfigError

_METADATA_KEY = "strandline.setting"
INT64_MAX: Final = (1 << 63) - 1
TEXT_MAX: Final = 4096

Value = int | float | str
Plain = TypeVar("Plain", int, float, str)
Concern = TypeVar("Concern")


class Applies(Enum):
    """When a changed value takes effect (ADR 0056)."""

    RESTART = "restart"
    """At the next start of the broker: several parts were made with the value, or all brokers
    have to agree on it."""

    RUNNING = "running"
    """At once, in a running broker. Only keys that one part reads anew each time, and that no check
    of a combination reads."""

    TOPIC = "topic"
    """At once, with each topic's effective configuration: the broker's own value has no part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Key of a setting and the values it accepts."""

    key: str
    """Key in the configuration file; Kafka's where Kafka has one."""
    kind: type
    """int, float or str."""
    minimum: float = 0
    maximum: float = 0
    choices: tuple[str, ...] = ()
    since: int = 1
    """Version of the keys that first had this one; a new key gets the next version."""
    applies: Applies = Applies.RESTART

    def accepted(self) -> str:
        """Return the accepted values in words, for an error message."""
        if self.kind is int:
            return f"an integer from {self.minimum} to {self.maximum}"
        if self.kind is float:
            return f"a fraction from {self.minimum} to {self.maximum}"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return f"a text of {self.minimum} to {self.maximum} characters"

    def check(self, value: object) -> Value:
        """Return an accepted value; otherwise ConfigError names the key and the accepted values."""
        # bool is a subclass of int: `true` must not pass as the number 1.
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is self.kind and self._in_range(value):
            return value  # type: ignore[return-value]  # kind is int, float or str
        raise ConfigError(f"{self.key}: {value!r} is not accepted; give {self.accepted()}")

    def _in_range(self, value: object) -> bool:
        if isinstance(value, int | float):
            return self.minimum <= value <= self.maximum
        if self.choices:
            return value in self.choices
        return self.minimum <= len(str(value)) <= self.maximum


def integer(
    key: str,
    default: int,
    bounds: tuple[int, int],
    *,
    since: int = 1,
    applies: Applies = Applies.RESTART,
) -> int:
    """Declare an integer field; bounds are the smallest and the largest accepted value."""
    return _declare(key, default, bounds, since=since, applies=applies)


def fraction(
    key: str,
    default: float,
    bounds: tuple[float, float],
    *,
    since: int = 1,
    applies: Applies = Applies.RESTART,
) -> float:
    """Declare a part of a whole; bounds are the smallest and the largest accepted value."""
    return _declare(key, float(default), bounds, since=since, applies=applies)


def text(key: str, default: str, *, minimum: int = 0) -> str:
    """Declare a text field; the bounds count characters."""
    return _declare(key, default, (minimum, TEXT_MAX))


def _declare(
    key: str,
    default: Plain,
    bounds: tuple[float, float],
    *,
    since: int = 1,
    applies: Applies = Applies.RESTART,
) -> Plain:
    low, high = bounds
    setting = Setting(
        key=key, kind=type(default), minimum=low, maximum=high, since=since, applies=applies
    )
    field: Plain = dataclasses.field(default=default, metadata={_METADATA_KEY: setting})
    return field


def settings_of(concern: type) -> Iterator[tuple[str, Setting, Any]]:
    """Yield (field name, setting, default) of each declared field of a concern."""
    for field in dataclasses.fields(concern):
        setting = field.metadata.get(_METADATA_KEY)
        if setting is not None:
            yield field.name, setting, field.default


def build(defaults: Concern, values: Mapping[str, object]) -> Concern:
    """Return a concern with a file's values, else its defaults; ConfigError if one is refused."""
    taken: dict[str, Any] = {
        name: setting.check(values[setting.key])
        for name, setting, _ in settings_of(type(defaults))
        if setting.key in values
    }
    return dataclasses.replace(defaults, **taken)  # type: ignore[type-var]  # it is a dataclass


def refuse_unknown_keys(values: Mapping[str, object], known: frozenset[str]) -> None:
    """Refuse keys that no concern declares; the ConfigError names the nearest known key."""
    for key in sorted(str(key) for key in values):
        if key not in known:
            near = difflib.get_close_matches(key, sorted(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{key}: unknown setting{hint}")
