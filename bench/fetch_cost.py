"""What a consumer's fetch at the tail costs the event loop: `python -m bench.fetch_cost`.

One process, the core and a log of the broker, one partition, one batch a fetch, all bytes in the
page cache. Three ways alternate, and the median of each is shown: the read of the log alone, a
whole fetch with its read on the event loop, and one with its read in a thread (ADR 0027).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from strandline.broker_interface import ConsumerFetchPartition
from strandline.config.storage import ConsumerReadConfig, StorageConfig
from strandline.controller_session.messages import MetadataUpdate
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.events import DelayedFetchReceived, Event
from strandline.model import TopicId, TopicPartition
from strandline.runtime.clients.consumer_fetches import ConsumerFetches
from strandline.runtime.event_loop.clock import Clock

from .core_and_store import (
    CONTROLLER_EPOCH,
    EPOCH,
    LEADER,
    ME,
    TOPIC,
    CoreAndStore,
    batch,
    command_of,
)
from .report import host_info

TP = TopicPartition(topic_id=TopicId("00000000-0000-4000-8000-000000000001"), partition=0)
BATCHES = 64
SIZES_BYTES = (1 << 10, 16 << 10, 256 << 10)
IN_THREADS = ConsumerReadConfig(recent_bytes=0)


async def admit_at_once(_size_bytes: int) -> bool:
    """Give memory for any response."""
    return False


def fetches_of(broker: CoreAndStore, config: ConsumerReadConfig) -> ConsumerFetches:
    """Return the broker's fetches for consumers."""
    metadata = MetadataCache("bench", now_ms=Clock().now_ms)
    metadata.apply(
        MetadataUpdate(
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=EPOCH,
            controller_id=LEADER,
            live_brokers=(),
            partitions=(command_of(TP, leader=ME, leader_epoch=1),),
            removed=(),
            full=False,
        )
    )
    return ConsumerFetches(
        replicas=broker.replicas,
        store=broker.store,
        metadata=metadata,
        clock=Clock(),
        config=config,
        submit=_no_wait,
        next_request_id=itertools.count(1).__next__,
        on_fetched=lambda _topic, _size: None,
    )


def _no_wait(event: Event) -> None:
    if isinstance(event, DelayedFetchReceived):
        raise TimeoutError("a fetch at the tail found no record")


async def measure(folder: Path, size_bytes: int, rounds: int) -> None:
    """Fetch the last batch of a log in each of three ways, and print the medians."""
    broker = CoreAndStore(folder, StorageConfig())
    broker.start()
    await broker.apply([TP], leader=LEADER, leader_epoch=0)
    for offset in range(BATCHES):
        made = batch(offset, size_bytes=size_bytes, producer_id=-1, sequence=-1)
        await broker.follow(TP, made)
    await broker.apply([TP], leader=ME, leader_epoch=1)
    wanted = [
        ConsumerFetchPartition(
            topic_name=TOPIC, partition=0, fetch_offset=BATCHES - 1, max_bytes=1 << 20
        )
    ]
    on_loop, in_threads = (
        fetches_of(broker, config) for config in (ConsumerReadConfig(), IN_THREADS)
    )

    async def read_alone() -> int:
        allowed = broker.replicas.consumer_reads.read(
            TP, fetch_offset=BATCHES - 1, leader_epoch=None, last_fetched_epoch=None
        )
        records = broker.log(TP).read(
            from_offset=allowed.from_offset, up_to_offset=allowed.up_to_offset, max_bytes=1 << 20
        )
        return sum(len(each) for each in records)

    def fetch_with(fetches: ConsumerFetches) -> Callable[[], Awaitable[int]]:
        async def fetch() -> int:
            (found,) = await fetches.fetch(
                wanted, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, admit=admit_at_once
            )
            return sum(len(each) for each in found.records)

        return fetch

    ways = {
        "the read of the log alone": read_alone,
        "a fetch, read on the event loop": fetch_with(on_loop),
        "a fetch, read in a thread": fetch_with(in_threads),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.perf_counter()
            size = await way()
            seconds[name].append(time.perf_counter() - begun)
            if size != size_bytes:
                raise ValueError(f"{name}: {size} bytes instead of {size_bytes}")
    for name, values in seconds.items():
        print(f"{size_bytes >> 10:4} KiB  {name:34} {median(values) * 1e6:7.1f} us")
    for fetches in (on_loop, in_threads):
        fetches.close()
    await broker.stop()


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5_000, help="fetches in each way")
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to use")
    options = parser.parse_args()
    print(host_info())
    for size_bytes in SIZES_BYTES:
        with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.folder) as folder:
            asyncio.run(measure(Path(folder), size_bytes, options.rounds))


if __name__ == "__main__":
    main()
