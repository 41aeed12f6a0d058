"""A proxy before a real API server: it refuses writes, and acts before or after a write passes.

It passes everything else on, watches included. A client reaches it through a kubeconfig of its own
and keeps its own token. The proxy lives in a thread; the test's thread sets what it does.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
START_LIMIT_SECONDS = 10
CLOSING_TURNS = 10
PASSED_ON = frozenset({"authorization", "accept", "content-type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write that reached the proxy; plural is the kind's last path part, as `partitions`."""

    method: str
    path: str

    @property
    def plural(self) -> str:
        """Return the plural of the kind that the write is about."""
        parts = self.path.split("/")
        return parts[parts.index("namespaces") + 2] if "namespaces" in parts else parts[-1]

    def is_about(self, name: str) -> bool:
        """Tell whether the write names this object; a create names none."""
        return name in self.path.split("/")


EXPIRED = (
    json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    + "\n"
).encode()
"""What an API server writes into a watch of a version that it no longer knows."""


class _CutConnection(ResponseHandler):
    """Closes at once."""

    def close(self) -> None:
        """Close without the farewell of TLS."""
        self.abort()


class ApiProxy:
    """The API server of one kubeconfig, at another address."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = folder / f"{kubeconfig.name}-through-proxy"
        self.refusal: Callable[[Write], int | None] = lambda _: None
        """Returns the HTTP status that refuses a write, None if it may pass."""
        self.before: Callable[[Write], None] = lambda _: None
        self.after: Callable[[Write], None] = lambda _: None
        """Run before a write is passed on, and when the API server has done it."""
        self.refused = 0
        self.hides_changes = False
        """Whether watches show nothing more; `expire_watches` then ends them."""
        self._expired = asyncio.Event()
        config = yaml.safe_load(kubeconfig.read_text())
        self._target = config["clusters"][0]["cluster"]["server"]
        authority = config["clusters"][0]["cluster"]
        self._tls = ssl.create_default_context(
            cadata=base64.b64decode(authority["certificate-authority-data"]).decode()
        )
        self._config = config
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        """Serve, and write the kubeconfig that leads here."""
        self._thread.start()
        assert self._ready.wait(START_LIMIT_SECONDS)

    def stop(self) -> None:
        """End all connections and the thread."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(START_LIMIT_SECONDS)
        assert not self._thread.is_alive()

    def expire_watches(self) -> None:
        """End all open watches as an API server does that no longer knows their version."""
        self._loop.call_soon_threadsafe(self._expire)

    def _expire(self) -> None:
        expired, self._expired = self._expired, asyncio.Event()
        self.hides_changes = False
        expired.set()

    def _serve(self) -> None:
        self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        cluster = {"server": f"http://127.0.0.1:{port}"}
        self._config["clusters"][0]["cluster"] = cluster
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(self._config))
        connector: Any = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        # As the shipped client does: in an orderly close, TLS would outlive this loop.
        connector._factory = partial(_CutConnection, loop=self._loop)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            self._session = session
            self._ready.set()
            await self._ended.wait()
            await runner.cleanup()
        # The transports close in the next turns of the loop.
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        write = Write(method=request.method, path=request.path)
        is_write = request.method in WRITES
        if is_write:
            status = self.refusal(write)
            if status is not None:
                self.refused += 1
                return _refused(status)
            self.before(write)
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() in PASSED_ON}
        async with self._session.request(
            request.method, f"{self._target}{request.rel_url}", data=body or None, headers=headers
        ) as found:
            if is_write and found.status < 300:
                self.after(write)
            response = web.StreamResponse(status=found.status)
            response.content_type = found.content_type
            with suppress(ConnectionError, aiohttp.ClientError):
                await response.prepare(request)
                passing = asyncio.ensure_future(self._pass_on(found, response))
                waiting = {passing}
                if request.query.get("watch") == "true":
                    waiting.add(asyncio.ensure_future(self._expired.wait()))
                done, open_ones = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in open_ones:
                    each.cancel()
                if passing in done:
                    passing.result()
                else:
                    await response.write(EXPIRED)
                await response.write_eof()
            return response

    async def _pass_on(self, found: aiohttp.ClientResponse, response: web.StreamResponse) -> bool:
        is_watch = found.url.query.get("watch") == "true"
        async for chunk in found.content.iter_any():
            if not (is_watch and self.hides_changes):
                await response.write(chunk)
        return True


def _refused(status: int) -> web.Response:
    """Return what the API server says when it refuses."""
    answer: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": "Refused",
        "message": "refused by the test",
    }
    return web.Response(
        status=status, body=json.dumps(answer).encode(), content_type="application/json"
    )
