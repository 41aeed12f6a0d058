"""HTTP for Kubernetes and Prometheus: /live, /ready, /metrics.

/live: this handler ran, so the event loop runs; the pod's probe says how long it may stand
still. /ready: asks the callable that `lifecycle` hands over, which latches and never looks at
lag or ISR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from strandline import names
from strandline.log_fields import fields

from .metrics import Metrics

HEADER_BYTES_MAX: Final = 8 << 10
SHUTDOWN_SECONDS: Final = 0.2
REASON_SHOWN_CHARACTERS: Final = 200

_log = logging.getLogger(__name__)


class _MalformedRequests(logging.Filter):
    """Turns aiohttp's reports of bytes that are no HTTP into lines like those of other ports.

    aiohttp reports such bytes only in its log: some at DEBUG, which we do not write, the rest
    as errors with a traceback, although nothing here failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a line about a malformed request; let other lines above DEBUG pass."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return record.levelno > logging.DEBUG
        (peer,) = record.args if isinstance(record.args, tuple) else ("",)
        reason = str(error.message)[:REASON_SHOWN_CHARACTERS]
        _log.warning(
            "malformed request, connection closed", extra=fields(peer=str(peer), reason=reason)
        )
        return False


def _http_logger() -> logging.Logger:
    """Return the logger to hand to aiohttp; its DEBUG lines must reach the filter."""
    logger = logging.getLogger(f"{__name__}.http")
    logger.setLevel(logging.DEBUG)
    if not logger.filters:
        logger.addFilter(_MalformedRequests())
    return logger


class ProbeServer:
    """The HTTP port of a process."""

    def __init__(self, metrics: Metrics, *, ready: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._ready = ready
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> int:
        """Listen on all addresses and return the port, a free one for 0; OSError if it is taken."""
        application = web.Application()
        application.router.add_get("/live", self._respond_live)
        application.router.add_get("/ready", self._respond_ready)
        application.router.add_get("/metrics", self._respond_metrics)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_http_logger(),
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "0.0.0.0", port).start()
        address = self._runner.addresses[0]
        return int(address[1])

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _respond_live(self, _: web.Request) -> web.Response:
        return web.Response(text="live\n")

    async def _respond_ready(self, _: web.Request) -> web.Response:
        if self._ready():
            return web.Response(text="ready\n")
        return web.Response(status=503, text="not ready\n")

    async def _respond_metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=await self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


async def measure_loop_lag(metrics: Metrics, *, interval_ms: int) -> None:
    """Observe for ever by how much the event loop is late."""
    loop = asyncio.get_running_loop()
    lag = metrics.histogram(names.EVENT_LOOP_LAG_SECONDS)
    while True:
        due = loop.time() + interval_ms / 1000
        await asyncio.sleep(interval_ms / 1000)
        lag.observe(max(0.0, loop.time() - due))
