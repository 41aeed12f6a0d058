"""Send responses whose records are in files: the kernel takes them from its pages, uncopied.

Used by `response_queue`, one for each connection. A response goes to the socket past the transport,
which has nothing to write meanwhile, in a thread: a page that is not in memory costs milliseconds.
A thread does not wait for a client that reads slowly, but for PATIENCE_MS: the event loop then
tells when the client has read, and a thread goes on (ADR 0079).

    state    thread    left when
    Idle     -         a response is given
    Sending  at work   the kernel takes no more; all was sent; something failed; stopped
    Waiting  -         the kernel takes more; stopped

Invariant: either a thread or the event loop has the response in hand, never both.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from strandline.broker_interface import Buffer, Piece, RecordsInFile

SENDING_THREADS_MAX: Final = 4
"""Responses of all connections of a broker that threads send at a time."""
PATIENCE_MS: Final = 2
"""A client that reads all the time makes room within it; another one holds a thread no longer."""
FILE_ERRORS: Final = frozenset({errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA})
"""Of the disk under a file; all others are the socket's."""


class Progress(Enum):
    """How a thread left a response."""

    SENT = "sent"
    FULL = "full"
    """The kernel takes no more until the client has read."""
    LOST = "lost"
    """The connection is of no use any more."""


@dataclass(slots=True)
class _Range:
    """What is left of records in a file: their bytes from start to end."""

    records: RecordsInFile
    start: int
    end: int

    def send(self, to: socket.socket) -> bool:
        """Send what the kernel takes; tell whether that was all. BlockingIOError, OSError."""
        at = self.records.position + self.start
        sent = os.sendfile(to.fileno(), self.records.fd, at, self.end - self.start)
        if not sent:
            raise OSError(errno.EIO, "the file ends before its records")
        self.start += sent
        return self.start == self.end


@dataclass(slots=True)
class _Bytes:
    """What is left of a buffer; is_last tells the kernel that nothing follows."""

    left: memoryview
    is_last: bool

    def send(self, to: socket.socket) -> bool:
        """Send what the kernel takes; tell whether that was all. BlockingIOError, OSError."""
        self.left = self.left[to.send(self.left, 0 if self.is_last else socket.MSG_MORE) :]
        return not self.left


class _Outgoing:
    """One response on its way; its socket is a second descriptor of the connection's.

    So a thread never writes to a descriptor that was closed and given to another connection.
    """

    def __init__(self, of: socket.socket, pieces: Sequence[Piece]) -> None:
        self.socket: Final = socket.socket(of.family, of.type, of.proto, os.dup(of.fileno()))
        self.socket.setblocking(False)
        self._room = select.poll()
        self._room.register(self.socket, select.POLLOUT)
        pieces = [piece for piece in pieces if len(piece)]
        self._files = [each for each in pieces if not isinstance(each, Buffer)]
        self._left = deque(
            _Bytes(memoryview(each), is_last=each is pieces[-1])
            if isinstance(each, Buffer)
            else _Range(each, 0, len(each))
            for each in pieces
        )
        last = self._left[-1]
        if isinstance(last, _Range):
            # The last byte is sent once it is known that what was sent before is current.
            last.end -= 1
            self._left.append(_Range(last.records, last.end, last.end + 1))
        self.failure: tuple[RecordsInFile, OSError] | None = None
        """Set if the disk did not give what it has."""

    def send(self) -> Progress:
        """Send what the kernel takes, in any thread.

        The last piece stays if a log was cut meanwhile: the client gets no whole response of what
        may have been another log's bytes.
        """
        while self._left:
            if len(self._left) == 1 and not all(each.is_current() for each in self._files):
                return Progress.LOST
            try:
                if self._left[0].send(self.socket):
                    self._left.popleft()
            except BlockingIOError:
                if not self._room.poll(PATIENCE_MS):
                    return Progress.FULL
            except OSError as error:
                self._note(error)
                return Progress.LOST
        return Progress.SENT

    def _note(self, error: OSError) -> None:
        first = self._left[0]
        if isinstance(first, _Range) and error.errno in FILE_ERRORS and first.records.is_current():
            self.failure = first.records, error

    def cut_off(self) -> None:
        """End the connection under a thread that sends."""
        with suppress(OSError):  # it may have ended
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back."""
        self.socket.close()


class FileSender:
    """Sends one response at a time; on_sent follows when the kernel has all of it, or on_lost."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: ThreadPoolExecutor,
        on_sent: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._on_sent = on_sent
        self._on_lost = on_lost
        self._outgoing: _Outgoing | None = None
        self._is_waiting = False

    def send(self, transport: asyncio.Transport, pieces: Sequence[Piece]) -> None:
        """Begin to send a response; the transport has nothing to write until it ends."""
        self._outgoing = _Outgoing(transport.get_extra_info("socket"), pieces)
        self._go_on(self._outgoing)

    def stop(self) -> None:
        """Send no more, and call nothing back: the connection is gone."""
        outgoing, self._outgoing = self._outgoing, None
        if outgoing is None:
            return
        outgoing.cut_off()
        if self._is_waiting:
            self._loop.remove_writer(outgoing.socket)
            outgoing.close()

    def _go_on(self, outgoing: _Outgoing) -> None:
        if self._is_waiting:
            self._loop.remove_writer(outgoing.socket)
            self._is_waiting = False
        # Not as a future of the loop's: that would cost as much as the sending.
        self._threads.submit(outgoing.send).add_done_callback(
            lambda step: self._loop.call_soon_threadsafe(self._stepped, outgoing, step)
        )

    def _stepped(self, outgoing: _Outgoing, step: Future[Progress]) -> None:
        progress = step.result()
        if outgoing.failure is not None:
            records, error = outgoing.failure
            records.failed(error)
        if outgoing is not self._outgoing:
            outgoing.close()
        elif progress is Progress.FULL:
            self._is_waiting = True
            self._loop.add_writer(outgoing.socket, self._go_on, outgoing)
        else:
            outgoing.close()
            self._outgoing = None
            (self._on_sent if progress is Progress.SENT else self._on_lost)()
