"""Open a port for clients and close it again.

Called by `runtime`, which decides when clients may come. Several listeners can stand in front of
one broker; the name of each decides the addresses in its metadata responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from functools import partial

from strandline.broker_interface import Broker
from strandline.log_fields import fields

from .client_bounds import ClientBounds
from .connection import KafkaConnection, ListenerState
from .listener_settings import ListenerSettings
from .observer import ListenerObserver
from .response import RequestContext

_log = logging.getLogger(__name__)

SWEEPS_PER_TIMEOUT = 4
"""The sweeper looks for overdue connections this many times within the shortest timeout."""


@dataclass(slots=True, kw_only=True, eq=False)
class KafkaListener:
    """An open port."""

    port: int
    _server: asyncio.Server
    _shared: ListenerState
    _sweeper: asyncio.Task[None]

    async def close(self, *, grace_ms: int = 0) -> None:
        """Accept no client any more, send responses for up to grace_ms, then cut the rest."""
        shared = self._shared
        shared.close()
        self._server.close()
        self._sweeper.cancel()
        await asyncio.gather(self._sweeper, return_exceptions=True)
        if grace_ms:
            for connection in list(shared.connections):
                connection.end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_ms / 1000):
                    await shared.is_empty.wait()
        for connection in list(shared.connections):
            connection.abort()
        await shared.is_empty.wait()
        name = shared.context.listener_name
        _log.info("kafka listener closed", extra=fields(listener=name, port=self.port))


async def start(
    *,
    listener_name: str,
    broker: Broker,
    bound: socket.socket,
    settings: ListenerSettings,
    observer: ListenerObserver,
    bounds: ClientBounds,
) -> KafkaListener:
    """Open the port and serve clients on the running event loop.

    The caller has bound the socket: a broker registers its port long before clients may come, and
    no other process may take the port meanwhile. Until the socket listens, the kernel refuses
    clients. From here on the listener owns the socket. All listeners of a broker get one `bounds`.
    """
    loop = asyncio.get_running_loop()
    shared = ListenerState(
        context=RequestContext(
            broker=broker,
            listener_name=listener_name,
            settings=settings,
            response_memory=bounds.response_memory,
        ),
        observer=observer,
        bounds=bounds,
    )
    shared.is_empty.set()
    new_connection = partial(KafkaConnection, shared, loop)
    port = bound.getsockname()[1]
    server = await loop.create_server(new_connection, sock=bound, backlog=settings.listen_backlog)
    _log.info("kafka listener open", extra=fields(listener=listener_name, port=port))
    sweeper = loop.create_task(_sweep(shared, settings))
    return KafkaListener(port=port, _server=server, _shared=shared, _sweeper=sweeper)


async def _sweep(shared: ListenerState, settings: ListenerSettings) -> None:
    """Close connections whose client keeps a frame incomplete or is silent for too long."""
    shortest_ms = min(
        settings.receive_timeout_ms, settings.response_timeout_ms, settings.connection_idle_max_ms
    )
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(shortest_ms / 1000 / SWEEPS_PER_TIMEOUT)
        for connection in list(shared.connections):
            connection.abort_if_overdue(loop.time())
            connection.abort_if_keeping_memory(loop.time())
