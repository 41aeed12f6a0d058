"""A controller session over real gRPC: each message means the same on both ends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
import pytest

from strandline.config.network import GrpcConfig
from strandline.controller.effects import (
    CloseSession,
    ReplyAlterPartition,
    ReplyControlledShutdown,
    SendFullState,
    SendLeaderAndIsr,
    SendRestoreReplica,
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
from strandline.controller_session.messages import (
    CommandResponse,
    ControllerMessage,
    Heartbeat,
    Hello,
    IsrProposal,
    MetadataUpdate,
    RestoreReplica,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.errors import ErrorCode
from strandline.model import (
    NO_LEADER,
    TOPIC_DELETED,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    IsrEntry,
    LeaderEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    Recovery,
    TopicId,
    TopicPartition,
    TopicSettings,
    TrashedReplica,
)
from strandline.rpc import convert
from strandline.rpc.session_client import SessionClient
from strandline.rpc.session_server import SessionServer
from strandline_api.v1 import controller_pb2 as pb

ONE = BrokerId(1)
TP = TopicPartition(topic_id=TopicId(str(uuid.UUID(int=5))), partition=3)
EPOCH = BrokerEpoch(9)
CONTROLLER_EPOCH = ControllerEpoch(12)
ISR = (
    IsrEntry(broker_id=ONE, broker_epoch=EPOCH),
    IsrEntry(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(2)),
)
STATE = PartitionState(
    replicas=(BrokerId(2), ONE, BrokerId(0)),
    leader=ONE,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=PartitionEpoch(8),
    isr=ISR,
    min_insync_replicas=2,
    controller_epoch=CONTROLLER_EPOCH,
    recovery=Recovery.UNCLEAN,
    reason="Why",
    adding_replicas=(ONE,),
    removing_replicas=(BrokerId(2), BrokerId(0)),
)
COMMAND = PartitionCommand(
    tp=TP,
    topic_name="Orders",
    state=STATE,
    settings=TopicSettings(max_message_bytes=1, segment_bytes=2, flush_messages=3),
    is_new=True,
)
LIVE = LiveBroker(
    broker_id=ONE,
    broker_epoch=EPOCH,
    clean_since_epoch=BrokerEpoch(3),
    endpoints=(Endpoint(listener="INTERNAL", host="10.0.0.1", port=9092),),
    rack="zone-a",
)
HOSTED = HostedReplica(
    tp=TP,
    topic_name="orders",
    leader=NO_LEADER,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=PartitionEpoch(7),
    accepted_leader_epoch=LeaderEpoch(4),
    accepted_partition_epoch=PartitionEpoch(7),
    log_start_offset=0,
    log_end_offset=99,
    last_epoch=LeaderEpoch(3),
    term_epoch=LeaderEpoch(3),
    led_by=BrokerId(2),
    led_as=BrokerEpoch(6),
)

TRASHED = TrashedReplica(tp=TP, topic_name="Orders", deleted_at_ms=1_700_000_000_000)


class Ends:
    """Both ends of one session, with the events that each end received."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[ControllerEvent] = asyncio.Queue()
        self.messages: asyncio.Queue[ControllerMessage] = asyncio.Queue()
        self.broken = asyncio.Event()
        self.server = SessionServer(BrokerId(0), GrpcConfig(), on_event=self.events.put_nowait)
        self.grpc = grpc.aio.server()
        self.grpc.add_generic_rpc_handlers((self.server.service(),))
        self.port = self.grpc.add_insecure_port("127.0.0.1:0")

    async def start(self) -> SessionClient:
        await self.grpc.start()
        return SessionClient(
            f"127.0.0.1:{self.port}",
            GrpcConfig(),
            on_message=self.messages.put_nowait,
            on_broken=self.broken.set,
        )

    async def opened(self) -> tuple[SessionClient, int]:
        client = await self.start()
        client.send(
            Hello(
                broker_id=ONE,
                broker_epoch=EPOCH,
                clean_since_epoch=BrokerEpoch(3),
                incarnation="uid/nonce",
                highest_controller_epoch=ControllerEpoch(11),
                hosted=(HOSTED,),
                trashed=(TRASHED,),
            )
        )
        assert await self.events.get() == ControllerEpochSeen(controller_epoch=ControllerEpoch(11))
        opened = await self.events.get()
        assert isinstance(opened, SessionOpened)
        assert opened == SessionOpened(
            session_id=opened.session_id,
            broker_id=ONE,
            broker_epoch=EPOCH,
            clean_since_epoch=BrokerEpoch(3),
            incarnation="uid/nonce",
            hosted=(HOSTED,),
            trashed=(TRASHED,),
        )
        return client, opened.session_id


