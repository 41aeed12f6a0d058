"""Callers of the gRPC port that are no brokers: each gets one log line and nothing else.

`not_served` refuses every call to an unknown method. gRPC ends a connection that speaks no HTTP/2
before any handler of ours sees it; `log_silent_connections` finds it afterwards among the
connections that gRPC remembers (channelz). A broker connects because it has a call to make: a
connection without a call for an interval is no broker's.

gRPC forgets ended connections unless GRPC_CHANNELZ_MAX_ORPHANED_NODES is set before its first
import. The functions used here are those behind the package grpcio-channelz.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any, Final

import grpc
import grpc.aio
from grpc._cython import cygrpc

from strandline.log_fields import fields

_log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 2.0
"""A line is at most two sweeps late."""
CONNECTIONS_PER_SWEEP_MAX: Final = 100
"""Further connections wait for the next sweep, if gRPC remembers them for so long."""
METHOD_SHOWN_CHARACTERS: Final = 100


class _NotServed:
    """A generic handler of gRPC: refuses every call that reaches it and logs its peer."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method[:METHOD_SHOWN_CHARACTERS]

        async def refuse(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            _log.warning("call not served", extra=fields(peer=context.peer(), method=method))
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not served")

        return grpc.stream_stream_rpc_method_handler(refuse)


def not_served() -> grpc.GenericRpcHandler:
    """Return the handler to register last: it takes every call that the others do not."""
    handler: grpc.GenericRpcHandler = _NotServed()
    return handler


class SilentConnections:
    """Connections to this process that were open for a sweep, or are over, without a call.

    gRPC numbers connections upwards: sweeps have judged those up to `_judged`, and the next
    sweep judges those up to `_seen`.
    """

    def __init__(self) -> None:
        self._judged = 0
        self._seen = 0

    def sweep(self) -> list[str]:
        """Return the addresses of connections that the last sweep saw and that made no call."""
        found = sorted(_connections(from_number=self._judged + 1))[:CONNECTIONS_PER_SWEEP_MAX]
        due = [(number, peer) for number, peer in found if number <= self._seen]
        silent = [peer for number, peer in due if not _made_a_call(number)]
        self._judged = self._seen
        self._seen = max((number for number, _ in found), default=self._seen)
        return silent


async def log_silent_connections() -> None:
    """Log for ever each connection that made no call."""
    connections = SilentConnections()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        for peer in connections.sweep():
            _log.warning("connection without a call", extra=fields(peer=peer))


def _connections(*, from_number: int) -> Iterator[tuple[int, str]]:
    """Yield number and address of each connection to a server here, open or remembered."""
    for server in _channelz(cygrpc.channelz_get_servers, 0).get("server", ()):
        server_id = int(server["ref"]["serverId"])
        sockets = _channelz(
            cygrpc.channelz_get_server_sockets, server_id, from_number, CONNECTIONS_PER_SWEEP_MAX
        )
        for socket in sockets.get("socketRef", ()):
            # The name is the kind of transport and the address.
            yield int(socket["socketId"]), socket["name"].rpartition(" ")[2]


def _made_a_call(number: int) -> bool:
    socket = _channelz(cygrpc.channelz_get_socket, number).get("socket", {})
    return int(socket.get("data", {}).get("streamsStarted", 1)) > 0


def _channelz(function: Any, *arguments: int) -> dict[str, Any]:
    """Return gRPC's response; empty if gRPC has forgotten the object meanwhile."""
    try:
        response: dict[str, Any] = json.loads(function(*arguments))
    except ValueError:
        return {}
    return response
