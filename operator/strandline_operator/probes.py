"""The operator's probes: /ready speaks of definitions and watches, /live of stuck watches.

The answer of a probe that fails names the cause. kopf's own endpoint knows neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from strandline.errors import ConfigError

from .watches import Watches, monotonic_ms


class Health:
    """What the probes answer: what is waited for, first at the start, then the watches."""

    def __init__(self) -> None:
        self._watches: Watches | None = None
        self._waiting_for = "the API server"

    def waits_for(self, sentence: str) -> None:
        """Say what the operator waits for, "" for nothing."""
        self._waiting_for = sentence

    def started(self, watches: Watches) -> None:
        """Wait for nothing, and let the watches decide from now on."""
        self._watches, self._waiting_for = watches, ""

    def not_ready(self) -> list[str]:
        """Return why the operator works on nothing, or on old state."""
        waiting = [f"waiting for {self._waiting_for}"] if self._waiting_for else []
        if self._watches is None:
            return waiting
        return waiting + self._watches.not_open(monotonic_ms())

    def not_alive(self) -> list[str]:
        """Return why only a new process can help."""
        return [] if self._watches is None else self._watches.stuck(monotonic_ms())


@asynccontextmanager
async def serve(health: Health, port: int) -> AsyncIterator[None]:
    """Answer probes at all addresses while the context lasts; not at all with port 0.

    Raises:  ConfigError if the port is taken
    """
    if not port:
        yield
        return
    application = web.Application()
    application.router.add_get("/ready", _answer(health.not_ready))
    application.router.add_get("/live", _answer(health.not_alive))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, "0.0.0.0", port).start()
        except OSError as error:
            raise ConfigError(f"HTTP_PORT {port}: {error}") from error
        yield
    finally:
        await runner.cleanup()


def _answer(
    failures: Callable[[], list[str]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def respond(_: web.Request) -> web.StreamResponse:
        found = failures()
        return web.Response(text="\n".join(found) or "ok", status=503 if found else 200)

    return respond
