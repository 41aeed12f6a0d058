"""The controller's end of the sessions with brokers.

Registered on every broker's gRPC server: a broker's `Controller` refuses sessions while another
broker is the controller. The server turns messages of brokers into events of the controller and
its effects into messages, which leave each session in the order of the effects.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from strandline.config.network import GrpcConfig
from strandline.controller.effects import CloseSession, SessionEffect
from strandline.controller.events import ControllerEvent, SessionBroken
from strandline.controller_session.messages import Hello
from strandline.controller_session.session_translation import events_of, messages_of
from strandline.log_fields import fields
from strandline.model import BrokerId
from strandline_api.v1 import controller_pb2 as pb

from . import convert
from .session_parts import PartJoiner, parts_of
from .streams import until_one_ends, write_message

_log = logging.getLogger(__name__)

SERVICE = "strandline.v1.Controller"
SESSIONS_MAX = 1_000
"""Streams one process accepts; a cluster has at most a hundred brokers."""


class _Session:
    """One stream and its outgoing messages; None ends it, an overflow gives it up."""

    def __init__(self, session_id: int, *, queue_max: int) -> None:
        self.session_id = session_id
        self.broker_id: BrokerId | None = None
        self.closed_by_us = False
        self.given_up = asyncio.Event()
        self._outgoing: asyncio.Queue[pb.ControllerMessage | None] = asyncio.Queue(queue_max)

    def put(self, message: pb.ControllerMessage | None) -> None:
        try:
            self._outgoing.put_nowait(message)
        except asyncio.QueueFull:
            _log.warning("session given up", extra=fields(peer=self.broker_id))
            self.given_up.set()

    async def write_all(self, write: Callable[[pb.ControllerMessage], Awaitable[object]]) -> None:
        while (message := await self._outgoing.get()) is not None:
            await write_message(write, message)


class SessionServer:
    """All sessions of this process; on_event is the controller's driver."""

    def __init__(
        self,
        broker_id: BrokerId,
        settings: GrpcConfig,
        *,
        on_event: Callable[[ControllerEvent], None],
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._on_event = on_event
        self._sessions: dict[int, _Session] = {}
        self._ids = itertools.count(1)

    def service(self) -> grpc.GenericRpcHandler:
        """Return the gRPC service to register."""
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve,
            request_deserializer=_parse_broker_message,
            response_serializer=pb.ControllerMessage.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Session": handler})

    def perform(self, effect: SessionEffect) -> None:
        """Send the controller's messages; drop them if their session is gone."""
        session = self._sessions.get(effect.session_id)
        if session is None:
            return
        for message in messages_of(effect, controller_id=self._broker_id):
            parts = parts_of(convert.CONTROLLER_MESSAGE.encode(message), self._settings)
            if parts is None:
                session.given_up.set()
                return
            for part in parts:
                session.put(part)
        if isinstance(effect, CloseSession):
            session.closed_by_us = True
            session.put(None)

    async def _serve(
        self, _: object, context: grpc.aio.ServicerContext[pb.BrokerMessage, pb.ControllerMessage]
    ) -> None:
        if len(self._sessions) >= SESSIONS_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many sessions")
        session = _Session(next(self._ids), queue_max=self._settings.session_queue_max)
        self._sessions[session.session_id] = session

        def on_end() -> None:
            del self._sessions[session.session_id]
            # In this turn: gRPC may cancel this handler in any other, when the broker is gone.
            if session.broker_id is not None and not session.closed_by_us:
                self._on_event(
                    SessionBroken(session_id=session.session_id, broker_id=session.broker_id)
                )

        parts = (
            session.write_all(context.write),
            self._read(context, session),
            session.given_up.wait(),
        )
        breach = await until_one_ends(*parts, on_end=on_end)
        if breach is not None:
            _log.warning("session closed", extra=fields(peer=context.peer(), cause=str(breach)))

    async def _read(
        self,
        context: grpc.aio.ServicerContext[pb.BrokerMessage, pb.ControllerMessage],
        session: _Session,
    ) -> None:
        joiner = PartJoiner(pb.BrokerMessage, self._settings)
        while (received := await context.read()) is not grpc.aio.EOF:
            whole = joiner.take(received)
            if whole is None:
                continue
            message = convert.BROKER_MESSAGE.decode(whole)
            if isinstance(message, Hello):
                if session.broker_id is not None:
                    raise ValueError("a second hello on one stream")
                session.broker_id = message.broker_id
            if session.broker_id is None:
                raise ValueError(f"{received.WhichOneof('message')} before hello")
            for event in events_of(
                message, session_id=session.session_id, broker_id=session.broker_id
            ):
                self._on_event(event)


def _parse_broker_message(data: bytes) -> pb.BrokerMessage:
    """Return the message; ValueError if the bytes are none, as for any malformed message."""
    try:
        return pb.BrokerMessage.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