def run(scenario: Callable[[Ends], Awaitable[None]]) -> None:
    async def bounded() -> None:
        ends = Ends()
        async with asyncio.timeout(20):
            await scenario(ends)
        await ends.grpc.stop(None)

    asyncio.run(bounded())


class EndingContext:
    """A call whose broker says hello and ends; gRPC cancels the handler some turns later."""

    def __init__(self, hello: pb.BrokerMessage, *, turns: int) -> None:
        self._messages = [hello]
        self._turns = turns
        self.handler: asyncio.Task[None] | None = None

    async def read(self) -> object:
        if self._messages:
            return self._messages.pop()
        asyncio.get_running_loop().call_soon(self._cancel, self._turns)
        return grpc.aio.EOF

    async def write(self, message: pb.ControllerMessage) -> None:
        raise AssertionError(message)

    def peer(self) -> str:
        return "a broker"

    def _cancel(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._cancel, turns - 1)
        elif self.handler is not None:
            self.handler.cancel()


@pytest.mark.parametrize("turns", range(8))
def test_end_of_a_stream_is_reported_whenever_grpc_cancels_its_handler(turns: int) -> None:
    events: list[ControllerEvent] = []

    async def scenario() -> None:
        server = SessionServer(BrokerId(0), GrpcConfig(), on_event=events.append)
        hello = Hello(
            broker_id=ONE,
            broker_epoch=EPOCH,
            clean_since_epoch=EPOCH,
            incarnation="uid/nonce",
            highest_controller_epoch=CONTROLLER_EPOCH,
            hosted=(),
        )
        context = EndingContext(convert.BROKER_MESSAGE.encode(hello), turns=turns)
        context.handler = asyncio.create_task(server._serve(None, context))
        await asyncio.gather(context.handler, return_exceptions=True)

    asyncio.run(scenario())
    (opened,) = (event for event in events if isinstance(event, SessionOpened))
    (broken,) = (event for event in events if isinstance(event, SessionBroken))
    assert (broken.session_id, broken.broker_id) == (opened.session_id, ONE)


