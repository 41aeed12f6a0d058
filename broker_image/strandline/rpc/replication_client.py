"""The follower's end of a replication stream: fetches go out, responses come in.

One object per leader incarnation; made by `runtime` when the core sends its first fetch.
It does not retry: it reports a broken stream once, and the core decides when to fetch again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.core.events import FollowerFetchReceived
from strandline.log_fields import fields

from .fetch_session import FollowerFetchSession
from .frames import BadFrame, EndFrame, RecordsFrame, decode, encode_fetch
from .streams import CoalescingWriter, channel_options, until_one_ends

_log = logging.getLogger(__name__)

METHOD = "/strandline.v1.Replication/Replicate"

OnResponse = Callable[[int, list[RecordsFrame]], None]
OnBroken = Callable[[], None]


class ReplicationClient:
    """A stream to one leader; on_response gets whole responses, on_broken runs at most once."""

    def __init__(
        self, address: str, settings: GrpcConfig, *, on_response: OnResponse, on_broken: OnBroken
    ) -> None:
        self._on_response = on_response
        self._on_broken = on_broken
        self._channel = grpc.aio.insecure_channel(address, options=channel_options(settings))
        self._call = self._channel.stream_stream(METHOD)()
        self._writer = CoalescingWriter(self._call.write, settings)
        self._session = FollowerFetchSession()
        self._given_up = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"replication to {address}")

    def send(self, fetch: FollowerFetchReceived) -> None:
        """Queue a fetch; a response or a broken stream follows.

        Raises:  StreamOverflow when the leader has stopped reading; close the stream then
        """
        self._writer.put(encode_fetch(self._session.frame_of(fetch)))

    async def close(self) -> None:
        """End the stream; on_broken is not called any more."""
        self._on_broken = _nothing
        self._given_up.set()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        # As in `SessionClient`, no cancellation ends this task.
        try:
            breach = await until_one_ends(
                self._writer.run(), self._read(), self._given_up.wait(), on_end=self._call.cancel
            )
            if breach is not None:
                _log.warning("replication stream closed", extra=fields(cause=str(breach)))
        finally:
            await self._channel.close()
            self._on_broken()

    async def _read(self) -> None:
        answer: list[RecordsFrame] = []
        while True:
            message = await self._call.read()
            if message is grpc.aio.EOF:
                return
            for frame in decode(message):
                if isinstance(frame, RecordsFrame):
                    answer.append(frame)
                elif isinstance(frame, EndFrame):
                    complete, answer = answer, []
                    self._on_response(frame.request_id, complete)
                else:
                    raise BadFrame("a leader sent a fetch")


def _nothing() -> None:
    """Stand in for on_broken once the owner has closed the stream itself."""
