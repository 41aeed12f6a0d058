"""Callers of the gRPC port that are no brokers: one log line for each, nothing else.

`not_served` refuses every call to an unknown method. A connection that speaks no HTTP/2 is
ended by gRPC before any handler of ours could see it; `log_silent_connections` finds it
afterwards among the connections that gRPC remembers (channelz). A broker connects
because it has a call to make: a connection without one for an interval is no broker's.

gRPC forgets ended connections unless GRPC_CHANNELZ_MAX_ORPHANED_NODES says otherwise before it
is first imported. The functions asked are those behind its grpcio-channelz package.
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
"""A line is at most two sweeps late; a sweep without new connections asks one question."""
CONNECTIONS_PER_SWEEP_MAX: Final = 100
"""What is more waits for the next sweep, if gRPC remembers it for so long."""
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
    """Return the handler to register last: it takes whatever the others do not."""
    handler: grpc.GenericRpcHandler = _NotServed()
    return handler


class SilentConnections:
    """Connections to this process that were open for a sweep, or are over, without a call.

    gRPC numbers them upwards: those up to `_judged` were looked at, those up to `_seen` will be
    when the next sweep comes.
    """

    def __init__(self) -> None:
        self._judged = 0
        self._seen = 0

    def sweep(self) -> list[str]:
        """Return the addresses of those that made no call since the last sweep saw them."""
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
    """Return gRPC's answer; of what it forgot meanwhile it has none."""
    try:
        answer: dict[str, Any] = json.loads(function(*arguments))
    except ValueError:
        return {}
    return answer
