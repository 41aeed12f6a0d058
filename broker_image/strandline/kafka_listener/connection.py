"""One client connection: frames in, answers out in the order of their requests.

Made by `server`; runs on its event loop and nowhere else. Requests are handled as soon as
they are complete, so that appends happen in their order while acknowledgements are still
awaited; answers leave strictly in order. Reading stops while any bound of `settings` is
reached: requests unanswered, their bytes, a fetch under way, responses not taken by the client.
Whatever a client sends, the worst that happens is that its own connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import cast

from strandline.errors import ErrorCode, InvariantViolation
from strandline.log_fields import fields

from .answers import Answer, AnswerQueue
from .budget import RequestBudget
from .cluster_requests import unknown_api_versions
from .codec import (
    FIXED_HEADER_BYTES,
    RequestHeader,
    client_id_or_empty,
    decode_request,
    read_header,
)
from .frames import FrameAssembler
from .handlers import HANDLERS
from .observer import (
    CLIENT_NAME_MAX_CHARACTERS,
    ClientNames,
    ListenerObserver,
)
from .refusals import refusal_in
from .reply import Later, Reply, RequestContext
from .schemas import API_VERSIONS, APIS, FETCH, Api
from .wire import MalformedRequest

_log = logging.getLogger(__name__)

NO_HEADER = RequestHeader(api_key=-1, version=-1, correlation_id=-1)


@dataclass(slots=True, kw_only=True)
class ListenerState:
    """What the connections of one listener share."""

    context: RequestContext
    observer: ListenerObserver
    budget: RequestBudget
    client_names: ClientNames
    connections: set[KafkaConnection] = field(default_factory=set)
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while there are no connections."""
    is_closing: bool = False


