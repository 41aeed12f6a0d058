"""A plain connection to each other live broker, which tells of a peer's death at once.

The kernel of a process that dies ends its connections with it, those of its clients among them. A
client asks another broker for metadata 0.3 ms later, before gRPC has told that broker anything: its
streams end in threads of its own. This connection ends in the event loop, which therefore knows of
the death before it sees the client's request. It leads to the peer's listener for clients, asks
once for ApiVersions, and is replaced before that listener would close it as idle. It decides
nothing (ADR 0076).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from strandline.backoff import Backoff
from strandline.kafka_listener.schemas import API_VERSIONS
from strandline.model import INTERNAL_LISTENER, BrokerId, Endpoint, LiveBroker
from strandline.runtime.event_loop.begun_tasks import BegunTasks

PER_IDLE_LIMIT: Final = 3
"""Connections, one after the other, in the time after which a listener closes one as idle."""
CONNECT_SECONDS: Final = 5.0
PAUSES: Final = Backoff(first_ms=10, max_ms=30_000)
"""Between attempts: the first one after a loss is soon, in case the peer did not die. A peer that
starts is announced before it serves clients."""

_VERSION = _CORRELATION_ID = 0
_NO_CLIENT_ID = -1
_HEADER = struct.Struct(">hhih")
ASK: Final = struct.pack(">i", _HEADER.size) + _HEADER.pack(
    API_VERSIONS, _VERSION, _CORRELATION_ID, _NO_CLIENT_ID
)


class _Connection(asyncio.Protocol):
    """One connection; its end is told in the event itself, not a turn of the loop later."""

    def __init__(self, on_heard: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_heard, self._on_lost = on_heard, on_lost
        self.is_answered = False
        """What is refused, or not served yet, tells of no death."""
        self.is_over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(ASK)

    def data_received(self, _: bytes) -> None:
        self.is_answered = True
        self._on_heard()

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, _: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.is_over.is_set():
            self.is_over.set()
            if self.is_answered:
                self._on_lost()


@dataclass(slots=True, kw_only=True, eq=False)
class PeerConnections:
    """One connection to each live broker but this one, as long as the metadata name it."""

    own: BrokerId
    live_brokers: Callable[[], Iterable[LiveBroker]]
    on_heard: Callable[[BrokerId], None]
    on_lost: Callable[[BrokerId], None]
    idle_max_ms: int
    _kept: dict[LiveBroker, BegunTasks] = field(default_factory=dict, init=False)
    _ending: BegunTasks = field(default_factory=BegunTasks, init=False)

    def note_metadata(self) -> None:
        """Connect to brokers that are new, or have another epoch or address; leave former ones."""
        live = {each for each in self.live_brokers() if each.broker_id != self.own}
        if live == self._kept.keys():
            return
        for former in self._kept.keys() - live:
            self._ending.begin(self._kept.pop(former).close())
        for new in live - self._kept.keys():
            endpoint = new.endpoint(INTERNAL_LISTENER)
            tasks = self._kept[new] = BegunTasks()
            if endpoint is not None:
                tasks.begin(self._keep(new.broker_id, endpoint))

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(tasks.close() for tasks in self._kept.values()))
        self._kept.clear()
        await self._ending.all_done()

    async def _keep(self, broker_id: BrokerId, endpoint: Endpoint) -> None:
        failures = 0
        while True:
            if await self._connect(broker_id, endpoint):
                failures = 0
                continue
            failures += 1
            await asyncio.sleep(PAUSES.after_ms(failures) / 1000)

    async def _connect(self, broker_id: BrokerId, endpoint: Endpoint) -> bool:
        """Keep one connection for its time; False if it ended before, or there was none."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport, connection = await loop.create_connection(
                    lambda: _Connection(
                        partial(self.on_heard, broker_id), partial(self.on_lost, broker_id)
                    ),
                    endpoint.host,
                    endpoint.port,
                )
        except OSError:
            return False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.idle_max_ms / 1000 / PER_IDLE_LIMIT):
                    await connection.is_over.wait()
            return connection.is_answered and not connection.is_over.is_set()
        finally:
            connection.is_over.set()
            transport.abort()
