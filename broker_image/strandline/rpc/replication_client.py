"""The follower's end of a replication stream: fetches go out, responses come in.

One object per leader incarnation. It does not retry: it reports a broken stream, and the core
decides when to fetch again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.core.events import FollowerFetchReceived
from strandline.log_fields import fields

from .fetch_session import FollowerFetchSession
from .frames import BadFrame, EndFrame, RecordsFrame, decode, encode_fetch
from .streams import CoalescingWriter, StreamClient

_log = logging.getLogger(__name__)

METHOD = "/strandline.v1.Replication/Replicate"


class ReplicationClient(StreamClient):
    """A stream to one leader; on_response gets whole responses."""

    def __init__(
        self,
        address: str,
        settings: GrpcConfig,
        *,
        on_response: Callable[[int, list[RecordsFrame]], None],
        on_broken: Callable[[], None],
    ) -> None:
        super().__init__(address, settings, METHOD, on_broken=on_broken)
        self._on_response = on_response
        self._writer = CoalescingWriter(self._call.write, settings)
        self._session = FollowerFetchSession()

    def send(self, fetch: FollowerFetchReceived) -> None:
        """Queue a fetch; on StreamOverflow the leader has stopped reading: close the stream."""
        self._writer.put(encode_fetch(self._session.frame_of(fetch)))

    def _parts(self) -> tuple[Coroutine[Any, Any, object], ...]:
        return self._writer.run(), self._read()

    def _log_breach(self, breach: Exception) -> None:
        _log.warning("replication stream closed", extra=fields(cause=str(breach)))

    async def _read(self) -> None:
        response: list[RecordsFrame] = []
        while (message := await self._call.read()) is not grpc.aio.EOF:
            for frame in decode(message):
                if isinstance(frame, RecordsFrame):
                    response.append(frame)
                elif isinstance(frame, EndFrame):
                    complete, response = response, []
                    self._on_response(frame.request_id, complete)
                else:
                    raise BadFrame("a leader sent a fetch")
