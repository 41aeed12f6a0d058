"""Connections without sockets, on the running event loop: a test gives bytes and sees each step.

A step is one callback of the event loop, or one delivery of bytes by the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from strandline.broker_interface import Broker
from strandline.kafka_listener.client_bounds import ClientBounds
from strandline.kafka_listener.connection import KafkaConnection, ListenerState
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.response import RequestContext
from tests.kafka.support import CountingObserver
from tests.support.counted_calls import calls_of


class Transport:
    """Takes all that is written; keeps it only if it is asked to."""

    def __init__(self, written: list[bytes] | None = None) -> None:
        self.is_reading = True
        self.is_closed = False
        self.written = written

    def set_write_buffer_limits(self, *, high: int, low: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return name, 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: Any) -> None:
        if self.written is not None:
            self.written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed


def listener_over(broker: Broker, settings: ListenerSettings) -> ListenerState:
    """Return what the connections of a listener share."""
    bounds = ClientBounds.of(settings, asyncio.get_running_loop())
    return ListenerState(
        context=RequestContext(
            broker=broker,
            listener_name="INTERNAL",
            settings=settings,
            response_memory=bounds.response_memory,
        ),
        observer=CountingObserver(),
        bounds=bounds,
    )


class Client:
    """A connection and its end of the transport."""

    def __init__(self, shared: ListenerState, written: list[bytes] | None = None) -> None:
        self.transport = Transport(written)
        self._rest = memoryview(b"")
        self.connection = KafkaConnection(shared, asyncio.get_running_loop())
        self.connection.connection_made(cast("asyncio.Transport", self.transport))

    def send(self, data: bytes) -> int:
        """Deliver bytes while the connection reads; return the calls of the longest delivery."""
        longest, self._rest = 0, memoryview(data)
        while self._may_deliver():
            longest = max(longest, calls_of(self._deliver_some))
        return longest

    def deliver(self, data: bytes) -> None:
        """Deliver bytes while the connection reads, uncounted."""
        self._rest = memoryview(data)
        while self._may_deliver():
            self._deliver_some()

    def reads(self) -> bool:
        """Tell whether the connection takes bytes now."""
        return self.transport.is_reading and not self.transport.is_closed

    def _may_deliver(self) -> bool:
        return self.reads() and len(self._rest) > 0

    def _deliver_some(self) -> None:
        """Deliver as many bytes as the connection has space for."""
        space = self.connection.get_buffer(-1)
        count = min(len(space), len(self._rest))
        space[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self.connection.buffer_updated(count)


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Yield the calls of each callback that the event loop runs until the block ends."""
    steps: list[int] = []

    def counted(run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        def run_counted(handle: asyncio.Handle) -> None:
            steps.append(calls_of(lambda: run(handle)))

        return run_counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", counted(asyncio.Handle._run))
        yield steps
