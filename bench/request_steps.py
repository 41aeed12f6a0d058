"""The longest step of the event loop while a listener handles one large request.

`python -m bench.request_steps`: requests of the greatest number of elements, those of
tests/kafka/hostile_shapes.py that are refused over a real log, and granted ones over a broker in
memory. No socket and no other process takes part: a step is a callback of the event loop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast
from unittest.mock import patch

from strandline.broker_interface import Broker
from strandline.kafka_listener import schemas
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.model import Endpoint
from tests.kafka.hostile_shapes import Shape, all_shapes, request
from tests.kafka.support import CountingObserver
from tests.kafka.test_addresses import FixedMetadata, snapshot
from tests.kafka.test_turns import delete_records, epochs, list_offsets, produce
from tests.kafka.unconnected import Client, listener_over
from tests.runtime.clients.test_broker_api import ME, Node, with_node

from .loop_steps import Steps
from .report import host_info

GRANTED_PARTITIONS = 10_000
TURNS_MAX = 5_000
"""Steps within which a request is over."""


async def handle(broker: Broker, shape: Shape, steps: Steps) -> None:
    """Handle one request on a listener of its own."""
    title, data = shape
    shared = listener_over(broker, ListenerSettings())
    shared.context.metadata()
    client = Client(shared)
    observer = cast("CountingObserver", shared.observer)
    async with steps.case(title):
        loop = asyncio.get_running_loop()
        loop.call_soon(client.deliver, data)
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if observer.responses and not shared.bounds.turns:
                break
        client.connection.connection_lost(None)


async def granted(steps: Steps) -> None:
    """Handle requests that are granted."""
    # Not fetches: this broker reads all partitions of one in a single step, unlike the shipped one.
    broker = FixedMetadata({"orders": GRANTED_PARTITIONS})
    broker.shown = snapshot(GRANTED_PARTITIONS)
    broker.endpoints["INTERNAL"] = Endpoint(listener="INTERNAL", host="127.0.0.1", port=1)
    kinds: dict[str, Callable[[int], bytes]] = {
        "produce": produce,
        "offsets": list_offsets,
        "epochs": epochs,
        "deletions": delete_records,
    }
    for title, make in kinds.items():
        await handle(broker, (f"{title} of {GRANTED_PARTITIONS}", make(GRANTED_PARTITIONS)), steps)
    every = request(schemas.METADATA, 9, {"topics": None})
    await handle(broker, (f"metadata of all {GRANTED_PARTITIONS}", every), steps)


def main() -> None:
    """Measure and print."""
    print(host_info())
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    steps = Steps()

    async def refused(node: Node) -> None:
        await node.apply_state(ME, 0)
        for shape in all_shapes(ListenerSettings().request_elements_max):
            await handle(node.broker_api, shape, steps)

    with (
        patch.object(asyncio.Handle, "_run", steps.timed(asyncio.Handle._run)),  # noqa: SLF001
        tempfile.TemporaryDirectory() as folder,
    ):
        asyncio.run(granted(steps))
        with_node(Path(folder), refused)


if __name__ == "__main__":
    main()
