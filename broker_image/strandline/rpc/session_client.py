"""A broker's end of the session with the active controller: a stream and its codec.

Opened by the shell of `controller_session`, which chooses the controller and decides on retries.
It sends `BrokerMessage` values to the controller and receives `ControllerMessage` values.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import assert_never

import grpc
import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.controller.events import HostedReplica
from strandline.controller_session.messages import (
    BrokerMessage,
    CommandResponse,
    ControllerMessage,
    Heartbeat,
    Hello,
    IsrProposal,
    MetadataUpdate,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.log_fields import fields
from strandline.model import BrokerEpoch, BrokerId, ControllerEpoch
from strandline_api.v1 import controller_pb2 as pb

from . import convert
from .streams import channel_options, until_one_ends, write_message

_log = logging.getLogger(__name__)

METHOD = "/strandline.v1.Controller/Session"


class SessionClient:
    """One stream; on_message gets the controller's messages, on_broken runs at most once."""

    def __init__(
        self,
        address: str,
        settings: GrpcConfig,
        *,
        on_message: Callable[[ControllerMessage], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._on_message = on_message
        self._on_broken = on_broken
        # A full queue means that the controller does not read: the session ends.
        self._outgoing: asyncio.Queue[pb.BrokerMessage] = asyncio.Queue(settings.session_queue_max)
        self._given_up = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(address, options=channel_options(settings))
        self._call = self._channel.stream_stream(
            METHOD,
            request_serializer=pb.BrokerMessage.SerializeToString,
            response_deserializer=pb.ControllerMessage.FromString,
        )()
        self._task = asyncio.create_task(self._run(), name=f"session with {address}")

    def send(self, message: BrokerMessage) -> None:
        """Send a message behind all earlier ones."""
        try:
            self._outgoing.put_nowait(encode_broker_message(message))
        except asyncio.QueueFull:
            self._given_up.set()

    async def close(self) -> None:
        """End the session; on_broken is not called any more."""
        self._on_broken = _nothing
        self._given_up.set()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        # No cancellation ends this task: a task that never began closes no channel, and the
        # traceback of a cancelled one keeps the call, and so its connection, until it is collected.
        try:
            breach = await until_one_ends(
                self._write(), self._read(), self._given_up.wait(), on_end=self._call.cancel
            )
            if breach is not None:
                _log.warning("session closed", extra=fields(cause=str(breach)))
        finally:
            await self._channel.close()
            self._on_broken()

    async def _write(self) -> None:
        while True:
            await write_message(self._call.write, await self._outgoing.get())

    async def _read(self) -> None:
        while True:
            message = await self._call.read()
            if message is grpc.aio.EOF:
                return
            self._on_message(decode_controller_message(message))


def encode_broker_message(message: BrokerMessage) -> pb.BrokerMessage:
    """Return the protobuf of a broker's message."""
    match message:
        case Heartbeat():
            return pb.BrokerMessage(
                heartbeat=pb.Heartbeat(
                    broker_epoch=message.broker_epoch,
                    carries_hosted=message.hosted is not None,
                    hosted=[_hosted_to_wire(replica) for replica in message.hosted or ()],
                )
            )
        case IsrProposal(proposal=proposal):
            return pb.BrokerMessage(
                alter_partition=pb.AlterPartition(
                    request_id=proposal.request_id,
                    broker_epoch=message.broker_epoch,
                    tp=convert.topic_partition_to_wire(proposal.tp),
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    isr=convert.isr_to_wire(proposal.isr),
                )
            )
        case CommandResponse(response=response):
            return pb.BrokerMessage(
                command_answer=pb.CommandAnswer(
                    request_id=response.request_id,
                    error=response.error,
                    partitions=[
                        pb.PartitionError(tp=convert.topic_partition_to_wire(tp), error=error)
                        for tp, error in response.partitions
                    ],
                    highest_controller_epoch=message.highest_controller_epoch,
                )
            )
        case Hello():
            return pb.BrokerMessage(
                hello=pb.Hello(
                    broker_id=message.broker_id,
                    broker_epoch=message.broker_epoch,
                    clean_since_epoch=message.clean_since_epoch,
                    incarnation=message.incarnation,
                    highest_controller_epoch=message.highest_controller_epoch,
                    hosted=[_hosted_to_wire(replica) for replica in message.hosted],
                )
            )
        case ShutdownRequest():
            return pb.BrokerMessage(
                controlled_shutdown=pb.ControlledShutdown(
                    request_id=message.request_id, broker_epoch=message.broker_epoch
                )
            )
        case _:
            assert_never(message)


def decode_controller_message(message: pb.ControllerMessage) -> ControllerMessage:
    """Return the value of a controller's message; ValueError if it is unknown or malformed."""
    match message.WhichOneof("message"):
        case "leader_and_isr":
            return _leader_and_isr(message.leader_and_isr)
        case "stop_replica":
            stop = message.stop_replica
            return StopReplicaReceived(
                request_id=stop.request_id,
                controller_epoch=ControllerEpoch(stop.controller_epoch),
                broker_epoch=BrokerEpoch(stop.broker_epoch),
                partitions=tuple(convert.topic_partition_from_wire(tp) for tp in stop.partitions),
            )
        case "update_metadata":
            return _metadata(message.update_metadata)
        case "alter_partition_answer":
            answer = message.alter_partition_answer
            stored = convert.state_from_wire(answer.stored) if answer.HasField("stored") else None
            return AlterPartitionResponseReceived(
                request_id=answer.request_id,
                tp=convert.topic_partition_from_wire(answer.tp),
                error=ErrorCode(answer.error),
                stored=stored,
            )
        case "controlled_shutdown_answer":
            shutdown = message.controlled_shutdown_answer
            return ShutdownResponse(
                request_id=shutdown.request_id,
                error=ErrorCode(shutdown.error),
                remaining=shutdown.remaining,
            )
        case "refused":
            return SessionRefused(
                error=ErrorCode(message.refused.error),
                controller_epoch=ControllerEpoch(message.refused.controller_epoch),
            )
        case other:
            raise ValueError(f"unknown controller message {other}")


def _leader_and_isr(message: pb.LeaderAndIsr) -> LeaderAndIsrReceived:
    return LeaderAndIsrReceived(
        request_id=message.request_id,
        controller_epoch=ControllerEpoch(message.controller_epoch),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        partitions=tuple(convert.command_from_wire(part) for part in message.partitions),
        full=message.full,
    )


def _metadata(message: pb.UpdateMetadata) -> MetadataUpdate:
    return MetadataUpdate(
        controller_epoch=ControllerEpoch(message.controller_epoch),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        controller_id=BrokerId(message.controller_id),
        live_brokers=tuple(convert.live_broker_from_wire(b) for b in message.live_brokers),
        partitions=tuple(convert.command_from_wire(part) for part in message.partitions),
        removed=tuple(convert.topic_partition_from_wire(tp) for tp in message.removed),
        full=message.full,
    )


def _hosted_to_wire(replica: HostedReplica) -> pb.Hosted:
    return pb.Hosted(
        tp=convert.topic_partition_to_wire(replica.tp),
        leader_epoch=replica.leader_epoch,
        partition_epoch=replica.partition_epoch,
        log_end_offset=replica.log_end_offset,
        last_epoch=replica.last_epoch,
    )


def _nothing() -> None:
    """Stand in for on_broken once the owner has closed the session itself."""
