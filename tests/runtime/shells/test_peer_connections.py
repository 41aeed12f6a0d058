"""A broker holds a connection to each other live broker, and knows of a death by its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, closing
from typing import Any

from strandline.model import (
    GRPC_LISTENER,
    INTERNAL_LISTENER,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LiveBroker,
)
from strandline.runtime.event_loop.broker_loop import BrokerLoop
from strandline.runtime.shells.peer_connections import ASK, PeerConnections
from tests.support.eventually import aeventually

OWN, PEER = BrokerId(0), BrokerId(1)
LONG_MS, SHORT_MS = 600_000, 300
LIMIT_MS = 20_000


class Peer:
    """The listener of a peer: counts connections, and responds to what they ask if it is told."""

    def __init__(self, *, responds: bool = True) -> None:
        self._responds = responds
        self.open: set[asyncio.StreamWriter] = set()
        self.taken = 0

    async def start(self, scenario: Scenario) -> LiveBroker:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        await scenario.begun.enter_async_context(server)
        host, port = server.sockets[0].getsockname()
        return live(PEER, Endpoint(INTERNAL_LISTENER, host, port))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        assert await reader.readexactly(len(ASK)) == ASK
        if self._responds:
            writer.write(b"a response")
        self.open.add(writer)
        await reader.read()
        self.open.discard(writer)
        writer.close()

    def die(self) -> None:
        """End every connection, as the kernel does for a process that is no more."""
        while self.open:
            descriptor = self.open.pop().get_extra_info("socket").fileno()
            with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as own:
                own.shutdown(socket.SHUT_WR)


class Scenario:
    """The connections of broker 0, and the deaths that they told of."""

    def __init__(self, *, idle_max_ms: int = LONG_MS) -> None:
        self.begun = AsyncExitStack()
        self.live: list[LiveBroker] = []
        self.heard: list[BrokerId] = []
        self.lost: list[BrokerId] = []
        self.connections = PeerConnections(
            own=OWN,
            live_brokers=lambda: self.live,
            on_heard=self.heard.append,
            on_lost=self.lost.append,
            idle_max_ms=idle_max_ms,
        )

    def learn(self, *live_brokers: LiveBroker) -> None:
        self.live = [live(OWN, Endpoint(INTERNAL_LISTENER, "192.0.2.1", 9)), *live_brokers]
        self.connections.note_metadata()


def live(broker_id: BrokerId, *endpoints: Endpoint, epoch: int = 1) -> LiveBroker:
    return LiveBroker(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(epoch),
        clean_since_epoch=BrokerEpoch(epoch),
        endpoints=endpoints,
    )


def run(of: Callable[[Scenario], Coroutine[Any, Any, None]], *, idle_max_ms: int = LONG_MS) -> None:
    async def whole() -> None:
        scenario = Scenario(idle_max_ms=idle_max_ms)
        async with scenario.begun:
            scenario.begun.push_async_callback(scenario.connections.close)
            await of(scenario)
            await scenario.connections.close()

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(asyncio.wait_for(whole(), 2 * LIMIT_MS / 1000))


def test_the_death_of_a_peer_is_told_once_and_the_connection_comes_back() -> None:
    async def of(scenario: Scenario) -> None:
        peer = Peer()
        scenario.learn(await peer.start(scenario))
        await aeventually(lambda: scenario.heard == [PEER], LIMIT_MS, "a connection")
        peer.die()
        await aeventually(lambda: scenario.lost == [PEER], LIMIT_MS, "its end")
        await aeventually(lambda: scenario.heard == [PEER] * 2, LIMIT_MS, "another one")
        peer.die()
        await aeventually(lambda: scenario.lost == [PEER] * 2, LIMIT_MS, "its end, too")

    run(of)


def test_a_death_is_known_before_a_request_that_came_after_it() -> None:
    async def of(scenario: Scenario) -> None:
        peer = Peer()
        scenario.learn(await peer.start(scenario))
        await aeventually(lambda: peer.open, LIMIT_MS, "a connection")
        client, broker = socket.socketpair()
        with closing(client), closing(broker):
            loop = asyncio.get_running_loop()
            known_then: list[list[BrokerId]] = []
            loop.add_reader(broker, lambda: known_then.append([*scenario.lost]))
            peer.die()
            client.send(b"a request")
            await aeventually(lambda: known_then, LIMIT_MS, "the request")
            loop.remove_reader(broker)
        assert known_then[0] == [PEER]

    run(of)


def test_a_peer_that_never_responded_tells_of_no_death() -> None:
    async def of(scenario: Scenario) -> None:
        peer = Peer(responds=False)
        scenario.learn(await peer.start(scenario))
        for _ in range(3):
            await aeventually(lambda: peer.open, LIMIT_MS, "a connection")
            peer.die()
            await aeventually(lambda: not peer.open, LIMIT_MS, "its end")
        assert not scenario.lost

    run(of)


def test_a_connection_is_replaced_before_it_is_idle_for_too_long_and_tells_of_no_death() -> None:
    async def of(scenario: Scenario) -> None:
        peer = Peer()
        scenario.learn(await peer.start(scenario))
        await aeventually(lambda: peer.taken == 3, LIMIT_MS, "others")
        await aeventually(lambda: len(peer.open) == 1, LIMIT_MS, "one at a time")
        assert not scenario.lost

    run(of, idle_max_ms=SHORT_MS)


def test_connections_follow_the_metadata() -> None:
    async def of(scenario: Scenario) -> None:
        peer, successor = Peer(), Peer()
        scenario.learn(await peer.start(scenario))
        await aeventually(lambda: peer.open, LIMIT_MS, "a connection")
        scenario.learn(await successor.start(scenario))
        await aeventually(lambda: successor.open and not peer.open, LIMIT_MS, "the other one")
        scenario.learn(live(PEER, Endpoint(GRPC_LISTENER, "192.0.2.1", 9), epoch=2))
        await aeventually(lambda: not successor.open, LIMIT_MS, "none")
        assert not scenario.lost
        assert (peer.taken, successor.taken) == (1, 1)

    run(of)


def test_no_broker_connects_to_itself_nor_again_at_metadata_without_news() -> None:
    async def of(scenario: Scenario) -> None:
        peer = Peer()
        known = await peer.start(scenario)
        for _ in range(3):
            scenario.learn(known)
            await aeventually(lambda: peer.open, LIMIT_MS, "a connection")
        assert peer.taken == 1

    run(of)
