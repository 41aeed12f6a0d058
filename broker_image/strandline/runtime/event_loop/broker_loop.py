"""uvloop, in which each descriptor of a socket has one owner.

A connection over a given socket closes the socket's descriptor itself. uvloop 0.23 takes the
descriptor from the socket only where the connection was made: if the other side resets it before
the handshake of TLS begins, both close it. The second close comes when the socket is collected as
garbage, and hits whatever has the number by then, be it another connection or the log of a
partition.
"""

from __future__ import annotations

import socket
from typing import Any

import uvloop


class BrokerLoop(uvloop.Loop):
    """The event loop of a broker process."""

    async def create_connection(
        self, *args: Any, sock: socket.socket | None = None, **options: Any
    ) -> Any:
        """Do as uvloop does; a given socket has no descriptor afterwards, whatever happened."""
        try:
            return await super().create_connection(*args, sock=sock, **options)
        finally:
            if sock is not None:
                sock.detach()