@pytest.mark.parametrize("turns", range(8))
def test_channel_is_closed_even_if_the_session_ends_by_itself_meanwhile(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    async def scenario(ends: Ends) -> None:
        client, _ = await ends.opened()
        close_channel = client._channel.close

        async def close() -> None:
            closed.append(turns)
            await close_channel()

        monkeypatch.setattr(client._channel, "close", close)
        client._given_up.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()

    run(scenario)
    assert closed == [turns]


def test_messages_of_a_broker_become_events() -> None:
    async def scenario(ends: Ends) -> None:
        client, session_id = await ends.opened()
        alive = HeartbeatReceived(session_id=session_id, broker_id=ONE, broker_epoch=EPOCH)
        client.send(Heartbeat(broker_epoch=EPOCH, hosted=None))
        assert await ends.events.get() == alive
        client.send(Heartbeat(broker_epoch=EPOCH, hosted=(HOSTED,), trashed=(TRASHED,)))
        assert await ends.events.get() == alive
        assert await ends.events.get() == HostedReported(
            session_id=session_id, broker_id=ONE, hosted=(HOSTED,), trashed=(TRASHED,)
        )
        proposal = ProposeIsr(
            request_id=21,
            tp=TP,
            leader_epoch=LeaderEpoch(4),
            partition_epoch=PartitionEpoch(8),
            isr=ISR,
        )
        client.send(IsrProposal(broker_epoch=EPOCH, proposal=proposal))
        assert await ends.events.get() == IsrChangeRequested(
            session_id=session_id,
            request_id=21,
            broker_id=ONE,
            broker_epoch=EPOCH,
            tp=TP,
            leader_epoch=LeaderEpoch(4),
            partition_epoch=PartitionEpoch(8),
            isr=ISR,
        )
        client.send(ShutdownRequest(request_id=22, broker_epoch=EPOCH))
        assert await ends.events.get() == ShutdownRequested(
            session_id=session_id, request_id=22, broker_id=ONE, broker_epoch=EPOCH
        )
        response = ReplyLeaderAndIsr(
            request_id=23,
            error=ErrorCode.NONE,
            partitions=((TP, ErrorCode.TOPIC_ALREADY_EXISTS),),
        )
        client.send(CommandResponse(response=response, highest_controller_epoch=CONTROLLER_EPOCH))
        assert await ends.events.get() == BrokerResponseReceived(
            session_id=session_id,
            request_id=23,
            broker_id=ONE,
            error=ErrorCode.NONE,
            controller_epoch=CONTROLLER_EPOCH,
            partitions=((TP, ErrorCode.TOPIC_ALREADY_EXISTS),),
        )
        await client.close()
        assert await ends.events.get() == SessionBroken(session_id=session_id, broker_id=ONE)

    run(scenario)


def test_messages_of_the_controller_become_events_of_the_core() -> None:
    async def scenario(ends: Ends) -> None:
        client, session_id = await ends.opened()
        ids: dict[str, Any] = {"session_id": session_id, "broker_id": ONE}
        fences: dict[str, Any] = {"broker_epoch": EPOCH, "controller_epoch": CONTROLLER_EPOCH}
        ends.server.perform(
            SendFullState(
                **ids,
                **fences,
                request_id=1,
                brokers=(LIVE,),
                partitions=(COMMAND,),
                metadata=(COMMAND,),
            )
        )
        metadata = MetadataUpdate(
            **fences,
            controller_id=BrokerId(0),
            live_brokers=(LIVE,),
            partitions=(COMMAND,),
            removed=(),
            full=True,
        )
        assert await ends.messages.get() == metadata
        command = LeaderAndIsrReceived(request_id=1, partitions=(COMMAND,), full=True, **fences)
        assert await ends.messages.get() == command
        ends.server.perform(SendLeaderAndIsr(**ids, **fences, request_id=2, partitions=(COMMAND,)))
        command = LeaderAndIsrReceived(request_id=2, partitions=(COMMAND,), **fences)
        assert await ends.messages.get() == command
        ends.server.perform(SendUpdateMetadata(**ids, **fences, brokers=(LIVE,), removed=(TP,)))
        assert await ends.messages.get() == MetadataUpdate(
            **fences,
            controller_id=BrokerId(0),
            live_brokers=(LIVE,),
            partitions=(),
            removed=(TP,),
            full=False,
        )
        for removed_at in (TOPIC_DELETED, PartitionEpoch(7)):
            ends.server.perform(
                SendStopReplica(
                    **ids, **fences, request_id=3, partitions=(TP,), removed_at=removed_at
                )
            )
            assert await ends.messages.get() == StopReplicaReceived(
                request_id=3, partitions=(TP,), removed_at=removed_at, **fences
            )
        ends.server.perform(SendRestoreReplica(**ids, **fences, request_id=4, partitions=(TP,)))
        restore = RestoreReplica(request_id=4, partitions=(TP,), **fences)
        assert await ends.messages.get() == restore
        await client.close()

    run(scenario)


@pytest.mark.parametrize("stored", [None, STATE])
def test_an_alter_partition_response_carries_the_stored_state(
    stored: PartitionState | None,
) -> None:
    async def scenario(ends: Ends) -> None:
        client, session_id = await ends.opened()
        ends.server.perform(
            ReplyAlterPartition(
                session_id=session_id,
                request_id=5,
                broker_id=ONE,
                tp=TP,
                error=ErrorCode.INVALID_UPDATE_VERSION,
                stored=stored,
            )
        )
        assert await ends.messages.get() == AlterPartitionResponseReceived(
            request_id=5, tp=TP, error=ErrorCode.INVALID_UPDATE_VERSION, stored=stored
        )
        ends.server.perform(
            ReplyControlledShutdown(
                session_id=session_id,
                request_id=6,
                broker_id=ONE,
                error=ErrorCode.NONE,
                remaining=2,
            )
        )
        assert await ends.messages.get() == ShutdownResponse(
            request_id=6, error=ErrorCode.NONE, remaining=2
        )
        await client.close()

    run(scenario)


def test_a_refused_session_ends_without_an_event_for_the_controller() -> None:
    async def scenario(ends: Ends) -> None:
        _client, session_id = await ends.opened()
        ends.server.perform(
            CloseSession(
                session_id=session_id,
                error=ErrorCode.NOT_CONTROLLER,
                controller_epoch=CONTROLLER_EPOCH,
            )
        )
        assert await ends.messages.get() == SessionRefused(
            error=ErrorCode.NOT_CONTROLLER, controller_epoch=CONTROLLER_EPOCH
        )
        await ends.broken.wait()
        assert ends.events.empty()

    run(scenario)


def test_a_session_that_does_not_begin_with_hello_is_closed() -> None:
    async def scenario(ends: Ends) -> None:
        client = await ends.start()
        client.send(Heartbeat(broker_epoch=EPOCH, hosted=None))
        await ends.broken.wait()
        assert ends.events.empty()

    run(scenario)
