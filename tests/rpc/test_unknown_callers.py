"""A caller of the gRPC port that is no broker is logged."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest

from strandline.config.network import GrpcConfig
from strandline.log_fields import fields_of
from strandline.model import BrokerId, ControllerEpoch
from strandline.rpc.probes import peer_service
from strandline.rpc.session_server import SessionServer
from strandline.rpc.unknown_callers import SilentConnections, not_served
from strandline_api.v1 import controller_pb2 as pb
from tests.support.world.values import registration

PROBE = "/strandline.v1.Peer/Probe"
Scenario = Callable[[int], Awaitable[None]]


def served(scenario: Scenario) -> None:
    """Run a scenario against a gRPC server with a broker's services."""

    async def run() -> None:
        server = grpc.aio.server()
        sessions = SessionServer(BrokerId(0), GrpcConfig(), on_event=lambda _: None)
        server.add_generic_rpc_handlers(
            (
                sessions.service(),
                peer_service(registration(0), lambda: ControllerEpoch(0), print),
                not_served(),
            )
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            await scenario(port)
        finally:
            await server.stop(None)

    asyncio.run(asyncio.wait_for(run(), timeout=20))


def records_of_ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what Strandline logged.

    Under load asyncio may add that gRPC's poller was woken for an event that another event loop
    of this process had taken (BlockingIOError in PollerCompletionQueue); it has no effect.
    """
    return [record for record in caplog.records if record.name.startswith("strandline")]


def test_a_connection_without_a_call_is_found_once_and_one_with_a_call_is_not() -> None:
    async def scenario(port: int) -> None:
        found: list[list[str]] = []
        connections = SilentConnections()
        connections.sweep()
        connections.sweep()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary(PROBE)(pb.ProbeRequest().SerializeToString())
            silent = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port), 5)
            with silent:
                # gRPC may list the connection only some time after its first bytes.
                while not any(found):
                    found.append(connections.sweep())
                    await asyncio.sleep(0)
                found += [connections.sweep() for _ in range(2)]
                own = silent.getsockname()[1]
        first, *later = found
        assert first == []
        assert [peers for peers in later if peers] == [[f"ipv4:127.0.0.1:{own}"]]

    served(scenario)


@pytest.mark.parametrize(
    ("method", "status", "message"),
    [
        ("/strandline.v1.Peer/Nothing", grpc.StatusCode.UNIMPLEMENTED, "call not served"),
        ("/x.Y/Z", grpc.StatusCode.UNIMPLEMENTED, "call not served"),
        (PROBE, grpc.StatusCode.INVALID_ARGUMENT, "probe refused"),
    ],
)
def test_a_call_of_an_unknown_method_is_refused_and_logged(
    caplog: pytest.LogCaptureFixture, method: str, status: grpc.StatusCode, message: str
) -> None:
    async def scenario(port: int) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await channel.unary_unary(method)(b"\xff\xff garbage")
        assert refusal.value.code() is status

    caplog.set_level(logging.INFO)
    served(scenario)
    (record,) = records_of_ours(caplog)
    assert record.getMessage() == message
    assert fields_of(record)["peer"].startswith("ipv4:127.0.0.1:")


def test_a_session_with_malformed_messages_is_closed_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(port: int) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.stream_stream("/strandline.v1.Controller/Session")()
            await call.write(b"\xff\xff garbage")
            assert await call.read() is grpc.aio.EOF

    caplog.set_level(logging.INFO)
    served(scenario)
    (record,) = records_of_ours(caplog)
    assert record.getMessage() == "session closed"
    assert fields_of(record)["peer"].startswith("ipv4:127.0.0.1:")
