"""The HTTP port logs one line for bad input and closes the connection."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Iterator

import pytest

from strandline.runtime.observability.http_probes import ProbeServer
from strandline.runtime.observability.logs import BrokerLogFormatter
from strandline.runtime.observability.metrics import Metrics
from tests.support.ports import free_port

GARBAGE = bytes(range(256)) * 16
LIVE = b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Lines(logging.Handler):
    """Keeps the lines of a broker's log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(BrokerLogFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def written() -> Iterator[Lines]:
    lines = Lines()
    root = logging.getLogger()
    root.addHandler(lines)
    yield lines
    root.removeHandler(lines)


def responses_to(*sent: bytes) -> list[bytes]:
    """Send each input on a connection of its own; return the bytes until the server closes it."""

    def ask(port: int, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            response = b""
            try:
                client.sendall(data)
                while piece := client.recv(65_536):
                    response += piece
            except ConnectionError:
                pass  # the server closed with bytes of ours unread
            return response

    async def scenario() -> list[bytes]:
        probes = ProbeServer(Metrics(), ready=lambda: True)
        port = await probes.start("127.0.0.1", 0)
        responses = [await asyncio.to_thread(ask, port, data) for data in sent]
        await probes.stop()
        return responses

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "others"),
    [
        ("127.0.0.2", {"127.0.0.1": True, "127.0.0.3": False}),
        ("127.0.0.1", {"127.0.0.3": False}),
        ("::1", {"127.0.0.1": False}),
    ],
)
def test_the_port_is_open_at_the_pods_address_and_on_loopback_alone(
    host: str, others: dict[str, bool]
) -> None:
    async def is_open(address: str, port: int) -> bool:
        try:
            _, writer = await asyncio.open_connection(address, port)
        except ConnectionRefusedError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    async def scenario() -> None:
        probes = ProbeServer(Metrics(), ready=lambda: True)
        # A port that is free at the one address may be taken at the other.
        port = await probes.start(host, free_port())
        for address, expected in {host: True, **others}.items():
            assert await is_open(address, port) is expected, address
        await probes.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GARBAGE, id="bytes"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GARBAGE, id="a start of HTTP/2"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", id="a long header"),
        pytest.param(b"GET /live HTTP/9.1\r\n\r\n", id="another version"),
        pytest.param(b"GET /live HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="a bad length"),
    ],
)
def test_garbage_is_logged_in_one_line_and_the_port_keeps_serving(
    written: Lines, data: bytes
) -> None:
    _, after = responses_to(data, LIVE)
    assert after.startswith(b"HTTP/1.1 200")
    (text,) = written.lines
    line = json.loads(text)
    assert (line["level"], line["peer"]) == ("WARNING", "127.0.0.1")
    assert line["message"] == "malformed request, connection closed"
    assert line["reason"]
    assert len(text) < 1_000


def test_a_good_request_and_an_unknown_path_are_not_logged(written: Lines) -> None:
    unknown = LIVE.replace(b"/live", b"/../../etc/passwd")
    live, refused = responses_to(LIVE, unknown)
    assert live.startswith(b"HTTP/1.1 200")
    assert refused.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert written.lines == []
