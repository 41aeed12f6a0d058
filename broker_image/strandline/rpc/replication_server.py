"""The leader's end of replication streams: fetches come in, responses go out.

Registered on the broker's gRPC server; `on_fetch` is the only way in. A response belongs to the
stream of its fetch: when that stream is gone, the leader drops the response, and the follower
fetches again on a new stream.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.core.effects import LogReadInfo
from strandline.core.events import FollowerFetchReceived
from strandline.log_fields import fields

from .fetch_session import LeaderFetchSession
from .frames import BadFrame, Buffer, FetchFrame, decode, encode_end, encode_records
from .streams import CoalescingWriter, StreamOverflow, until_one_ends

_log = logging.getLogger(__name__)

SERVICE = "strandline.v1.Replication"

_session_ids = itertools.count(1)
"""One for each stream in the life of this process: no two sessions have the same."""


class FollowerStream:
    """The stream of one follower, for responses to its fetches."""

    def __init__(self, writer: CoalescingWriter, peer: str) -> None:
        self._writer = writer
        self._peer = peer
        self.broken = asyncio.Event()

    def send_records(self, request_id: int, part: LogReadInfo, records: Sequence[Buffer]) -> None:
        """Queue one partition of a response, without a copy of its records."""
        self._put(encode_records(request_id, part, records))

    def send_end(self, request_id: int) -> None:
        """Queue the end of a response."""
        self._put(encode_end(request_id))

    def _put(self, frame: Sequence[Buffer]) -> None:
        if self.broken.is_set():
            return
        try:
            self._writer.put(frame)
        except StreamOverflow as error:
            _log.warning(
                "replication stream given up", extra=fields(peer=self._peer, cause=str(error))
            )
            self.broken.set()


OnFetch = Callable[[FollowerFetchReceived, FollowerStream], None]


def replication_service(
    on_fetch: OnFetch, on_gone: Callable[[FollowerStream], None], settings: GrpcConfig
) -> grpc.GenericRpcHandler:
    """Return the gRPC service; on_gone gets each stream that ended."""

    async def replicate(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        writer = CoalescingWriter(context.write, settings)
        stream = FollowerStream(writer, context.peer())

        def on_end() -> None:
            stream.broken.set()
            on_gone(stream)

        parts = (writer.run(), _read(context, stream, on_fetch), stream.broken.wait())
        breach = await until_one_ends(*parts, on_end=on_end)
        if breach is not None:
            _log.warning(
                "replication stream closed", extra=fields(peer=context.peer(), cause=str(breach))
            )

    handler = grpc.stream_stream_rpc_method_handler(replicate)
    return grpc.method_handlers_generic_handler(SERVICE, {"Replicate": handler})


async def _read(
    context: grpc.aio.ServicerContext[bytes, bytes], stream: FollowerStream, on_fetch: OnFetch
) -> None:
    session = LeaderFetchSession(session_id=next(_session_ids))
    while (message := await context.read()) is not grpc.aio.EOF:
        for frame in decode(message):
            if not isinstance(frame, FetchFrame):
                raise BadFrame("a follower sent records")
            on_fetch(session.fetch_of(frame), stream)
