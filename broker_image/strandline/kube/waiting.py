"""Waiting for the API server without a limit: pauses grow, and log lines say what is waited for."""

from __future__ import annotations

import asyncio
import logging
import time

from strandline.backoff import Backoff
from strandline.config.kubernetes import KubernetesConfig
from strandline.log_fields import fields

_log = logging.getLogger(__name__)


class WaitingReport:
    """Says what a broker waits for: at the first failure, then at a fixed interval."""

    def __init__(self, settings: KubernetesConfig) -> None:
        self._interval_seconds = settings.waiting_report_interval_ms / 1000
        self._begun: float | None = None
        self._due = 0.0

    def waiting_for(self, what: str, cause: object) -> None:
        """Log what the broker waits for and since when, if a line is due."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = self._due = now
        if now >= self._due:
            self._due = now + self._interval_seconds
            waited = round(now - self._begun, 3)
            _log.warning(
                "waiting", extra=fields(waiting_for=what, waited_seconds=waited, cause=str(cause))
            )

    def reset(self) -> None:
        """Report the next failure at once, as the first one."""
        self._begun = None


class Pauses:
    """Waits between tries, longer each time."""

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
