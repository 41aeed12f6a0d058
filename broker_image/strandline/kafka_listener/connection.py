"""One client connection: frames in, responses out in the order of their requests.

Made by `server`; runs on its event loop and nowhere else. The connection handles requests as soon
as they are complete, so that appends happen in order while acknowledgements are still awaited;
responses leave strictly in order. A request of many elements takes turns with other connections
(`turns`), and the next request of its own connection waits until they are over. Reading stops while
any bound of `settings` is reached: requests without a response, a fetch in flight, responses that
the client has not read, and, shared with the other connections, bytes of requests and waiting
acknowledgements. The bytes of a request are free again when it is handled: a produce request is in
the log then, and its acknowledgement needs none. Bad input of a client closes its own connection at
worst.

    state    socket    frames  responses  left when
    Reading  read      taken   sent       a bound is reached; the connection ends
    Paused   not read  kept    sent       no bound is reached; the connection ends
    Ending   not read  kept    sent       the last response is sent: the transport is closed
    Lost     gone      kept    dropped    never

A connection ends when a frame comes that has no response, or when `end` or `abort` is called.
Every state becomes Lost when the transport is gone. `response_queue` has the states of sending.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import cast

from strandline.errors import ErrorCode, InvariantViolation
from strandline.kafka_listener.apis.api_versions import unsupported_version
from strandline.log_fields import fields

from .apis import HANDLERS
from .budget import Share
from .client_bounds import ClientBounds
from .codec import (
    FIXED_HEADER_BYTES,
    RequestHeader,
    client_id_or_empty,
    decode_request,
    read_header,
)
from .error_logging import error_to_log
from .frames import FrameAssembler
from .observer import CLIENT_NAME_MAX_CHARACTERS, ListenerObserver
from .response import DeferredResponse, RequestContext, Response
from .response_queue import PendingResponse, ResponseQueue
from .schemas import API_VERSIONS, APIS, FETCH, PRODUCE
from .turns import TURN_ELEMENTS, Turns
from .wire import MalformedRequest

_log = logging.getLogger(__name__)

NO_HEADER = RequestHeader(api_key=-1, version=-1, correlation_id=-1)


@dataclass(slots=True, kw_only=True)
class ListenerState:
    """What the connections of one listener share."""

    context: RequestContext
    observer: ListenerObserver
    bounds: ClientBounds
    connections: set[KafkaConnection] = field(default_factory=set)
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while there are no connections."""
    is_closing: bool = False

    def close(self) -> None:
        """From now on new connections are refused."""
        self.is_closing = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """frame_begun_at is when the incomplete frame began, None if there is none."""

    frame_begun_at: float | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """A bound is reached."""


@dataclass(frozen=True, slots=True)
class Ending:
    """No further frame is taken; pending responses still leave."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The transport is gone; results that still come are dropped."""


ConnectionState = Reading | Paused | Ending | Lost
BETWEEN_FRAMES = Reading()


