"""Waiting without a limit: with pauses that double, and with log lines that say for what."""

from __future__ import annotations

import asyncio
import logging

from strandline.backoff import Backoff
from strandline.config.kubernetes import KubernetesConfig
from strandline.log_fields import fields

from .clock import Clock

_log = logging.getLogger(__name__)


class WaitingReport:
    """Says what a broker waits for: at once, then at a fixed interval."""

    def __init__(self, clock: Clock, *, interval_ms: int) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._begun_ms = clock.now_ms()
        self._due_ms = self._begun_ms

    def waiting_for(self, what: str, cause: object) -> None:
        """Log it if it is time to."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + self._interval_ms
            waited = (now_ms - self._begun_ms) / 1000
            _log.warning(
                "waiting",
                extra=fields(waiting_for=what, waited_seconds=waited, cause=str(cause)),
            )


class Pauses:
    """Waits between tries, until one of them works."""

    def __init__(self, settings: KubernetesConfig) -> None:
        self._backoff = Backoff(first_ms=settings.backoff_ms, max_ms=settings.backoff_max_ms)
        self._failures = 0

    async def pause(self) -> None:
        """Wait, and longer the next time."""
        self._failures += 1
        await asyncio.sleep(self._backoff.after_ms(self._failures) / 1000)

    def reset(self) -> None:
        """Begin with the shortest pause again."""
        self._failures = 0
