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
from strandline.controller.effects import (
    CloseSession,
    ReplyAlterPartition,
    ReplyControlledShutdown,
    SendFullState,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from strandline.controller.events import (
    BrokerResponseReceived,
    ControllerEvent,
    HeartbeatReceived,
    HostedReplica,
    HostedReported,
    IsrChangeRequested,
    SessionBroken,
    SessionOpened,
    ShutdownRequested,
)
from strandline.controller.store_events import ControllerEpochSeen
from strandline.errors import ErrorCode
from strandline.log_fields import fields
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from strandline_api.v1 import controller_pb2 as pb

from . import convert
from .streams import until_one_ends, write_message

_log = logging.getLogger(__name__)

SERVICE = "strandline.v1.Controller"
SESSIONS_MAX = 1_000
"""Streams one process accepts; a cluster has at most a hundred brokers."""

SessionEffect = (
    CloseSession
    | SendFullState
    | SendLeaderAndIsr
    | SendUpdateMetadata
    | SendStopReplica
    | ReplyAlterPartition
    | ReplyControlledShutdown
)


class _Session:
    """One stream and its outgoing messages; None ends it, an overflow gives it up."""

    def __init__(self, session_id: int, *, queue_max: int) -> None:
        self.session_id = session_id
        self.broker_id: BrokerId | None = None
        self.broker_epoch = BrokerEpoch(-1)
        self.closed_by_us = False
        self.ended = asyncio.Event()
        self._outgoing: asyncio.Queue[pb.ControllerMessage | None] = asyncio.Queue(queue_max)

    def put(self, message: pb.ControllerMessage | None) -> None:
        try:
            self._outgoing.put_nowait(message)
        except asyncio.QueueFull:
            _log.warning("session given up", extra=fields(peer=self.broker_id))
            self.ended.set()

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
        self._queue_max = settings.session_queue_max
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
        """Send the controller's message; drop it if its session is gone."""
        session = self._sessions.get(effect.session_id)
        if session is None:
            return
        match effect:
            case SendLeaderAndIsr():
                session.put(_leader_and_isr(effect))
            case SendUpdateMetadata():
                session.put(self._metadata(effect))
            case SendFullState():
                session.put(self._full_metadata(effect))
                session.put(_full_state(effect))
            case SendStopReplica():
                session.put(_stop_replica(effect))
            case ReplyAlterPartition():
                session.put(_isr_answer(effect))
            case ReplyControlledShutdown():
                answer = pb.ControlledShutdownAnswer(
                    request_id=effect.request_id, remaining=effect.remaining, error=effect.error
                )
                session.put(pb.ControllerMessage(controlled_shutdown_answer=answer))
            case CloseSession():
                session.closed_by_us = True
                refused = pb.SessionRefused(
                    error=effect.error, controller_epoch=effect.controller_epoch
                )
                session.put(pb.ControllerMessage(refused=refused))
                session.put(None)

    async def _serve(
        self, _: object, context: grpc.aio.ServicerContext[pb.BrokerMessage, pb.ControllerMessage]
    ) -> None:
        if len(self._sessions) >= SESSIONS_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many sessions")
        session = _Session(next(self._ids), queue_max=self._queue_max)
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
            session.ended.wait(),
        )
        breach = await until_one_ends(*parts, on_end=on_end)
        if breach is not None:
            _log.warning("session closed", extra=fields(peer=context.peer(), cause=str(breach)))

    async def _read(
        self,
        context: grpc.aio.ServicerContext[pb.BrokerMessage, pb.ControllerMessage],
        session: _Session,
    ) -> None:
        while True:
            message = await context.read()
            if message is grpc.aio.EOF:
                return
            for event in _decode_broker_message(message, session):
                self._on_event(event)

    def _metadata(self, effect: SendUpdateMetadata) -> pb.ControllerMessage:
        message = pb.UpdateMetadata(
            controller_epoch=effect.controller_epoch,
            broker_epoch=effect.broker_epoch,
            controller_id=self._broker_id,
            live_brokers=[convert.live_broker_to_wire(broker) for broker in effect.brokers],
            partitions=[convert.command_to_wire(part) for part in effect.partitions],
            removed=[convert.topic_partition_to_wire(tp) for tp in effect.removed],
        )
        return pb.ControllerMessage(update_metadata=message)

    def _full_metadata(self, effect: SendFullState) -> pb.ControllerMessage:
        message = pb.UpdateMetadata(
            controller_epoch=effect.controller_epoch,
            broker_epoch=effect.broker_epoch,
            controller_id=self._broker_id,
            live_brokers=[convert.live_broker_to_wire(broker) for broker in effect.brokers],
            partitions=[convert.command_to_wire(part) for part in effect.metadata],
            full=True,
        )
        return pb.ControllerMessage(update_metadata=message)


def _parse_broker_message(data: bytes) -> pb.BrokerMessage:
    """Return the message; ValueError if the bytes are none, as for any malformed message."""
    try:
        return pb.BrokerMessage.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error


