"""Answers of one connection, leaving in the order of their requests.

Used by `connection`. An answer takes its place when its request is taken in; it leaves when it
is ready and everything before it has left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from strandline.broker_interface import Buffer
from strandline.errors import ErrorCode

from .codec import RequestHeader, encode_response
from .observer import ListenerObserver
from .reply import Reply
from .schemas import Api

JOINED_RESPONSE_MAX_BYTES = 65_536
"""Responses up to this size are joined into one write; larger ones are written per buffer."""

UNKNOWN_API = "unknown"


@dataclass(slots=True, kw_only=True, eq=False)
class Answer:
    """A request taken in: first unanswered, then ready to leave.

    buffers is None until ready, and empty if nothing is to be sent. Times are the loop's.
    result is what the answer waits for, and only if it may be cancelled.
    """

    api: Api | None
    header: RequestHeader
    size_bytes: int
    received_at: float
    handled_at: float = 0.0
    ready_at: float = 0.0
    buffers: list[Buffer] | None = None
    error: ErrorCode = ErrorCode.NONE
    closes_connection: bool = False
    result: asyncio.Future[object] | None = None

    @property
    def api_name(self) -> str:
        """The name of the API, for logs and metrics."""
        return UNKNOWN_API if self.api is None else self.api.name

    def ready(self, reply: Reply, version: int, now: float) -> None:
        """Encode the reply; from now on the answer may leave."""
        self.error = reply.error
        self.closes_connection = reply.closes_connection
        if reply.body is None or self.api is None:
            self.buffers = []
        else:
            self.buffers = encode_response(
                self.api, version, correlation_id=self.header.correlation_id, message=reply.body
            )
        self._settled(now)

    def ready_to_close(self, error: ErrorCode, now: float) -> None:
        """Close the connection, without an answer, when the answers before have left."""
        self.error = error
        self.closes_connection = True
        self.buffers = []
        self._settled(now)

    def _settled(self, now: float) -> None:
        self.ready_at = now
        self.handled_at = self.handled_at or now
        self.result = None


class AnswerQueue:
    """The answers of a connection that have not left, oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, observer: ListenerObserver) -> None:
        self._loop = loop
        self._observer = observer
        self._answers: deque[Answer] = deque()
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def add(self, answer: Answer) -> None:
        """Give a request its place in the order."""
        self._answers.append(answer)

    def send_next(self, transport: asyncio.Transport) -> bool:
        """Send the oldest answer if it is ready; False if nothing left.

        is_closed is set by an answer that ends the connection; nothing leaves after it.
        """
        if self.is_closed or not self._answers or self._answers[0].buffers is None:
            return False
        answer = self._answers.popleft()
        if answer.buffers and not transport.is_closing():
            _write(transport, answer.buffers)
        self.is_closed = answer.closes_connection
        self._observer.request_answered(
            answer.api_name,
            answer.error,
            local_seconds=answer.handled_at - answer.received_at,
            remote_seconds=answer.ready_at - answer.handled_at,
            send_seconds=self._loop.time() - answer.ready_at,
        )
        return True


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
