"""The shell of the controller session over real gRPC: dials, breaks, probes and drains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar, cast

import grpc.aio
import pytest

from strandline.config.network import GrpcConfig
from strandline.controller.effects import ReplyControlledShutdown, SendStopReplica
from strandline.controller.events import (
    ControllerEvent,
    SessionBroken,
    SessionOpened,
    ShutdownRequested,
)
from strandline.controller.store_events import HolderDied
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.effects import RestoreReplicas
from strandline.controller_session.events import HolderObserved
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.events import Event as CoreEvent
from strandline.core.events import StopReplicaReceived
from strandline.errors import ErrorCode, InvariantViolation, StoreUnavailable
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.model import GRPC_LISTENER, BrokerId, Endpoint, LeaseRecord, StoredBroker
from strandline.rpc.probes import peer_service
from strandline.rpc.session_server import SessionServer
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.shells.controller_session_shell import ControllerSessionShell
from tests.controller_session.setups import (
    CONTROLLER_EPOCH,
    EPOCH,
    ME,
    SIGNED,
    TIMING,
    TP,
    FixedReplicas,
    registration,
)
from tests.support.eventually import aeventually
from tests.support.world.values import LEASE_FREE

Received = TypeVar("Received", bound=ControllerEvent)
LIMIT_MS = 10_000
STOP = StopReplicaReceived(
    request_id=1, controller_epoch=CONTROLLER_EPOCH, broker_epoch=EPOCH, partitions=(TP,)
)


class Pair:
    """Broker 1's shell, and broker 2, which holds the Lease and serves sessions and probes."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[ControllerEvent] = asyncio.Queue()
        self.for_replicas: list[CoreEvent] = []
        self.for_controller: list[ControllerEvent] = []
        self.restores: list[RestoreReplicas] = []
        self.broken: list[InvariantViolation] = []
        self.lookups_refused = 1
        self.sessions = SessionServer(BrokerId(2), GrpcConfig(), on_event=self.received.put_nowait)
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers(
            (self.sessions.service(), peer_service(registration(), lambda: CONTROLLER_EPOCH, print))
        )
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        replicas = FixedReplicas()
        self.shell = ControllerSessionShell(
            ControllerSession(
                registration(ME, "uid/me"),
                replicas=replicas,
                metadata=MetadataCache("demo", now_ms=lambda: 0),
                timing=TIMING,
            ),
            store=cast(ClusterStore, self),
            leases=cast(LeaseStore, self),
            lease_name="demo-controller",
            grpc=GrpcConfig(),
            clock=Clock(),
            step_replicas=self.for_replicas.append,
            step_controller=self.for_controller.append,
            restore=self.restores.append,
            on_broken_promise=self.broken.append,
        )

    async def find_broker(self, broker_id: BrokerId) -> StoredBroker:
        """Stand in for the store, whose first lookup fails."""
        if self.lookups_refused:
            self.lookups_refused -= 1
            raise StoreUnavailable("as planned")
        endpoint = Endpoint(listener=GRPC_LISTENER, host="127.0.0.1", port=self.port)
        return StoredBroker(
            name=f"demo-{broker_id}",
            resource_version="1",
            broker_id=broker_id,
            registration=registration(broker_id, "uid/a", (endpoint,)),
        )

    async def get(self, _: str) -> LeaseRecord:
        """Stand in for the store of Leases."""
        return replace(LEASE_FREE, holder_identity=SIGNED)

    async def opened(self) -> SessionOpened:
        """Submit the holder of the Lease; return the session that the holder gets."""
        await self.server.start()
        self.shell.submit(HolderObserved(holder_identity=SIGNED))
        return await self.next_received(SessionOpened)

    async def next_received(self, kind: type[Received]) -> Received:
        """Return the next event of this kind that the holder receives."""
        while not isinstance(received := await self.received.get(), kind):
            continue
        return received


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def bounded() -> None:
        pair = Pair()
        async with asyncio.timeout(LIMIT_MS / 1000):
            await scenario(pair)
            await pair.shell.close()
            await pair.server.stop(None)
        assert pair.broken == []

    asyncio.run(bounded())


def test_messages_of_the_holder_reach_the_replicas_once_it_is_found() -> None:
    async def scenario(pair: Pair) -> None:
        opened = await pair.opened()
        pair.sessions.perform(
            SendStopReplica(
                session_id=opened.session_id,
                broker_id=ME,
                broker_epoch=EPOCH,
                controller_epoch=CONTROLLER_EPOCH,
                request_id=1,
                partitions=(TP,),
            )
        )
        await aeventually(lambda: pair.for_replicas == [STOP], LIMIT_MS, "the command")

    run(scenario)


def test_session_ends_with_the_lease_of_its_holder() -> None:
    async def scenario(pair: Pair) -> None:
        opened = await pair.opened()
        pair.shell.submit(HolderObserved(holder_identity=""))
        broken = await pair.next_received(SessionBroken)
        assert broken.session_id == opened.session_id
        assert pair.for_controller == []

    run(scenario)


def test_holder_that_refuses_connections_is_reported_dead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.opened()
        await pair.server.stop(None)
        died = [HolderDied(holder_identity=SIGNED)]
        await aeventually(lambda: pair.for_controller == died, LIMIT_MS, "the death")
        assert "controller is dead" in caplog.messages

    run(scenario)


def test_drain_ends_when_the_controller_has_moved_all_leaders() -> None:
    async def scenario(pair: Pair) -> None:
        opened = await pair.opened()
        drain = asyncio.create_task(pair.shell.drain())
        request = await pair.next_received(ShutdownRequested)
        assert not drain.done()
        pair.sessions.perform(
            ReplyControlledShutdown(
                session_id=opened.session_id,
                request_id=request.request_id,
                broker_id=ME,
                error=ErrorCode.NONE,
                remaining=0,
            )
        )
        await drain

    run(scenario)


def test_drain_ends_at_once_where_nothing_is_led_and_no_controller_is_known() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.shell.drain()

    run(scenario)
