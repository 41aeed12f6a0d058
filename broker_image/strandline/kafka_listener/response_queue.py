"""The responses of one connection, sent in the order of their requests.

Used by `connection`. A response takes its place in the queue when its request is read; it is
sent when it is ready and every response before it was sent. One with records in files leaves
through `file_sender`, and has its place until the kernel has all of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import cast

from strandline.broker_interface import Buffer, Piece
from strandline.errors import ErrorCode

from .codec import RequestHeader, encode_response
from .file_sender import FileSender
from .observer import ListenerObserver
from .response import Response
from .response_memory import ResponseMemory
from .schemas import ApiSchema
from .turns import Turns

JOINED_RESPONSE_MAX_BYTES = 65_536
"""Responses up to this size are joined into one write; larger ones are written per buffer."""

UNKNOWN_API = "unknown"


@dataclass(slots=True, kw_only=True, eq=False)
class PendingResponse:
    """The place of one request in the queue: first without a response, then with one to send.

    pieces is None until ready, and empty if nothing is to be sent. Times are the loop's.
    result is the future that the response waits for; it is set only if it may be cancelled.
    """

    api: ApiSchema | None
    header: RequestHeader
    received_at: float
    handled_at: float = 0.0
    ready_at: float = 0.0
    pieces: list[Piece] | None = None
    error: ErrorCode = ErrorCode.NONE
    closes_connection: bool = False
    result: asyncio.Future[object] | None = None
    memory: ResponseMemory

    @property
    def api_name(self) -> str:
        """The name of the API, for logs and metrics."""
        return UNKNOWN_API if self.api is None else self.api.name

    def handled(self, now: float) -> None:
        """Note when the broker's part of the work was done."""
        self.handled_at = now

    def wait_for(self, result: asyncio.Future[object]) -> None:
        """Note the future that gives the response; it may be cancelled."""
        self.result = result

    def use(self, memory: ResponseMemory) -> None:
        """Note the memory that the response has asked for."""
        self.memory = memory

    def encode(self, response: Response, version: int) -> Turns[list[Piece]]:
        """Return the bytes of the response: none if it has no body."""
        if response.body is None or self.api is None:
            return []
        return (
            yield from encode_response(
                self.api, version, correlation_id=self.header.correlation_id, message=response.body
            )
        )

    def ready(self, response: Response, pieces: list[Piece], now: float) -> None:
        """Take the response and its bytes; from now on it may be sent."""
        self.error = response.error
        self.closes_connection = response.closes_connection
        self.pieces = pieces
        self.memory.encoded(sum(len(piece) for piece in pieces))
        self.ready_at = now
        self.handled_at = self.handled_at or now
        self.result = None


class Outflow(Enum):
    """Whether responses are sent: open, and blocked or sending, alternate; closed is final."""

    OPEN = "open"
    BLOCKED = "blocked"
    """The client has not read enough of the responses written."""
    SENDING = "sending"
    """The oldest response is sent from files, past the transport."""
    CLOSED = "closed"
    """A response that closes the connection was sent."""


class ResponseQueue:
    """The responses of a connection that were not sent yet, oldest first.

    untaken holds the large responses that were written and that the client may not have taken.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        observer: ListenerObserver,
        new_memory: Callable[[], ResponseMemory],
        *,
        threads: ThreadPoolExecutor,
        on_file_sent: Callable[[], None],
        on_file_lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._observer = observer
        self._new_memory = new_memory
        self._responses: deque[PendingResponse] = deque()
        self._files = FileSender(loop, threads, on_file_sent, on_file_lost)
        self._untaken: list[PendingResponse] = []
        self._outflow = Outflow.OPEN

    def __len__(self) -> int:
        return len(self._responses)

    @property
    def is_open(self) -> bool:
        """Tell whether the next response is sent as soon as it is ready."""
        return self._outflow is Outflow.OPEN

    @property
    def is_closed(self) -> bool:
        """Tell whether nothing is sent any more."""
        return self._outflow is Outflow.CLOSED

    def block(self) -> None:
        """Send nothing until `unblock`."""
        if self._outflow is Outflow.OPEN:
            self._outflow = Outflow.BLOCKED

    @property
    def has_untaken(self) -> bool:
        """Tell whether a large response was written and not taken."""
        return bool(self._untaken)

    def taken(self) -> None:
        """Give back the memory of what was written: the client's kernel or ours has it all."""
        for pending in self._untaken:
            pending.memory.give_back()
        self._untaken.clear()

    def drop(self) -> None:
        """Cancel and give back all: the client is gone."""
        self.taken()
        self._files.stop()
        for pending in self._responses:
            pending.memory.give_back()
            if pending.result is not None:
                pending.result.cancel()
        # Their files would stay open until the connection is collected.
        self._responses.clear()

    def held_since(self) -> float | None:
        """Return since when the oldest large response waits for the client; None without one."""
        ready = (each for each in self._responses if each.pieces and each.memory.is_counted)
        return min((each.ready_at for each in (*self._untaken, *ready)), default=None)

    def unblock(self) -> None:
        """Send again."""
        if self._outflow is Outflow.BLOCKED:
            self._outflow = Outflow.OPEN

    def add(self, api: ApiSchema | None, header: RequestHeader) -> PendingResponse:
        """Give a request its place in the order; return it."""
        now = self._loop.time()
        pending = PendingResponse(
            api=api, header=header, received_at=now, memory=self._new_memory()
        )
        self._responses.append(pending)
        return pending

    def send_next(self, transport: asyncio.Transport) -> bool:
        """Send the oldest response if it is ready; False if nothing was sent.

        Nothing is sent after a response that closes the connection.
        """
        if not self.is_open or not self._responses or self._responses[0].pieces is None:
            return False
        pieces = self._responses[0].pieces
        if transport.is_closing():
            pass
        elif not all(isinstance(piece, Buffer) for piece in pieces):
            self._send_from_files(transport, pieces)
            return False
        elif pieces:
            _write(transport, cast("list[Buffer]", pieces))
        pending = self._leave()
        if pending.memory.is_counted:
            self._untaken.append(pending)
        return True

    def _send_from_files(self, transport: asyncio.Transport, pieces: list[Piece]) -> None:
        """Begin with the oldest response, unless the transport has something to write before."""
        if transport.get_write_buffer_size():
            # Blocks the responses; `unblock` comes when the buffer is empty.
            transport.set_write_buffer_limits(high=0, low=0)
        else:
            self._outflow = Outflow.SENDING
            self._files.send(transport, pieces)

    def file_sent(self) -> None:
        """Let the response go that was sent from files: the kernel has all of it."""
        self._outflow = Outflow.OPEN
        self._leave().memory.give_back()

    def _leave(self) -> PendingResponse:
        """Take the oldest response out, which was sent."""
        pending = self._responses.popleft()
        if pending.closes_connection:
            self._outflow = Outflow.CLOSED
        self._observer.response_sent(
            pending.api_name,
            pending.error,
            local_seconds=pending.handled_at - pending.received_at,
            remote_seconds=pending.ready_at - pending.handled_at,
            send_seconds=self._loop.time() - pending.ready_at,
        )
        return pending


def _write(transport: asyncio.Transport, buffers: list[Buffer]) -> None:
    """Write a response; a large one buffer by buffer, so that records are not copied."""
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif sum(len(buffer) for buffer in buffers) <= JOINED_RESPONSE_MAX_BYTES:
        transport.write(b"".join(buffers))
    else:
        for buffer in buffers:
            if buffer:
                transport.write(buffer)
