"""One connection cannot make the listener work or remember beyond its bounds.

Work is counted in calls of functions and memory in allocated bytes: no clock is asked. Behind the
listener stands the shipped core over a real log.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest

from strandline.kafka_listener import schemas
from strandline.kafka_listener.budget import Budget
from strandline.kafka_listener.connection import KafkaConnection, ListenerState
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.observer import ClientNames
from strandline.kafka_listener.refused_addresses import RefusedAddresses
from strandline.kafka_listener.response import RequestContext
from tests.kafka.hostile_shapes import ELEMENTS, MIB, all_shapes, framed
from tests.kafka.support import CountingObserver
from tests.runtime.clients.test_broker_api import ME, Node, with_node
from tests.support.counted_calls import calls_of

SHAPES = dict(all_shapes())
CALLS_PER_ELEMENT_MAX = 36
CALLS_MAX = CALLS_PER_ELEMENT_MAX * ELEMENTS
BYTES_PER_ELEMENT_MAX = 2_500
MEMORY_MAX_BYTES = BYTES_PER_ELEMENT_MAX * ELEMENTS + 12 * MIB
"""The decoded request and its response, and the largest frame of a shape."""
LEFT_MAX_BYTES = 1 * MIB
"""What may stay when the connection is gone: caches of the codecs, and a log that grew."""


class Transport:
    """Takes all that is written, and keeps none of it."""

    def __init__(self) -> None:
        self.is_reading = True
        self.is_closed = False

    def set_write_buffer_limits(self, *, high: int, low: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return name, 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: Any) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed


def listener_over(node: Node) -> ListenerState:
    settings = ListenerSettings(request_elements_max=ELEMENTS)
    return ListenerState(
        context=RequestContext(
            broker=node.broker_api,
            listener_name="INTERNAL",
            settings=settings,
            response_memory=Budget(most=settings.response_memory_max_bytes),
        ),
        observer=CountingObserver(),
        request_memory=Budget(most=settings.request_memory_max_bytes),
        waiting_acks=Budget(most=settings.acks_waiting_max),
        client_names=ClientNames(names_max=settings.client_names_max),
        refused_addresses=RefusedAddresses(settings, asyncio.get_running_loop().time),
    )


async def send(shared: ListenerState, data: bytes) -> int:
    """Send a shape on a connection of its own; return the calls of its longest single step."""
    transport = Transport()
    connection = KafkaConnection(shared, asyncio.get_running_loop())
    connection.connection_made(cast("asyncio.Transport", transport))
    longest, rest = 0, memoryview(data)

    def feed() -> None:
        nonlocal rest
        space = connection.get_buffer(-1)
        count = min(len(space), len(rest))
        space[:count] = rest[:count]
        rest = rest[count:]
        connection.buffer_updated(count)

    while rest and not transport.is_closed and transport.is_reading:
        longest = max(longest, calls_of(feed))
    for _ in range(20):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return longest


@pytest.mark.parametrize("name", SHAPES)
def test_work_and_memory_of_a_hostile_request_are_bounded(tmp_path: Path, name: str) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        shared = listener_over(node)
        tracemalloc.start()
        try:
            longest = await send(shared, SHAPES[name])
            gc.collect()
            left, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert longest < CALLS_MAX
        assert peak < MEMORY_MAX_BYTES
        assert left < LEFT_MAX_BYTES
        budgets = (shared.request_memory, shared.waiting_acks, shared.context.response_memory)
        assert [budget.used for budget in budgets] == [0, 0, 0]
        assert not shared.connections

    with_node(tmp_path, scenario)


def test_a_step_takes_few_of_many_requests_that_came_at_once(tmp_path: Path) -> None:
    """Between two steps other clients are served; all requests are handled in the end."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        shared = listener_over(node)
        one = framed(schemas.API_VERSIONS, 0, b"")
        calls_of_fifty = await send(shared, one * 50)
        assert await send(shared, one * 500) < 2 * calls_of_fifty
        observer = cast("CountingObserver", shared.observer)
        assert len(observer.responses) == 550

    with_node(tmp_path, scenario)


def test_there_are_shapes_of_every_request() -> None:
    assert len(SHAPES) >= 32