class KafkaConnection(asyncio.BufferedProtocol):
    """Reads requests, has them handled, writes responses; the module docstring has its states."""

    _transport: asyncio.Transport
    """Set by connection_made, which is called before all else."""

    def __init__(self, shared: ListenerState, loop: asyncio.AbstractEventLoop) -> None:
        self._shared = shared
        self._settings = shared.context.settings
        self._loop = loop
        self._frames = FrameAssembler(
            staging_bytes=self._settings.receive_buffer_bytes,
            frame_max_bytes=self._settings.request_max_bytes,
            frame_min_bytes=FIXED_HEADER_BYTES,
        )
        self._state: ConnectionState = BETWEEN_FRAMES
        self._responses = ResponseQueue(
            loop,
            shared.observer,
            shared.context.new_response_memory,
            threads=shared.bounds.sending_threads,
            on_file_sent=self._file_sent,
            on_file_lost=self.abort,
        )
        self._frame_bytes = Share(shared.bounds.request_memory, self._wake)
        self._frame_acks = Share(shared.bounds.waiting_acks, self._wake)
        self._fetch_count = 0
        self._client_name = ""
        self._address = ""
        self._peer = ""
        self._active_at = loop.time()
        self._work: Turns[None] | None = None
        """The request that is being handled; no other one is taken until its turns are over."""

    # --- called by the event loop ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        self._limit_write_buffer()
        name = transport.get_extra_info("peername")
        self._address = str(name[0]) if isinstance(name, tuple) else str(name)
        self._peer = f"{self._address}:{name[1]}" if isinstance(name, tuple) else self._address
        most = self._settings.connections_max
        is_full = self._shared.bounds.connections.used >= most
        if is_full and not self._shared.is_closing:
            _log.warning(
                "connection refused, too many connections",
                extra=fields(peer=self._peer, connections_max=most),
            )
        if is_full or self._shared.is_closing:
            self._state = Ending()
            self._transport.abort()
            return
        self._shared.bounds.connections.take(1)
        self._shared.connections.add(self)
        self._shared.is_empty.clear()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Cancel and release all that this client had in flight; appends go on."""
        if self._frames.is_partial and isinstance(self._state, Reading):
            _log.info("connection lost within a request", extra=fields(**self._client_fields()))
        self._state = Lost()
        if self._work is not None:
            self._work.close()
        self._give_back()
        self._responses.drop()
        if self in self._shared.connections:
            self._shared.connections.remove(self)
            self._shared.bounds.connections.release(1)
        if not self._shared.connections:
            self._shared.is_empty.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer for the next bytes."""
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Count received bytes and handle every complete request."""
        self._active_at = self._loop.time()
        self._frames.received(nbytes)
        self._take_frames()

    def pause_writing(self) -> None:
        """Stop taking requests: the client does not read its responses."""
        self._responses.block()

    def resume_writing(self) -> None:
        """Send the responses that wait, and take requests again; the buffer is empty."""
        self._responses.taken()
        self._limit_write_buffer()
        self._responses.unblock()
        self._take_frames()

    def _file_sent(self) -> None:
        """Go on after a response whose records came from files."""
        self._active_at = self._loop.time()
        self._responses.file_sent()
        self._take_frames()

    # --- called by the server -------------------------------------------------------------

    def end(self) -> None:
        """Take no further request; close when the pending responses have left."""
        self._become_ending()
        self._take_frames()

    def abort(self) -> None:
        """Close at once."""
        self._become_ending()
        self._transport.abort()

    def abort_if_overdue(self, now: float) -> None:
        """Close if the client kept a frame incomplete, or did nothing at all, for too long."""
        if isinstance(self._state, Reading) and self._state.frame_begun_at is not None:
            begun_at, limit = self._state.frame_begun_at, self._settings.receive_timeout_ms
        elif self._responses.is_open and len(self._responses):
            return
        else:
            begun_at, limit = self._active_at, self._settings.connection_idle_max_ms
        if (now - begun_at) * 1000 > limit:
            _log.info("silent connection closed", extra=fields(peer=self._peer, limit_ms=limit))
            self.abort()

    def abort_if_keeping_memory(self, now: float) -> None:
        """Close if the client leaves a large response untaken while others wait for its memory."""
        held_since = self._responses.held_since()
        if held_since is None or not self._shared.context.response_memory.waiting_count:
            return
        limit = self._settings.response_timeout_ms
        if (now - held_since) * 1000 > limit:
            _log.info("slow reader closed", extra=fields(peer=self._peer, limit_ms=limit))
            self.abort()

    # --- requests in ----------------------------------------------------------------------

    def _wake(self) -> None:
        """Go on because of a grant; not at once, because another connection is at work."""
        self._loop.call_soon(self._take_frames)

    def _take_frames(self) -> None:
        """Handle complete frames until none is left or a bound is reached; send ready responses."""
        if isinstance(self._state, Lost):
            return
        self._send()
        handled_count = 0
        try:
            for _ in range(self._settings.requests_at_once_max):
                if self._work is not None or handled_count >= TURN_ELEMENTS:
                    break
                if not isinstance(self._state, (Reading, Paused)):
                    return
                if not self._may_take_next():
                    self._pause()
                    return
                frame = self._frames.take()
                if frame is None:
                    self._read_on()
                    return
                if isinstance(self._state, Reading):
                    self._state = BETWEEN_FRAMES
                self._work = self._take(frame)
                handled_count += self._shared.bounds.turns.begin(self._work, self._take_frames)
                self._send()
            # Other connections are served before the next ones; the end of the work wakes, too.
            self._pause()
            if self._work is None:
                self._wake()
        except MalformedRequest as error:
            pending = self._responses.add(None, NO_HEADER)
            self._malformed(pending, reason=str(error))
            self._send()

    def _may_take_next(self) -> bool:
        """Tell whether the next frame fits into every bound, and hold its part of the shared ones.

        True also while too few bytes of the frame have come to know its size.
        """
        size = self._frames.next_size()
        if size is None:
            return True
        in_flight_max = self._settings.requests_in_flight_max
        if not self._responses.is_open or len(self._responses) >= in_flight_max:
            return False
        api_key = self._frames.next_api_key()
        if api_key == PRODUCE:
            if not self._frame_acks.hold(1):
                return False
        elif size > self._shared.bounds.refused_addresses.plain_request_max_bytes(self._address):
            raise MalformedRequest(f"frame length {size} of a request without records")
        elif api_key == FETCH and self._fetch_count:
            # One fetch at a time: each response may be as large as fetch.max.bytes.
            return False
        return self._frames.fits_staging(size) or self._frame_bytes.hold(size)

    def _give_back(self) -> None:
        """Give back what the frame in progress held: it was handled, or will never be."""
        self._frame_bytes.give_back()
        self._frame_acks.give_back()

    def _pause(self) -> None:
        if isinstance(self._state, Reading) and not self._transport.is_closing():
            self._transport.pause_reading()
            self._state = Paused()

    def _read_on(self) -> None:
        if isinstance(self._state, Paused):
            if self._transport.is_closing():
                return
            self._transport.resume_reading()
            self._state = BETWEEN_FRAMES
        if self._state is BETWEEN_FRAMES and self._frames.is_partial:
            self._state = Reading(frame_begun_at=self._loop.time())

    def _become_ending(self) -> None:
        """Take no further frame; a lost connection stays lost."""
        self._pause()
        self._give_back()
        if not isinstance(self._state, Lost):
            self._state = Ending()

    def _take(self, frame: memoryview) -> Turns[None]:
        """Handle one request, and give back what its frame held."""
        yield from self._handle(frame)
        self._work = None
        self._give_back()

    def _handle(self, frame: memoryview) -> Turns[None]:
        """Decode and handle one request; the one place where a handler's failure is caught."""
        header = read_header(frame)
        api = APIS.get(header.api_key)
        pending = self._responses.add(api, header)
        if api is None or not api.serves(header.version):
            yield from self._unsupported(pending, frame)
            return
        try:
            elements_max = self._shared.bounds.refused_addresses.elements_max(self._address)
            client_id, request = yield from decode_request(
                api, header.version, frame, elements_max=elements_max
            )
            name = self._client_name or client_id
            if api.key == API_VERSIONS:
                name = request.get("client_software_name", name)
            self._client_name = name[:CLIENT_NAME_MAX_CHARACTERS]
            outcome = yield from HANDLERS[api.key](self._shared.context, header.version, request)
            pending.handled(self._loop.time())
            if isinstance(outcome, Response):
                yield from self._ready(pending, outcome)
            else:
                yield from self._await(pending, outcome)
        except MalformedRequest as error:
            self._shared.bounds.refused_addresses.malformed(self._address, len(frame))
            self._malformed(pending, reason=str(error))
        except InvariantViolation:
            raise
        except Exception as error:
            self._failed(pending, error)

    def _unsupported(self, pending: PendingResponse, frame: memoryview) -> Turns[None]:
        """Respond to an unknown version of ApiVersions; close for every other request."""
        if pending.header.api_key == API_VERSIONS:
            yield from self._complete(pending, unsupported_version(), version=0)
            return
        client = self._client_name or client_id_or_empty(frame)
        label = self._shared.bounds.client_names.label(client)
        self._shared.observer.request_unsupported(pending.api_name, label)
        told = self._request_fields(pending)
        _log.warning("unsupported request, connection closed", extra=fields(**told))
        self._close_with(pending, ErrorCode.UNSUPPORTED_VERSION)

    def _malformed(self, pending: PendingResponse, *, reason: str) -> None:
        told = self._request_fields(pending)
        _log.warning("malformed request, connection closed", extra=fields(**told, reason=reason))
        self._close_with(pending, ErrorCode.INVALID_REQUEST)

    def _failed(self, pending: PendingResponse, cause: BaseException) -> None:
        """Log a failure of our own and close the client's connection."""
        told = self._request_fields(pending)
        _log.error("request failed, connection closed", extra=fields(**told), exc_info=cause)
        self._close_with(pending, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _client_fields(self) -> dict[str, object]:
        listener = self._shared.context.listener_name
        return {"peer": self._peer, "listener": listener, "client": self._client_name}

    def _request_fields(self, pending: PendingResponse) -> dict[str, object]:
        header = pending.header
        api = {"api": pending.api_name, "api_key": header.api_key, "api_version": header.version}
        return {**self._client_fields(), **api}

    # --- responses out --------------------------------------------------------------------

    def _await(self, pending: PendingResponse, outcome: DeferredResponse) -> Turns[None]:
        """Complete the response when its result is done: later ones in turns of their own."""
        self._shared.bounds.waiting_acks.take(outcome.acks_count)
        if outcome.memory is not None:
            pending.use(outcome.memory)
        result: asyncio.Future[object] = asyncio.ensure_future(outcome.result)
        if outcome.may_cancel:
            pending.wait_for(result)
            self._fetch_count += 1

        def done(finished: asyncio.Future[object]) -> None:
            settling = self._settle(pending, outcome, finished)
            self._shared.bounds.turns.begin(settling, self._take_frames)
            self._take_frames()

        if result.done():
            yield from self._settle(pending, outcome, result)
        else:
            result.add_done_callback(done)

    def _settle(
        self, pending: PendingResponse, outcome: DeferredResponse, result: asyncio.Future[object]
    ) -> Turns[None]:
        self._shared.bounds.waiting_acks.release(outcome.acks_count)
        if isinstance(self._state, Lost):
            # Looking at the exception keeps the loop from reporting it.
            _ = result.cancelled() or result.exception()
            return
        try:
            response = yield from outcome.finish(result.result())
            yield from self._ready(pending, response)
            self._fetch_count -= outcome.may_cancel
        except InvariantViolation:
            raise
        except (Exception, asyncio.CancelledError) as error:
            self._failed(pending, error)

    def _limit_write_buffer(self) -> None:
        self._transport.set_write_buffer_limits(high=self._settings.write_buffer_high_bytes, low=0)

    def _look_for_untaken(self) -> None:
        """Give memory back if the kernel has taken all, else learn when it has."""
        is_gone = isinstance(self._state, Lost) or self._transport.is_closing()
        if is_gone or not self._responses.has_untaken:
            return
        if self._transport.get_write_buffer_size() == 0:
            self._responses.taken()
        else:
            # Blocks the responses now; `resume_writing` comes when the buffer is empty.
            self._transport.set_write_buffer_limits(high=0, low=0)

    def _ready(self, pending: PendingResponse, response: Response) -> Turns[None]:
        logged_error = yield from error_to_log(response)
        if logged_error is not None:
            told = {**self._request_fields(pending), **logged_error.fields()}
            _log.log(logged_error.level, "request refused", extra=fields(**told))
        count = response.needless_count + (logged_error.count if logged_error else 0)
        self._shared.bounds.refused_addresses.refused(self._address, count)
        yield from self._complete(pending, response, version=pending.header.version)

    def _close_with(self, pending: PendingResponse, error: ErrorCode) -> None:
        """Close the connection, without a response, when the responses before it were sent."""
        self._become_ending()
        no_response = Response(body=None, error=error, closes_connection=True)
        pending.ready(no_response, [], self._loop.time())

    def _complete(
        self, pending: PendingResponse, response: Response, *, version: int
    ) -> Turns[None]:
        """Let the response be sent, unless the client has gone meanwhile."""
        pieces = yield from pending.encode(response, version)
        if not isinstance(self._state, Lost):
            pending.ready(response, pieces, self._loop.time())

    def _send(self) -> None:
        """Send the ready responses in order; close an ending connection that has no more."""
        while self._responses.send_next(self._transport):
            self._active_at = self._loop.time()
            if self._responses.has_untaken:
                # Not at once: a transport may write at the end of this turn of the loop.
                self._loop.call_soon(self._look_for_untaken)
        is_over = isinstance(self._state, Ending) and not len(self._responses)
        if is_over or self._responses.is_closed:
            self._become_ending()
            self._transport.close()
