"""A socket's descriptor is closed once: a second close would hit what has the number by then."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strandline.runtime.event_loop.broker_loop import BrokerLoop
from tests.support.eventually import aeventually

HOST = "127.0.0.1"
LIMIT_MS = 10_000
RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for no second."""


def reset_socket() -> socket.socket:
    """Return a connected socket whose other side has reset the connection."""
    with socket.create_server((HOST, 0)) as server:
        connected = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
    other.close()
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    assert poll.poll(LIMIT_MS), "the reset arrives"
    connected.setblocking(False)
    return connected


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_a_connection_that_was_reset_at_once_leaves_its_socket_nothing_to_close(tls: bool) -> None:
    given = reset_socket()
    fd = given.fileno()
    secured: dict[str, Any] = {"ssl": ssl.create_default_context(), "server_hostname": HOST}

    async def connect() -> None:
        transport = None
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, sock=given, **(secured if tls else {})
            )
        except OSError:
            assert tls, "without TLS nothing is sent yet"
        if transport is not None:
            transport.close()
        await aeventually(lambda: not is_open(fd), LIMIT_MS, "the event loop closes it")

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(connect())
    # The next file that is opened has the descriptor's number.
    with Path(os.devnull).open("rb") as file:
        os.dup2(file.fileno(), fd)
    try:
        given.close()
        assert is_open(fd)
    finally:
        with suppress(OSError):
            os.close(fd)


def test_a_connection_over_a_given_socket_works() -> None:
    async def echoed() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            writer.close()

        server = await asyncio.start_server(echo, HOST, 0)
        given = socket.create_connection(server.sockets[0].getsockname())
        given.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=given)
        writer.write(b"ping")
        answer = await reader.readexactly(4)
        writer.close()
        server.close()
        return answer

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        assert runner.run(echoed()) == b"ping"
