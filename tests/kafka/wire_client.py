"""A client that sends exactly the requests that a test gives it, well-formed or not."""

from __future__ import annotations

import socket
import struct
from typing import Self

from strandline.broker_interface import Buffer, Piece
from strandline.kafka_listener.schemas import API_VERSIONS, APIS
from strandline.kafka_listener.turns import at_once
from strandline.kafka_listener.wire import Message
from tests.kafka import client_codec

ELEMENTS_MAX = 1_000_000


def request_bytes(
    api_key: int, version: int, message: Message, *, correlation_id: int, client_id: str = "test"
) -> bytes:
    """Return a request frame, its length included."""
    head = bytearray(struct.pack(">hhih", api_key, version, correlation_id, len(client_id)))
    head += client_id.encode()
    if APIS[api_key].is_flexible(version):
        head.append(0)
    pieces: list[Piece] = [head]
    at_once(client_codec.request_encoder(api_key, version)(message, pieces, head))
    body = b"".join(piece for piece in pieces if isinstance(piece, Buffer))
    return struct.pack(">i", len(body)) + body


def response_message(api_key: int, version: int, body: bytes) -> Message:
    """Decode a response without its correlation id."""
    view = memoryview(body)
    position = 0
    if APIS[api_key].is_flexible(version) and api_key != API_VERSIONS:
        assert view[0] == 0
        position = 1
    decode = client_codec.response_decoder(api_key, version)
    message, end = at_once(decode(view, position, ELEMENTS_MAX))
    assert end == len(view)
    return message


class WireClient:
    """One connection; every read has a deadline."""

    def __init__(self, port: int, *, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=10, source_address=(source, 0)
        )
        self._sent: dict[int, tuple[int, int]] = {}
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, message: Message) -> int:
        """Send a request; return its correlation id."""
        self._next += 1
        self._sent[self._next] = (api_key, version)
        self.socket.sendall(request_bytes(api_key, version, message, correlation_id=self._next))
        return self._next

    def receive_frame(self) -> tuple[int, bytes]:
        """Return correlation id and the rest of the next response."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        return struct.unpack(">i", frame[:4])[0], frame[4:]

    def receive(self) -> tuple[int, Message]:
        """Return correlation id and message of the next response."""
        correlation_id, body = self.receive_frame()
        return correlation_id, response_message(*self._sent.pop(correlation_id), body)

    def ask(self, api_key: int, version: int, message: Message) -> Message:
        """Send a request and return its response."""
        correlation_id = self.send(api_key, version, message)
        received_id, response = self.receive()
        assert received_id == correlation_id
        return response

    def is_closed_by_server(self) -> bool:
        """Wait for the end of the connection; return False if a byte comes before."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            piece = self.socket.recv(size - len(out))
            if not piece:
                raise EOFError
            out += piece
        return bytes(out)
