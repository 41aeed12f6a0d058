"""Replication streams over real gRPC on loopback: order, coalescing, large batches, breaks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
import pytest

from strandline.config.network import GrpcConfig
from strandline.core.effects import LogReadInfo
from strandline.core.events import FollowerFetchReceived
from strandline.errors import ErrorCode
from strandline.model import BrokerId
from strandline.rpc.frames import BadFrame, RecordsFrame
from strandline.rpc.replication_client import ReplicationClient
from strandline.rpc.replication_server import FollowerStream, replication_service
from strandline.rpc.session_client import SessionClient
from strandline.rpc.session_server import SessionServer
from strandline.rpc.streams import (
    CoalescingWriter,
    StreamClosed,
    StreamOverflow,
    channel_options,
    until_one_ends,
    write_message,
)

from .test_fetch_session import whole_fetch

SETTINGS = GrpcConfig()
OnFetch = Callable[[FollowerFetchReceived, FollowerStream], None]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), timeout=20))


async def serve(on_fetch: OnFetch, gone: list[FollowerStream]) -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server(options=channel_options(SETTINGS))
    server.add_generic_rpc_handlers((replication_service(on_fetch, gone.append, SETTINGS),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


def respond(fetch: FollowerFetchReceived, stream: FollowerStream, records: list[bytes]) -> None:
    part = LogReadInfo(
        tp=fetch.partitions[0].tp,
        error=ErrorCode.NONE,
        high_watermark=7,
        log_start_offset=0,
        from_offset=0,
        up_to_offset=7,
    )
    stream.send_records(fetch.request_id, part, records)
    stream.send_end(fetch.request_id)


def test_a_response_with_a_large_batch_arrives_whole() -> None:
    async def scenario() -> None:
        batch = bytes(range(256)) * (3 << 12)  # 3 MiB in one frame
        server, address = await serve(lambda f, s: respond(f, s, [batch[:100], batch[100:]]), [])
        responses: asyncio.Queue[tuple[int, list[RecordsFrame]]] = asyncio.Queue()
        client = ReplicationClient(
            address,
            SETTINGS,
            on_response=lambda request, frames: responses.put_nowait((request, frames)),
            on_broken=lambda: pytest.fail("the stream broke"),
        )
        for _ in range(3):
            client.send(whole_fetch(1))
            request_id, (frame,) = await responses.get()
            assert request_id == 1
            assert frame.records == batch
            assert frame.high_watermark == 7
        await client.close()
        await server.stop(None)

    run(scenario)


def test_a_leader_that_goes_away_is_reported_once() -> None:
    async def scenario() -> None:
        fetched = asyncio.Event()
        server, address = await serve(lambda _f, _s: fetched.set(), [])
        broken: list[str] = []
        reported = asyncio.Event()

        def on_broken() -> None:
            broken.append("broken")
            reported.set()

        client = ReplicationClient(
            address,
            SETTINGS,
            on_response=lambda _r, _f: pytest.fail("no response"),
            on_broken=on_broken,
        )
        client.send(whole_fetch(1))
        await fetched.wait()
        await server.stop(None)
        await reported.wait()
        await client.close()
        assert broken == ["broken"]

    run(scenario)


def test_a_follower_that_goes_away_takes_its_waiting_fetches_with_it() -> None:
    async def scenario() -> None:
        gone: list[FollowerStream] = []
        fetched: asyncio.Queue[FollowerStream] = asyncio.Queue()
        server, address = await serve(lambda _f, stream: fetched.put_nowait(stream), gone)
        client = ReplicationClient(
            address, SETTINGS, on_response=lambda _r, _f: None, on_broken=lambda: None
        )
        client.send(whole_fetch(1))
        stream = await fetched.get()
        await client.close()
        await stream.broken.wait()
        assert gone == [stream]
        await server.stop(None)

    run(scenario)


def test_garbage_on_the_stream_ends_that_stream_alone() -> None:
    async def scenario() -> None:
        server, address = await serve(lambda f, s: respond(f, s, [b"x"]), [])
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream("/strandline.v1.Replication/Replicate")()
            await call.write(b"\x00\x00\x00\x09\x63garbage!")
            assert await call.read() is grpc.aio.EOF
        responses: asyncio.Queue[int] = asyncio.Queue()
        client = ReplicationClient(
            address,
            SETTINGS,
            on_response=lambda request, _f: responses.put_nowait(request),
            on_broken=lambda: pytest.fail("the stream broke"),
        )
        client.send(whole_fetch(1))
        assert await responses.get() == 1
        await client.close()
        await server.stop(None)

    run(scenario)


def test_frames_queued_together_leave_as_one_message() -> None:
    async def scenario() -> None:
        messages: list[bytes] = []
        written = asyncio.Event()

        async def write(message: bytes) -> None:
            messages.append(message)
            if sum(len(m) for m in messages) == 100 * 5:
                written.set()

        writer = CoalescingWriter(write, SETTINGS)
        for _ in range(100):
            writer.put([b"ab", b"cde"])
        task = asyncio.create_task(writer.run())
        await written.wait()
        task.cancel()
        assert messages == [b"abcde" * 100]

    run(scenario)


def test_a_peer_that_takes_nothing_is_bounded() -> None:
    async def write(_: bytes) -> None:
        raise AssertionError("nothing is written in this test")

    async def scenario() -> None:
        writer = CoalescingWriter(write, GrpcConfig(queue_max_bytes=4 << 20))
        block = bytes(1 << 20)
        for _ in range(4):
            writer.put([block])
        with pytest.raises(StreamOverflow):
            writer.put([b"x"])

    run(scenario)


def test_a_write_to_a_call_that_is_over_says_that_the_stream_broke() -> None:
    async def scenario() -> None:
        server, address = await serve(lambda _fetch, _stream: None, [])
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream("/strandline.v1.Replication/Replicate")()
            await call.write(b"no frame of ours")
            assert await call.read() is grpc.aio.EOF
            with pytest.raises(StreamClosed, match="finished"):
                await write_message(call.write, b"too late")
        await server.stop(None)

    run(scenario)


async def end_with(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "ends",
    [
        StreamClosed("over"),
        asyncio.CancelledError(),
        grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_stream_is_no_failure(ends: BaseException) -> None:
    async def scenario() -> None:
        ended: list[str] = []
        forever = asyncio.Event().wait()
        breach = await until_one_ends(end_with(ends), forever, on_end=lambda: ended.append("end"))
        assert (breach, ended) == (None, ["end"])

    run(scenario)


def test_a_breach_of_the_protocol_is_returned_and_a_bug_is_raised() -> None:
    async def scenario() -> None:
        ended: list[str] = []
        breach = BadFrame("a leader sent a fetch")
        assert await until_one_ends(end_with(breach), on_end=lambda: ended.append("one")) is breach
        bug = asyncio.InvalidStateError("a future of ours is settled twice")
        with pytest.raises(asyncio.InvalidStateError, match="settled twice"):
            await until_one_ends(end_with(bug), on_end=lambda: ended.append("two"))
        assert ended == ["one", "two"]

    run(scenario)


def replication_to(address: str) -> ReplicationClient:
    return ReplicationClient(
        address, SETTINGS, on_response=lambda _id, _frames: None, on_broken=lambda: None
    )


def session_with(address: str) -> SessionClient:
    return SessionClient(address, SETTINGS, on_message=lambda _: None, on_broken=lambda: None)


OpenClient = Callable[[str], ReplicationClient | SessionClient]


@pytest.mark.parametrize("open_client", [replication_to, session_with])
@pytest.mark.parametrize("turns", range(4))
def test_a_stream_closed_at_once_closes_its_channel(open_client: OpenClient, turns: int) -> None:
    """Also in the turn of the event loop in which it was opened, before its task began."""

    async def scenario() -> None:
        client = open_client("127.0.0.1:1")
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        assert client._channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN

    run(scenario)


class Relay:
    """A TCP relay to a server; it knows when a client's connection is up, and when it is gone."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self.connected = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        back = asyncio.create_task(self._copy_back(from_server, writer))
        while data := await reader.read(1 << 16):
            to_server.write(data)
        self.gone.set()
        to_server.close()
        await back
        writer.close()

    async def _copy_back(
        self, from_server: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await from_server.read(1 << 16):
            writer.write(data)
            self.connected.set()


@pytest.mark.parametrize("open_client", [replication_to, session_with])
def test_a_closed_stream_leaves_no_connection_behind(open_client: OpenClient) -> None:
    """A call keeps its connection, so no reference to it may wait for a garbage collection."""

    async def scenario() -> None:
        server = grpc.aio.server()
        sessions = SessionServer(BrokerId(0), SETTINGS, on_event=lambda _: None)
        replication = replication_service(lambda _f, _s: None, lambda _s: None, SETTINGS)
        server.add_generic_rpc_handlers((replication, sessions.service()))
        relay = Relay(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        listener = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
        client = open_client(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        await relay.connected.wait()
        await client.close()
        del client
        await relay.gone.wait()
        listener.close()
        await server.stop(None)

    gc.disable()
    try:
        run(scenario)
    finally:
        gc.enable()
