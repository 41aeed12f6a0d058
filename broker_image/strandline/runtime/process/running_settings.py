"""Gives a running broker the settings of its Broker object (ADR 0056).

Made by `lifecycle`. `registration_watch` tells what the object says, `broker_service` takes what
changed, and the registration says what the broker works with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from strandline.config.broker import BrokerConfig
from strandline.config.running import (
    TakenSettings,
    take_running_settings,
    without_running_settings,
)
from strandline.log_fields import fields
from strandline.model import Registration, StoredBroker

from .registration_news import RegistrationNews

_log = logging.getLogger(__name__)

Settings = tuple[tuple[str, int | float], ...]
REFUSAL_LENGTH_MAX: Final = 1_024
"""Characters that the Broker object has room for."""


@dataclass(slots=True, eq=False)
class RunningSettings:
    """What this broker works with now; before `tell` it is the file alone."""

    file: BrokerConfig
    news: RegistrationNews
    """Gets the digest of what is in effect, and why other settings were refused."""
    _taken: TakenSettings = field(init=False)
    _wanted: Settings | None = field(default=None, init=False)
    _on_change: list[Callable[[BrokerConfig], None]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Begin with the file."""
        self._taken = without_running_settings(self.file)

    @property
    def config(self) -> BrokerConfig:
        """The settings to work with now."""
        return self._taken.config

    def follow(self, on_change: Callable[[BrokerConfig], None]) -> None:
        """Call on_change with each changed configuration from now on."""
        self._on_change.append(on_change)

    def registered(self, stored: StoredBroker, registration: Registration) -> Registration:
        """Take what a starting broker's object says; its registration tells the result."""
        self.tell(stored.settings)
        return self.news.added_to(registration)

    def tell(self, wanted: Settings) -> None:
        """Take what the Broker object says; what it said before is no news."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        before = self._taken
        self._taken = take_running_settings(self.file, dict(wanted), before)
        if self._taken.values != before.values:
            settings = dict(self._taken.values)
            _log.info("settings taken", extra=fields(digest=self._taken.digest, settings=settings))
            for on_change in self._on_change:
                on_change(self._taken.config)
        why = "; ".join(self._taken.refused)
        if why:
            _log.warning("settings refused, those from before stay", extra=fields(cause=why))
        self.news.works_with(self._taken.digest, why[:REFUSAL_LENGTH_MAX])
