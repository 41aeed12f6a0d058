"""The port for Kafka's clients: opened once the first full state was applied.

Before that a broker does not know what it leads, and would send clients away.
"""

from __future__ import annotations

import asyncio
import socket

from strandline.broker_interface import Broker
from strandline.config.network import KafkaListenerConfig
from strandline.kafka_listener import server
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.observer import ListenerObserver
from strandline.model import INTERNAL_LISTENER


class ClientListener:
    """One listener; bound is a socket with its port, on which nothing listens yet."""

    def __init__(
        self,
        broker: Broker,
        bound: socket.socket,
        config: KafkaListenerConfig,
        observer: ListenerObserver,
    ) -> None:
        self._broker = broker
        self._bound = bound
        self._config = config
        self._observer = observer
        self._is_allowed = asyncio.Event()
        self._listener: server.KafkaListener | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether clients are served, or were until `close`."""
        return self._listener is not None

    def allow(self) -> None:
        """Open the port: the first full state was applied."""
        self._is_allowed.set()

    async def run(self) -> None:
        """Wait until clients are allowed and let them in."""
        await self._is_allowed.wait()
        self._listener = await server.start(
            bound=self._bound,
            listener_name=INTERNAL_LISTENER,
            broker=self._broker,
            settings=ListenerSettings.from_config(self._config),
            observer=self._observer,
        )

    async def close(self) -> None:
        """Serve clients no more; may be called again."""
        if self._listener is not None:
            await self._listener.close()
