"""The settings that a running broker takes over, and the digest by which operators see that it did.

Pure. The operator writes the settings that apply to running brokers into `Broker.spec.config`, all
others into the file that pods mount (ADR 0056). Both sides make the digest here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from strandline.errors import ConfigError

from .broker import CONCERNS, SETTINGS, BrokerConfig
from .declaration import Applies, Setting, build, refuse_unknown_keys

DIGEST_LENGTH: Final = 16
"""Hexadecimal digits of a digest: enough to tell the configurations of one cluster apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSettings:
    """What a broker made of the settings that it was given while it runs.

    config is what it now works with, values are the accepted settings by key, and refused says in
    a sentence for each key why the value from before stays.
    """

    config: BrokerConfig
    values: Mapping[str, object]
    digest: str
    refused: tuple[str, ...] = ()


def without_running_settings(file: BrokerConfig) -> TakenSettings:
    """Return what a broker works with that was given nothing but its file."""
    return TakenSettings(config=file, values={}, digest=settings_digest(file.given))


def take_running_settings(
    file: BrokerConfig, wanted: Mapping[str, object], before: TakenSettings
) -> TakenSettings:
    """Lay settings over those of the file; a key that is not wanted any more gets the file's value.

    A refused key keeps the value that it had before, and the other keys are taken.
    """
    values: dict[str, object] = {}
    refused = []
    for key, value in sorted(wanted.items()):
        try:
            values[key] = _running_setting(key).check(value)
        except ConfigError as error:
            refused.append(str(error))
            if key in before.values:
                values[key] = before.values[key]
    built = {name: build(getattr(file, name), values) for name in CONCERNS}
    return TakenSettings(
        config=replace(file, **built),
        values=values,
        digest=settings_digest({**file.given, **values}),
        refused=tuple(refused),
    )


def _running_setting(key: str) -> Setting:
    """Return a setting that applies to running brokers; ConfigError for another key."""
    refuse_unknown_keys({key: None}, frozenset(SETTINGS))
    if SETTINGS[key].applies is not Applies.RUNNING:
        raise ConfigError(f"{key}: a running broker does not take it over")
    return SETTINGS[key]


def settings_digest(values: Mapping[str, object]) -> str:
    """Return the digest of settings by key, without those that only topics have.

    It knows no defaults: a broker of another version may have others.
    """
    counted = {
        key: _plain(SETTINGS[key], value)
        for key, value in values.items()
        if SETTINGS[key].applies is not Applies.TOPIC
    }
    canonical = json.dumps(counted, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_LENGTH]


def _plain(setting: Setting, value: object) -> object:
    """Return one form of a number: the API server stores 1.0 as 1."""
    return float(value) if setting.kind is float and isinstance(value, int) else value
