"""What the ends of streams share: channel options, their tasks, and the coalescing writer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import grpc
import grpc.aio

from strandline.config.network import GrpcConfig
from strandline.errors import StrandlineError

from .frames import BadFrame, Buffer

OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
"""gRPC's option for a channel that shares no connection and no back-off with others."""


def channel_options(settings: GrpcConfig) -> tuple[tuple[str, int], ...]:
    """Return the options of both ends of a connection between brokers.

    A record batch and its frame header must fit into the largest message. Pings find a dead
    machine, but no stopped process: the sessions' heartbeats find that.
    """
    return (
        # An HTTP proxy must never stand between brokers, nor respond for one.
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_send_message_length", settings.message_max_bytes),
        ("grpc.max_receive_message_length", settings.message_max_bytes),
        ("grpc.keepalive_time_ms", settings.keepalive_time_ms),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.http2.ping_timeout_ms", settings.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", settings.keepalive_time_ms // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.initial_reconnect_backoff_ms", settings.reconnect_backoff_ms),
        ("grpc.min_reconnect_backoff_ms", settings.reconnect_backoff_ms),
        ("grpc.max_reconnect_backoff_ms", settings.reconnect_backoff_max_ms),
        OWN_CONNECTION,
    )


Message = TypeVar("Message")


class StreamClosed(StrandlineError):
    """The call was over before the message was written; the call's reader sees the end too."""


class StreamOverflow(StrandlineError):
    """A peer does not read what it asked for; the owner gives the stream up."""


async def write_message(write: Callable[[Message], Awaitable[object]], message: Message) -> None:
    """Write one message to a stream.

    Raises:  StreamClosed or grpc.RpcError; which of the two depends on whether gRPC learned
             of the end before the call or during it
    """
    try:
        await write(message)
    except (asyncio.InvalidStateError, grpc.aio.InternalError, grpc.aio.UsageError) as error:
        raise StreamClosed(str(error)) from error


async def until_one_ends(
    *parts: Coroutine[Any, Any, object], on_end: Callable[[], object]
) -> ValueError | BadFrame | None:
    """Run the parts of a stream until one ends; call on_end in that turn, then end the others.

    Returns: how the peer broke the protocol; None if the stream ended or broke
    Raises:  the error of the part that ended first, if it is none of these
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        on_end()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    breach = None
    for task in ended:
        # gRPC cancels each task that waits on a call that it gave up.
        match None if task.cancelled() else task.exception():
            case None | grpc.RpcError() | StreamClosed():
                continue
            case ValueError() | BadFrame() as refused:
                breach = refused
            case failure:
                raise failure
    return breach


class StreamClient(ABC):
    """The end of a stream that dials; on_broken runs at most once, and not after `close`."""

    def __init__(
        self,
        address: str,
        settings: GrpcConfig,
        method: str,
        *,
        on_broken: Callable[[], None],
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._on_broken = on_broken
        self._given_up = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(address, options=channel_options(settings))
        self._call = self._channel.stream_stream(
            method, request_serializer, response_deserializer
        )()
        self._task = asyncio.create_task(self._run(), name=f"{method} to {address}")

    async def close(self) -> None:
        """End the stream."""
        self._on_broken = _nothing
        self._given_up.set()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        # No cancellation ends this task: a task that never began closes no channel, and the
        # traceback of a cancelled one keeps the call, and so its connection, until it is collected.
        try:
            ends = (*self._parts(), self._given_up.wait())
            breach = await until_one_ends(*ends, on_end=self._call.cancel)
            if breach is not None:
                self._log_breach(breach)
        finally:
            await self._channel.close()
            self._on_broken()

    @abstractmethod
    def _parts(self) -> tuple[Coroutine[Any, Any, object], ...]:
        """Return what writes to the stream and what reads from it."""

    @abstractmethod
    def _log_breach(self, breach: Exception) -> None:
        """Log how the peer broke the protocol."""


def _nothing() -> None:
    """Stand in for on_broken once the owner has closed the stream itself."""


class CoalescingWriter:
    """Sends frames in order, many in one message; `run` is the one task that writes.

    gRPC in Python costs per message, not per byte, so a writer sends everything queued since its
    last send as one message. There is no linger: messages grow by back-pressure alone. `put`
    never blocks: callers are synchronous performers of effects.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[object]], settings: GrpcConfig) -> None:
        self._write = write
        self._message_target_bytes = settings.frame_max_bytes
        self._queue_max_bytes = settings.queue_max_bytes
        self._frames: deque[tuple[int, Sequence[Buffer]]] = deque()
        self._queued_bytes = 0
        self._idle: asyncio.Future[None] | None = None
        """What `run` waits for while nothing is queued."""

    def put(self, frame: Sequence[Buffer]) -> None:
        """Queue one frame; raises StreamOverflow when the peer has stopped reading."""
        size = sum(map(len, frame))
        if self._queued_bytes + size > self._queue_max_bytes:
            raise StreamOverflow(f"{self._queued_bytes} bytes wait for a peer that does not read")
        self._queued_bytes += size
        self._frames.append((size, frame))
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def run(self) -> None:
        """Write until cancelled or until the stream breaks; see `write_message`."""
        while True:
            while self._frames:
                await write_message(self._write, self._gather())
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _gather(self) -> bytes:
        parts: list[Buffer] = []
        gathered = 0
        target = self._message_target_bytes
        while self._frames and (not parts or gathered + self._frames[0][0] <= target):
            size, frame = self._frames.popleft()
            parts.extend(frame)
            gathered += size
        self._queued_bytes -= gathered
        return b"".join(parts)