def _decode_broker_message(
    message: pb.BrokerMessage, session: _Session
) -> tuple[ControllerEvent, ...]:
    """Return the events of a broker's message; ValueError ends its session."""
    kind = message.WhichOneof("message")
    if kind == "hello":
        return _hello(message.hello, session)
    if session.broker_id is None:
        raise ValueError(f"{kind} before hello")
    match kind:
        case "heartbeat":
            return _heartbeat(message.heartbeat, session, session.broker_id)
        case "alter_partition":
            alter = message.alter_partition
            return (
                IsrChangeRequested(
                    session_id=session.session_id,
                    request_id=alter.request_id,
                    broker_id=session.broker_id,
                    broker_epoch=BrokerEpoch(alter.broker_epoch),
                    tp=convert.topic_partition_from_wire(alter.tp),
                    leader_epoch=LeaderEpoch(alter.leader_epoch),
                    partition_epoch=PartitionEpoch(alter.partition_epoch),
                    isr=convert.isr_from_wire(alter.isr),
                ),
            )
        case "controlled_shutdown":
            return (
                ShutdownRequested(
                    session_id=session.session_id,
                    request_id=message.controlled_shutdown.request_id,
                    broker_id=session.broker_id,
                    broker_epoch=BrokerEpoch(message.controlled_shutdown.broker_epoch),
                ),
            )
        case "command_answer":
            answer = message.command_answer
            return (
                BrokerResponseReceived(
                    session_id=session.session_id,
                    request_id=answer.request_id,
                    broker_id=session.broker_id,
                    error=ErrorCode(answer.error),
                    controller_epoch=ControllerEpoch(answer.highest_controller_epoch),
                    partitions=tuple(
                        (convert.topic_partition_from_wire(part.tp), ErrorCode(part.error))
                        for part in answer.partitions
                    ),
                ),
            )
        case other:
            raise ValueError(f"unknown broker message {other}")


def _hello(hello: pb.Hello, session: _Session) -> tuple[ControllerEvent, ...]:
    if session.broker_id is not None:
        raise ValueError("a second hello on one stream")
    session.broker_id = BrokerId(hello.broker_id)
    session.broker_epoch = BrokerEpoch(hello.broker_epoch)
    opened = SessionOpened(
        session_id=session.session_id,
        broker_id=session.broker_id,
        broker_epoch=session.broker_epoch,
        clean_since_epoch=BrokerEpoch(hello.clean_since_epoch),
        incarnation=hello.incarnation,
        hosted=tuple(_hosted(replica) for replica in hello.hosted),
    )
    seen = ControllerEpoch(hello.highest_controller_epoch)
    return (ControllerEpochSeen(controller_epoch=seen), opened)


def _heartbeat(
    heartbeat: pb.Heartbeat, session: _Session, broker_id: BrokerId
) -> tuple[ControllerEvent, ...]:
    alive = HeartbeatReceived(
        session_id=session.session_id,
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(heartbeat.broker_epoch),
    )
    if not heartbeat.carries_hosted:
        return (alive,)
    hosted = tuple(_hosted(replica) for replica in heartbeat.hosted)
    report = HostedReported(session_id=session.session_id, broker_id=broker_id, hosted=hosted)
    return (alive, report)


def _hosted(message: pb.Hosted) -> HostedReplica:
    return HostedReplica(
        tp=convert.topic_partition_from_wire(message.tp),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        partition_epoch=PartitionEpoch(message.partition_epoch),
        last_epoch=LeaderEpoch(message.last_epoch),
        log_end_offset=message.log_end_offset,
    )


def _leader_and_isr(effect: SendLeaderAndIsr) -> pb.ControllerMessage:
    message = pb.LeaderAndIsr(
        request_id=effect.request_id,
        controller_epoch=effect.controller_epoch,
        broker_epoch=effect.broker_epoch,
        partitions=[convert.command_to_wire(part) for part in effect.partitions],
    )
    return pb.ControllerMessage(leader_and_isr=message)


def _full_state(effect: SendFullState) -> pb.ControllerMessage:
    message = pb.LeaderAndIsr(
        request_id=effect.request_id,
        controller_epoch=effect.controller_epoch,
        broker_epoch=effect.broker_epoch,
        partitions=[convert.command_to_wire(part) for part in effect.partitions],
        full=True,
    )
    return pb.ControllerMessage(leader_and_isr=message)


def _stop_replica(effect: SendStopReplica) -> pb.ControllerMessage:
    message = pb.StopReplica(
        request_id=effect.request_id,
        controller_epoch=effect.controller_epoch,
        broker_epoch=effect.broker_epoch,
        partitions=[convert.topic_partition_to_wire(tp) for tp in effect.partitions],
    )
    return pb.ControllerMessage(stop_replica=message)


def _isr_answer(effect: ReplyAlterPartition) -> pb.ControllerMessage:
    message = pb.AlterPartitionAnswer(
        request_id=effect.request_id,
        tp=convert.topic_partition_to_wire(effect.tp),
        error=effect.error,
        stored=None if effect.stored is None else convert.state_to_wire(effect.stored),
    )
    return pb.ControllerMessage(alter_partition_answer=message)
