"""One connection cannot make the listener work or remember beyond its bounds.

Work is counted in calls of functions and memory in allocated bytes: no clock is asked. Behind the
listener stands the shipped core over a real log.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import cast

import pytest

from strandline.kafka_listener import schemas
from strandline.kafka_listener.connection import ListenerState
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.turns import TURN_ELEMENTS
from tests.kafka.hostile_shapes import ELEMENTS, MIB, all_shapes, framed
from tests.kafka.support import CountingObserver
from tests.kafka.unconnected import Client, counted_steps, listener_over
from tests.runtime.clients.test_broker_api import ME, Node, with_node

SHAPES = dict(all_shapes())
SETTINGS = ListenerSettings(request_elements_max=ELEMENTS)
CALLS_PER_ELEMENT_MAX = 36
CALLS_MAX = CALLS_PER_ELEMENT_MAX * TURN_ELEMENTS
"""Calls of one step of the event loop, however many elements a request has."""
BYTES_PER_ELEMENT_MAX = 2_500
MEMORY_MAX_BYTES = BYTES_PER_ELEMENT_MAX * ELEMENTS + 12 * MIB
"""The decoded request and its response, and the largest frame of a shape."""
TURNS_MAX = 20 * ELEMENTS // TURN_ELEMENTS
"""Turns of a request that needs each of its elements twenty times, and a read that follows."""
CANCELLED_TURNS = 2
"""After these a task that waited for something, and was cancelled, has ended."""
LEFT_MAX_BYTES = 1 * MIB
"""What may stay when the connection is gone: caches of the codecs, and a log that grew."""


async def send(shared: ListenerState, data: bytes) -> int:
    """Send a shape on a connection of its own; return the calls of the longest single step."""
    client = Client(shared)
    # The test's own waiting is a step of few calls, too.
    with counted_steps() as steps:
        longest = client.send(data)
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
        client.connection.connection_lost(None)
        for _ in range(CANCELLED_TURNS):
            await asyncio.sleep(0)
    return max(longest, *steps)


@pytest.mark.parametrize("name", SHAPES)
def test_work_and_memory_of_a_hostile_request_are_bounded(tmp_path: Path, name: str) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        shared = listener_over(node.broker_api, SETTINGS)
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
        bounds = shared.bounds
        budgets = (bounds.request_memory, bounds.waiting_acks, bounds.response_memory)
        assert [budget.used for budget in budgets] == [0, 0, 0]
        assert not shared.connections

    with_node(tmp_path, scenario)


def test_a_step_takes_few_of_many_requests_that_came_at_once(tmp_path: Path) -> None:
    """Between two steps other clients are served; all requests are handled in the end."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        shared = listener_over(node.broker_api, SETTINGS)
        one = framed(schemas.API_VERSIONS, 0, b"")
        calls_of_fifty = await send(shared, one * 50)
        assert await send(shared, one * 500) < 2 * calls_of_fifty
        observer = cast("CountingObserver", shared.observer)
        assert len(observer.responses) == 550

    with_node(tmp_path, scenario)


def test_there_are_shapes_of_every_request() -> None:
    assert len(SHAPES) >= 32
