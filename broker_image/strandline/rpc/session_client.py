"""A broker's end of the session with the active controller.

Opened by the shell of `controller_session`, which chooses the controller and decides on retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.controller_session.messages import BrokerMessage, ControllerMessage
from strandline.log_fields import fields
from strandline_api.v1 import controller_pb2 as pb

from . import convert
from .session_parts import PartJoiner, parts_of
from .streams import StreamClient, write_message

_log = logging.getLogger(__name__)

METHOD = "/strandline.v1.Controller/Session"


class SessionClient(StreamClient):
    """One stream; on_message gets the controller's messages."""

    def __init__(
        self,
        address: str,
        settings: GrpcConfig,
        *,
        on_message: Callable[[ControllerMessage], None],
        on_broken: Callable[[], None],
    ) -> None:
        super().__init__(
            address,
            settings,
            METHOD,
            on_broken=on_broken,
            request_serializer=pb.BrokerMessage.SerializeToString,
            response_deserializer=pb.ControllerMessage.FromString,
        )
        self._on_message = on_message
        self._settings = settings
        # A full queue means that the controller does not read: the session ends.
        self._outgoing: asyncio.Queue[pb.BrokerMessage] = asyncio.Queue(settings.session_queue_max)

    def send(self, message: BrokerMessage) -> None:
        """Send a message behind all earlier ones."""
        parts = parts_of(convert.BROKER_MESSAGE.encode(message), self._settings)
        if parts is None:
            self._given_up.set()
            return
        try:
            for part in parts:
                self._outgoing.put_nowait(part)
        except asyncio.QueueFull:
            self._given_up.set()

    def _parts(self) -> tuple[Coroutine[Any, Any, object], ...]:
        return self._write(), self._read()

    def _log_breach(self, breach: Exception) -> None:
        _log.warning("session closed", extra=fields(cause=str(breach)))

    async def _write(self) -> None:
        while True:
            await write_message(self._call.write, await self._outgoing.get())

    async def _read(self) -> None:
        joiner = PartJoiner(pb.ControllerMessage, self._settings)
        while (received := await self._call.read()) is not grpc.aio.EOF:
            message = joiner.take(received)
            if message is not None:
                self._on_message(convert.CONTROLLER_MESSAGE.decode(message))
