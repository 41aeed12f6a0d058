"""A broker's end of the session with the active controller.

Made by `runtime` for the holder of the controller Lease; turns messages of the controller
into events of the core and values below. It does not retry and does not choose a controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import grpc
import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.controller_session.messages import MetadataUpdate
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.log_fields import fields
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)
from strandline_api.v1 import controller_pb2 as pb

from . import convert
from .streams import channel_options, failure_of, write_message

_log = logging.getLogger(__name__)

METHOD = "/strandline.v1.Controller/Session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica as a hello or heartbeat reports it; last_epoch is that of its last record."""

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    log_end_offset: int
    last_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponseReceived:
    """Partitions the controller could not move away yet."""

    request_id: int
    error: ErrorCode
    remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRefused:
    """The dialled broker is not the controller (yet), or refuses this broker's epoch."""

    error: ErrorCode
    controller_epoch: ControllerEpoch


SessionMessage = (
    LeaderAndIsrReceived
    | StopReplicaReceived
    | MetadataUpdate
    | AlterPartitionResponseReceived
    | ControlledShutdownResponseReceived
    | SessionRefused
)


class SessionClient:
    """One session; on_message gets what the controller says, on_broken is called once."""

    def __init__(
        self,
        address: str,
        settings: GrpcConfig,
        *,
        broker_epoch: BrokerEpoch,
        on_message: Callable[[SessionMessage], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._epoch = broker_epoch
        self._on_message = on_message
        self._on_broken = on_broken
        # Over this bound the session ends: the controller does not read.
        self._outgoing: asyncio.Queue[pb.BrokerMessage] = asyncio.Queue(settings.session_queue_max)
        self._overflow = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(address, options=channel_options(settings))
        self._call = self._channel.stream_stream(
            METHOD,
            request_serializer=pb.BrokerMessage.SerializeToString,
            response_deserializer=pb.ControllerMessage.FromString,
        )()
        self._task = asyncio.create_task(self._run(), name=f"session with {address}")

    def hello(
        self,
        *,
        broker_id: BrokerId,
        clean_since_epoch: BrokerEpoch,
        incarnation: str,
        highest_controller_epoch: ControllerEpoch,
        hosted: Iterable[Replica],
    ) -> None:
        """Open the session: who this is, and what lies on its disk."""
        message = pb.Hello(
            broker_id=broker_id,
            broker_epoch=self._epoch,
            clean_since_epoch=clean_since_epoch,
            incarnation=incarnation,
            highest_controller_epoch=highest_controller_epoch,
            hosted=[_replica_to_wire(replica) for replica in hosted],
        )
        self._put(pb.BrokerMessage(hello=message))

    def heartbeat(self, hosted: Iterable[Replica] | None) -> None:
        """Tell that this broker lives; with hosted now and then, so that a lost command shows."""
        message = pb.Heartbeat(broker_epoch=self._epoch, carries_hosted=hosted is not None)
        if hosted is not None:
            message.hosted.extend(_replica_to_wire(replica) for replica in hosted)
        self._put(pb.BrokerMessage(heartbeat=message))

    def propose(self, proposal: ProposeIsr) -> None:
        """Ask for another ISR."""
        message = pb.AlterPartition(
            request_id=proposal.request_id,
            broker_epoch=self._epoch,
            tp=convert.topic_partition_to_wire(proposal.tp),
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            isr=convert.isr_to_wire(proposal.isr),
        )
        self._put(pb.BrokerMessage(alter_partition=message))

    def controlled_shutdown(self, request_id: int) -> None:
        """Ask the controller to move leaders away."""
        message = pb.ControlledShutdown(request_id=request_id, broker_epoch=self._epoch)
        self._put(pb.BrokerMessage(controlled_shutdown=message))

    def answer(
        self,
        answer: ReplyLeaderAndIsr | ReplyStopReplica,
        *,
        highest_controller_epoch: ControllerEpoch,
    ) -> None:
        """Tell what became of a command."""
        message = pb.CommandAnswer(
            request_id=answer.request_id,
            error=answer.error,
            partitions=[
                pb.PartitionError(tp=convert.topic_partition_to_wire(tp), error=error)
                for tp, error in answer.partitions
            ],
            highest_controller_epoch=highest_controller_epoch,
        )
        self._put(pb.BrokerMessage(command_answer=message))

    async def close(self) -> None:
        """End the session; on_broken is not called any more."""
        self._on_broken = _nothing
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _put(self, message: pb.BrokerMessage) -> None:
        try:
            self._outgoing.put_nowait(message)
        except asyncio.QueueFull:
            self._overflow.set()

    async def _run(self) -> None:
        tasks = {
            asyncio.create_task(self._write()),
            asyncio.create_task(self._read()),
            asyncio.create_task(self._overflow.wait()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = failure_of(task)
                if isinstance(error, ValueError):
                    _log.warning("session closed", extra=fields(cause=str(error)))
                elif error is not None:
                    raise error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._call.cancel()
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


def decode_controller_message(message: pb.ControllerMessage) -> SessionMessage:
    """Return what a controller's message means; ValueError if it means nothing to us."""
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
            return ControlledShutdownResponseReceived(
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


def _replica_to_wire(replica: Replica) -> pb.Hosted:
    return pb.Hosted(
        tp=convert.topic_partition_to_wire(replica.tp),
        leader_epoch=replica.leader_epoch,
        partition_epoch=replica.partition_epoch,
        log_end_offset=replica.log_end_offset,
        last_epoch=replica.last_epoch,
    )


def _nothing() -> None:
    """Stand in for on_broken once the owner has closed the session itself."""