class KafkaConnection(asyncio.BufferedProtocol):
    """Reads requests, has them handled, writes answers.

    reading -> paused: a bound is reached; back when it is not.
    reading or paused -> ending: a frame that cannot be answered came, or `end` was called; no
    further frame is taken, answers under way still leave, then the connection is closed.
    any -> lost: the transport is gone; results that still come are dropped.
    """

    def __init__(self, shared: ListenerState, loop: asyncio.AbstractEventLoop) -> None:
        self._shared = shared
        self._settings = shared.context.settings
        self._loop = loop
        self._frames = FrameAssembler(
            staging_bytes=self._settings.receive_buffer_bytes,
            frame_max_bytes=self._settings.request_max_bytes,
            frame_min_bytes=FIXED_HEADER_BYTES,
        )
        self._transport: asyncio.Transport | None = None
        self._answers = AnswerQueue(loop, shared.observer)
        self._reserved_bytes = 0
        self._next_is_reserved = False
        self._fetch_count = 0
        self._is_reading = True
        self._is_writable = True
        self._is_ending = False
        self._is_lost = False
        self._is_taking = False
        self._client_name = ""
        self._peer = ""
        self._active_at = loop.time()
        self._frame_begun_at: float | None = None

    # --- called by the event loop ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless there are connections enough."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_buffer_high_bytes)
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        if self._shared.is_closing or self._is_one_too_many():
            self._is_ending = True
            self._transport.abort()
            return
        self._shared.connections.add(self)
        self._shared.is_empty.clear()
        self._shared.observer.connections_changed(len(self._shared.connections))

    def _is_one_too_many(self) -> bool:
        most = self._settings.connections_max
        if len(self._shared.connections) < most:
            return False
        _log.warning(
            "connection refused, too many connections",
            extra=fields(peer=self._peer, connections_max=most),
        )
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Forget everything that was under way for this client."""
        if self._frames.is_partial and self._is_reading and not self._is_ending:
            _log.info("connection lost within a request", extra=fields(**self._who()))
        self._is_lost = self._is_ending = True
        self._shared.budget.forget(self._wake)
        for answer in self._answers:
            if answer.result is not None:
                answer.result.cancel()
        self._shared.budget.release(self._reserved_bytes)
        self._reserved_bytes = 0
        if self in self._shared.connections:
            self._shared.connections.remove(self)
            self._shared.observer.connections_changed(len(self._shared.connections))
        if not self._shared.connections:
            self._shared.is_empty.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return where the next bytes shall be received."""
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Take note of bytes received and handle every request that is complete."""
        self._active_at = self._loop.time()
        self._frames.received(nbytes)
        self._take_frames()

    def pause_writing(self) -> None:
        """Stop taking requests: the client does not take its answers."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """Send what waited, and go on."""
        self._is_writable = True
        self._take_frames()

    # --- called by the server -------------------------------------------------------------

    def end(self) -> None:
        """Take no further request; close when the answers under way have left."""
        self._is_ending = True
        self._take_frames()

    def abort(self) -> None:
        """Close at once."""
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()

    def abort_if_overdue(self, now: float) -> None:
        """Close if the client kept a frame incomplete, or did nothing at all, for too long."""
        if self._frame_begun_at is not None and self._is_reading:
            begun_ms, limit = self._frame_begun_at, self._settings.receive_timeout_ms
        elif self._is_writable and len(self._answers):
            return
        else:
            begun_ms, limit = self._active_at, self._settings.connection_idle_max_ms
        if (now - begun_ms) * 1000 > limit:
            _log.info("silent connection closed", extra=fields(peer=self._peer, limit_ms=limit))
            self.abort()

    # --- requests in ----------------------------------------------------------------------

    def _wake(self) -> None:
        """Go on when memory is free; not at once, because another connection is at work."""
        self._loop.call_soon(self._take_frames)

    def _take_frames(self) -> None:
        """Handle complete frames until none is left or a bound is reached; send what is ready."""
        if self._is_taking or self._is_lost:
            return
        self._is_taking = True
        self._send()
        may_go_on = True
        try:
            while not self._is_ending and (may_go_on := self._may_take_next()):
                frame = self._frames.take()
                if frame is None:
                    break
                self._frame_begun_at = None
                self._next_is_reserved = False
                self._take(frame)
                self._send()
        except MalformedRequest as error:
            answer = self._new_answer(None, NO_HEADER, size_bytes=0)
            self._refuse(answer, reason=str(error))
        finally:
            self._is_taking = False
        self._send()
        self._pause_or_resume(may_go_on=may_go_on and not self._is_ending)

    def _may_take_next(self) -> bool:
        """Tell whether the next frame fits into every bound; reserve its bytes if so.

        True as well while not enough of it has come to tell its size.
        """
        size = self._frames.next_size()
        if size is None:
            return True
        if not self._is_writable or len(self._answers) >= self._settings.requests_in_flight_max:
            return False
        if self._fetch_count and self._frames.next_api_key() == FETCH:
            # One fetch at a time: each may answer with as much as fetch.max.bytes.
            return False
        if self._next_is_reserved:
            return True
        held = self._reserved_bytes
        if held and held + size > self._settings.connection_memory_max_bytes:
            return False
        if not self._shared.budget.reserve(size):
            self._shared.budget.wait(self._wake)
            return False
        self._reserved_bytes += size
        self._next_is_reserved = True
        return True

    def _pause_or_resume(self, *, may_go_on: bool) -> None:
        transport = self._transport
        now = self._loop.time()
        if self._frame_begun_at is None and self._frames.is_partial:
            self._frame_begun_at = now
        if transport is None or transport.is_closing() or may_go_on == self._is_reading:
            return
        self._is_reading = may_go_on
        if may_go_on:
            self._frame_begun_at = now if self._frames.is_partial else None
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _new_answer(self, api: Api | None, header: RequestHeader, *, size_bytes: int) -> Answer:
        answer = Answer(
            api=api, header=header, size_bytes=size_bytes, received_at=self._loop.time()
        )
        self._answers.add(answer)
        return answer

    def _take(self, frame: memoryview) -> None:
        """Decode and handle one request; the one place where a handler's failure is caught."""
        header = read_header(frame)
        api = APIS.get(header.api_key)
        answer = self._new_answer(api, header, size_bytes=len(frame))
        if api is None or not api.serves(header.version):
            self._unsupported(answer, frame)
            return
        try:
            client_id, request = decode_request(
                api, header.version, frame, elements_max=self._settings.request_elements_max
            )
            self._client_name = self._client_name or client_id
            if api.key == API_VERSIONS:
                self._client_name = request.get("client_software_name", self._client_name)
            outcome = HANDLERS[api.key](self._shared.context, header.version, request)
            answer.handled_at = self._loop.time()
            if isinstance(outcome, Reply):
                self._ready(answer, outcome)
            else:
                self._await(answer, outcome)
        except MalformedRequest as error:
            self._refuse(answer, reason=str(error))
        except InvariantViolation:
            raise
        except Exception as error:
            self._failed(answer, error)

    def _unsupported(self, answer: Answer, frame: memoryview) -> None:
        """Answer an unknown version of ApiVersions; close for everything else we do not serve."""
        if answer.header.api_key == API_VERSIONS:
            answer.ready(unknown_api_versions(), 0, self._loop.time())
            self._give_back(answer)
            return
        client = self._client_name or client_id_or_empty(frame)
        label = self._shared.client_names.label(client)
        self._shared.observer.request_unsupported(answer.api_name, label)
        _log.warning("unsupported request, connection closed", extra=fields(**self._fields(answer)))
        self._close_with(answer, ErrorCode.UNSUPPORTED_VERSION)

    def _refuse(self, answer: Answer, *, reason: str) -> None:
        _log.warning(
            "malformed request, connection closed",
            extra=fields(**self._fields(answer), reason=reason),
        )
        self._close_with(answer, ErrorCode.INVALID_REQUEST)

    def _failed(self, answer: Answer, cause: BaseException) -> None:
        """Report a failure of our own; the client loses its connection and nothing else."""
        _log.error(
            "request failed, connection closed",
            extra=fields(**self._fields(answer)),
            exc_info=cause,
        )
        self._close_with(answer, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _who(self) -> dict[str, object]:
        return {
            "peer": self._peer,
            "listener": self._shared.context.listener_name,
            "client": self._client_name[:CLIENT_NAME_MAX_CHARACTERS],
        }

    def _fields(self, answer: Answer) -> dict[str, object]:
        return {
            **self._who(),
            "api": answer.api_name,
            "api_key": answer.header.api_key,
            "api_version": answer.header.version,
        }

    # --- answers out ----------------------------------------------------------------------

    def _await(self, answer: Answer, outcome: Later) -> None:
        """Finish the answer when its result is there."""
        result: asyncio.Future[object] = asyncio.ensure_future(outcome.result)
        if outcome.may_cancel:
            answer.result = result
            self._fetch_count += 1

        def done(finished: asyncio.Future[object]) -> None:
            self._fetch_count -= outcome.may_cancel
            if self._is_lost:
                # Nobody waits for it; looking at the exception keeps the loop from reporting it.
                _ = finished.cancelled() or finished.exception()
                return
            try:
                self._ready(answer, outcome.finish(finished.result()))
            except InvariantViolation:
                raise
            except (Exception, asyncio.CancelledError) as error:
                self._failed(answer, error)
            self._take_frames()

        if result.done():
            done(result)
        else:
            result.add_done_callback(done)

    def _ready(self, answer: Answer, reply: Reply) -> None:
        refusal = refusal_in(reply)
        if refusal is not None:
            _log.log(
                refusal.level,
                "request refused",
                extra=fields(**self._fields(answer), **refusal.fields()),
            )
        answer.ready(reply, answer.header.version, self._loop.time())
        self._give_back(answer)

    def _close_with(self, answer: Answer, error: ErrorCode) -> None:
        self._is_ending = True
        answer.ready_to_close(error, self._loop.time())
        self._give_back(answer)

    def _give_back(self, answer: Answer) -> None:
        """Release the memory of the request: its frame is not needed any more."""
        self._reserved_bytes -= answer.size_bytes
        self._shared.budget.release(answer.size_bytes)

    def _send(self) -> None:
        """Send answers as far as they are ready; close when an ending connection has no more."""
        transport = self._transport
        if transport is None:
            return
        while self._is_writable and self._answers.send_next(transport):
            self._active_at = self._loop.time()
        if self._answers.is_closed or (self._is_ending and not len(self._answers)):
            self._is_ending = True
            transport.close()
