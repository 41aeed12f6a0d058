"""A connection that is reset before its handshake leaves no open socket to fail a later test."""

from __future__ import annotations

import gc
import socket
import ssl
import struct

import pytest

from tests.support.object_reader import ClosedIfReset

RESETS = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close is a reset."""


def test_a_connection_that_is_reset_before_the_handshake_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
    accepted.close()
    context = ssl.create_default_context()
    context.sslsocket_class = ClosedIfReset
    with pytest.raises(ConnectionResetError):
        context.wrap_socket(client, server_hostname="localhost")
    gc.collect()
