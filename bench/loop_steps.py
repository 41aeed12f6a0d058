"""The longest step of a broker's event loop while its store works: `python -m bench.loop_steps`.

`make bench` runs it after the faults. One process, the core, the store and the logs of the broker,
a folder on a real disk, and asyncio's own event loop, whose every callback is timed. While a step
runs, the broker answers no one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

from strandline.config.storage import StorageConfig
from strandline.model import TopicId, TopicPartition

from .core_and_store import LEADER, ME, CoreAndStore, batch, until
from .report import host_info

AIM_MS = 50.0
REPLICAS = 1_000
TAKE_OVERS = 600
BATCH_BYTES = 1 << 20
ROLLS = 40
CUT_BATCHES = 10
SEGMENT_BYTES = 128 << 20
LONG_BYTES = 1 << 30
"""Of the greatest segment by default; all but ten batches are cut off."""
GIB = 1 << 30
TOPIC_ID = TopicId("00000000-0000-4000-8000-000000000001")
CONFIG = StorageConfig(trash_retention_bytes=0)


class Steps:
    """The longest callback of the event loop in each case, by the wall and by its own CPU time.

    On a loaded machine only the second one is the broker's.
    """

    def __init__(self) -> None:
        self._longest_ms = 0.0
        self._longest_cpu_ms = 0.0

    @asynccontextmanager
    async def case(self, title: str) -> AsyncIterator[None]:
        """Time every callback until the block ends, and report the longest."""
        await asyncio.sleep(0)
        self._longest_ms = self._longest_cpu_ms = 0.0
        begun = time.perf_counter()
        yield
        await asyncio.sleep(0)
        mark = "" if self._longest_ms <= AIM_MS else f"  over the aim of {AIM_MS:.0f} ms"
        seconds, load = time.perf_counter() - begun, os.getloadavg()[0]
        print(
            f"{title:44} {self._longest_ms:7.1f} ms (CPU {self._longest_cpu_ms:5.1f} ms) "
            f"of {seconds:6.2f} s, load {load:.1f}{mark}",
            flush=True,
        )

    def timed(self, run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        """Return a callback's run that keeps the longest time."""

        def timed(handle: asyncio.Handle) -> None:
            begun, cpu_begun = time.perf_counter(), time.thread_time()
            run(handle)
            cpu_ms = (time.thread_time() - cpu_begun) * 1000
            self._longest_ms = max(self._longest_ms, (time.perf_counter() - begun) * 1000)
            self._longest_cpu_ms = max(self._longest_cpu_ms, cpu_ms)

        return timed


async def fill(broker: CoreAndStore, tp: TopicPartition, count: int) -> None:
    """Follow for so many batches; the first six come from a producer that writes no more."""
    for _ in range(count):
        offset = broker.log(tp).log_end_offset
        producer_id = 1 if offset < 6 else 2
        made = await asyncio.to_thread(
            batch, offset, size_bytes=BATCH_BYTES, producer_id=producer_id, sequence=offset
        )
        await broker.follow(tp, made)
    await until(lambda: broker.log(tp).sealed_waiting == 0)


async def measure(folder: Path, gib: float, steps: Steps) -> None:
    """Run every case in one store."""
    broker = CoreAndStore(folder, CONFIG)
    broker.start()
    many = [TopicPartition(topic_id=TOPIC_ID, partition=n) for n in range(REPLICAS)]
    long, rolling, big = many[-3:]
    async with steps.case(f"creation of {REPLICAS} replicas"):
        await broker.apply(many, leader=LEADER, leader_epoch=0)
    async with steps.case(f"{TAKE_OVERS} take-overs"):
        await broker.apply(many[:TAKE_OVERS], leader=ME, leader_epoch=1)
        files = [broker.log(tp).folder / "leader-epoch-checkpoint" for tp in many[:TAKE_OVERS]]
        await until(lambda: all(file.exists() for file in files))
    await broker.apply([rolling], leader=LEADER, leader_epoch=1, segment_bytes=4 * BATCH_BYTES)
    async with steps.case(f"{ROLLS} rolls"):
        await fill(broker, rolling, 4 * ROLLS)
    await broker.apply([big], leader=LEADER, leader_epoch=1, segment_bytes=SEGMENT_BYTES)
    async with steps.case(f"{gib} GiB appended and flushed"):
        await fill(broker, big, int(gib * GIB) // BATCH_BYTES)
    log = broker.log(big)
    async with steps.case("truncation, producers made anew, and refill"):
        await broker.diverge(big, leader_epoch=0, end_offset=log.log_end_offset - CUT_BATCHES)
        await until(lambda: log.rebuild is None)
        await fill(broker, big, CUT_BATCHES)
    async with steps.case("truncation of a quarter, and refill"):
        quarter = log.log_end_offset // 4
        await broker.diverge(big, leader_epoch=0, end_offset=log.log_end_offset - quarter)
        await until(lambda: log.rebuild is None)
        await fill(broker, big, quarter)
    await broker.apply([long], leader=LEADER, leader_epoch=1, segment_bytes=LONG_BYTES)
    await fill(broker, long, LONG_BYTES // BATCH_BYTES - 1)
    async with steps.case(f"truncation of {LONG_BYTES >> 20} MiB of one segment"):
        await broker.diverge(long, leader_epoch=0, end_offset=CUT_BATCHES)
        await fill(broker, long, CUT_BATCHES)
    await broker.stop()
    again = CoreAndStore(folder, CONFIG)
    print(f"{'start with these logs, stopped cleanly':44} {again.load_seconds:27.2f} s")
    again.start()
    async with steps.case(f"deletion of {log.size_bytes / GIB:.1f} GiB"):
        await again.delete([big])
    await again.stop()


def main() -> None:
    """Measure in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=10.0, help="size of the big log")
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to measure")
    options = parser.parse_args()
    print(host_info())
    steps = Steps()
    with (
        tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.folder) as folder,
        patch.object(asyncio.Handle, "_run", steps.timed(asyncio.Handle._run)),  # noqa: SLF001
    ):
        asyncio.run(measure(Path(folder), options.gib, steps))


if __name__ == "__main__":
    main()
