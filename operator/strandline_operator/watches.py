"""When each watch of the operator was asked for and opened last, and which of them are broken.

kopf reopens a watch whenever it ends, and says nothing when it cannot. Every watch ends after
WATCH_SERVER_TIMEOUT_SECONDS, so one that was not opened for much longer shows nothing any more.
Times are ms of a monotonic clock, handed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from types import SimpleNamespace

import aiohttp

from . import operator_config


@dataclass(slots=True, kw_only=True)
class _Watch:
    """One watch; asked_since_ms is None while it is open."""

    opened_ms: int | None = None
    asked_since_ms: int | None = None
    tried_ms: int


class Watches:
    """All watches, by the path of what they watch."""

    def __init__(
        self, paths: Iterable[str], *, now_ms: int, on_listed_again: Callable[[], None]
    ) -> None:
        self._watches = {path: _Watch(tried_ms=now_ms) for path in paths}
        self._listed: set[str] = set()
        self._on_listed_again = on_listed_again

    def on_listed(self, path: str) -> None:
        """Note that kopf lists a kind, which it does again when a watch has expired.

        kopf tells of what such a list has, and not of what went while there was no watch.
        """
        if path in self._listed:
            self._on_listed_again()
        elif path in self._watches:
            self._listed.add(path)

    def on_asked(self, path: str, now_ms: int) -> None:
        """Note that kopf asks for a watch."""
        watch = self._watches.get(path)
        if watch is not None:
            watch.tried_ms = now_ms
            if watch.asked_since_ms is None:
                watch.asked_since_ms = now_ms

    def on_opened(self, path: str, now_ms: int) -> None:
        """Note that the API server took a watch."""
        watch = self._watches.get(path)
        if watch is not None:
            watch.opened_ms, watch.asked_since_ms = now_ms, None

    def not_open(self, now_ms: int) -> list[str]:
        """Return a sentence for each watch that shows no changes at present."""
        sentences = (_why(path, watch, now_ms) for path, watch in self._watches.items())
        return [sentence for sentence in sentences if sentence]

    def stuck(self, now_ms: int) -> list[str]:
        """Return a sentence for each watch that kopf does not even ask for any more.

        While the API server is away kopf asks again and again, and a restart would not help.
        """
        limit = operator_config.WATCH_STUCK_MS
        return [
            f"watch {path}: not asked for in {now_ms - watch.tried_ms} ms, limit {limit} ms"
            for path, watch in self._watches.items()
            if now_ms - watch.tried_ms > limit
        ]


def _why(path: str, watch: _Watch, now_ms: int) -> str:
    """Return why a watch shows no changes, "" if it does."""
    if watch.opened_ms is None:
        return f"watch {path}: not open yet"
    age_ms = now_ms - watch.opened_ms
    if age_ms > operator_config.WATCH_AGE_MAX_MS:
        limit = operator_config.WATCH_AGE_MAX_MS
        return f"watch {path}: not opened again in {age_ms} ms, limit {limit} ms"
    if watch.asked_since_ms is None:
        return ""
    asked_ms = now_ms - watch.asked_since_ms
    limit = operator_config.WATCH_DOWN_MAX_MS
    return f"watch {path}: down for {asked_ms} ms, limit {limit} ms" if asked_ms > limit else ""


def tracing(watches: Watches) -> aiohttp.TraceConfig:
    """Return what tells `watches` of the requests of an HTTP session."""

    async def on_start(
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        params: aiohttp.TraceRequestStartParams,
    ) -> None:
        if params.url.query.get("watch") == "true":
            watches.on_asked(params.url.path, monotonic_ms())

    async def on_end(
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        if params.response.status != HTTPStatus.OK:
            return
        if params.url.query.get("watch") == "true":
            watches.on_opened(params.url.path, monotonic_ms())
        elif params.method == "GET" and "continue" not in params.url.query:
            watches.on_listed(params.url.path)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(on_start)
    trace.on_request_end.append(on_end)
    return trace


def monotonic_ms() -> int:
    """Return the time that watches are measured by."""
    return time.monotonic_ns() // 1_000_000
