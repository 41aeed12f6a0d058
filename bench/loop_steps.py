"""The longest step of a broker's event loop while its store works: `python -m bench.loop_steps`.

`make bench` runs it after the faults. One process, the store and the logs of the broker, a folder
on a real disk, and asyncio's own event loop, whose every callback is timed. While a step runs, the
broker answers no one.
"""

from __future__ import annotations

import argparse
import asyncio
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

from crc32c import crc32c

from strandline.config.storage import StorageConfig
from strandline.core.effects import (
    AppendAsFollower,
    CreateReplica,
    DeleteReplica,
    PersistedPartition,
    PersistState,
    TruncateTo,
    WriteEpochCheckpoint,
)
from strandline.core.events import RecordsHandle
from strandline.log.data_directory import DataDirectory
from strandline.log.record_batch import (
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_V2,
    BatchHeader,
    FetchedBatches,
    pack_header,
)
from strandline.model import (
    ControllerEpoch,
    EpochStart,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
    TopicSettings,
)
from strandline.runtime.storage.loaded_store import load_store, log_environment
from strandline.runtime.storage.replica_store import ReplicaStore

AIM_MS = 50.0
REPLICAS = 1_000
TAKE_OVERS = 600
BATCH_BYTES = 1 << 20
ROLLS = 40
TOPIC_ID = TopicId("00000000-0000-4000-8000-000000000001")
CONFIG = StorageConfig(trash_retention_bytes=0)


class Steps:
    """The longest callback of the event loop in each case."""

    def __init__(self) -> None:
        self._longest_ms = 0.0

    @asynccontextmanager
    async def case(self, title: str) -> AsyncIterator[None]:
        """Time every callback until the block ends, and report the longest."""
        await asyncio.sleep(0)
        self._longest_ms, begun = 0.0, time.perf_counter()
        yield
        await asyncio.sleep(0)
        mark = "" if self._longest_ms <= AIM_MS else f"  over the aim of {AIM_MS:.0f} ms"
        seconds = time.perf_counter() - begun
        print(f"{title:44} {self._longest_ms:8.1f} ms of {seconds:6.2f} s{mark}", flush=True)

    def timed(self, run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        """Return a callback's run that keeps the longest time."""

        def timed(handle: asyncio.Handle) -> None:
            begun = time.perf_counter()
            run(handle)
            self._longest_ms = max(self._longest_ms, (time.perf_counter() - begun) * 1000)

        return timed


def batch(base_offset: int, producer_id: int, sequence: int) -> FetchedBatches:
    """Return one batch of one record's worth of bytes, with a right CRC."""
    header = BatchHeader(
        base_offset=base_offset,
        length=BATCH_BYTES - LENGTH_PREFIX_BYTES,
        leader_epoch=0,
        magic=MAGIC_V2,
        crc=0,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=time.time_ns() // 1_000_000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        records_count=1,
    )
    data = bytearray(pack_header(header) + bytes(BATCH_BYTES - HEADER_BYTES))
    crc = crc32c(bytes(data[CRC_FROM:]))
    struct.pack_into(">I", data, CRC_FROM - 4, crc)
    return FetchedBatches((header._replace(crc=crc),), bytes(data))


class Bench:
    """A store in a folder."""

    def __init__(self, folder: Path) -> None:
        self.directory = DataDirectory.open(folder)
        environment = log_environment(CONFIG, lambda _seconds: None)
        begun = time.perf_counter()
        state = self.directory.read_state()
        loaded = load_store(
            self.directory, state, environment, clean=True, before_loss=lambda: None
        )
        self.load_seconds = time.perf_counter() - begun
        self.persisted: list[int] = []
        self.store = ReplicaStore(
            loaded,
            config=CONFIG,
            wall_time_us=lambda: time.time_ns() // 1000,
            on_persisted=self.persisted.append,
            on_log_start_persisted=lambda _tp, _offset: None,
            on_trash_changed=lambda _trashed: None,
            on_failure=lambda error: sys.exit(str(error)),
        )

    async def write_state(self, partitions: list[TopicPartition]) -> None:
        """Write the state of partitions, as at a LeaderAndIsr, and wait for it."""
        entry = PersistedPartition(
            topic_name="bench",
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
            isr=(),
        )
        token = len(self.persisted) + 1
        states = tuple((tp, entry) for tp in partitions)
        epoch = ControllerEpoch(1)
        self.store.perform(PersistState(token=token, controller_epoch=epoch, partitions=states))
        await until(lambda: token in self.persisted)

    def create(self, partitions: list[TopicPartition], *, segment_bytes: int) -> None:
        """Take the logs that were made with the state."""
        settings = TopicSettings(segment_bytes=segment_bytes)
        for tp in partitions:
            self.store.perform(CreateReplica(tp=tp, topic_name="bench", settings=settings))

    async def fill(self, tp: TopicPartition, batches: int) -> None:
        """Append batches; the first comes from a producer that writes no more."""
        for _ in range(batches):
            offset = self.store.logs[tp].log_end_offset
            fetched = batch(offset, producer_id=1 if offset < 6 else 2, sequence=offset)
            records = RecordsHandle(fetched)
            self.store.perform(AppendAsFollower(tp=tp, records=records, batch_count=1))
            await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Look at a condition until it holds."""
    while not condition():  # noqa: ASYNC110 - it changes on threads, which set no event
        await asyncio.sleep(0.01)


async def measure(folder: Path, gib: float, steps: Steps) -> None:
    """Run every case in one store."""
    bench = Bench(folder)
    bench.store.start()
    many = [TopicPartition(topic_id=TOPIC_ID, partition=n) for n in range(REPLICAS)]
    async with steps.case(f"creation of {REPLICAS} replicas"):
        await bench.write_state(many)
        bench.create(many, segment_bytes=1 << 30)
        await asyncio.sleep(0)
    async with steps.case(f"{TAKE_OVERS} take-overs"):
        for tp in many[:TAKE_OVERS]:
            start = EpochStart(leader_epoch=LeaderEpoch(1), start_offset=0)
            bench.store.perform(WriteEpochCheckpoint(tp=tp, epochs=(start,)))
        await bench.write_state(many[:TAKE_OVERS])
    rolling, big = many[0], many[1]
    bench.create([rolling], segment_bytes=4 * BATCH_BYTES)
    async with steps.case(f"{ROLLS} rolls"):
        await bench.fill(rolling, 4 * ROLLS)
        await until(lambda: bench.store.logs[rolling].sealed_waiting == 0)
    bench.create([big], segment_bytes=128 << 20)
    batches = int(gib * (1 << 30)) // BATCH_BYTES
    async with steps.case(f"{gib} GiB appended and flushed"):
        await bench.fill(big, batches)
        await until(lambda: bench.store.logs[big].sealed_waiting == 0)
    async with steps.case("truncation, producers made anew"):
        log = bench.store.logs[big]
        bench.store.perform(TruncateTo(tp=big, offset=log.log_end_offset - 10))
        await asyncio.sleep(0)
        await until(lambda: log.rebuild is None)
    await bench.store.stop({})
    bench.directory.close()
    again = Bench(folder)
    print(f"{'start with these logs, stopped cleanly':44} {again.load_seconds:20.2f} s")
    again.store.start()
    async with steps.case(f"deletion of {gib} GiB"):
        again.store.perform(DeleteReplica(tp=big))
        await until(lambda: not again.store.root.joinpath(str(big)).exists())
        await until(lambda: not any(again.store.root.joinpath("trash").iterdir()))
    await again.store.stop({})
    again.directory.close()


def main() -> None:
    """Measure in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=10.0, help="size of the big log")
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to measure")
    options = parser.parse_args()
    steps = Steps()
    with (
        tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.folder) as folder,
        patch.object(asyncio.Handle, "_run", steps.timed(asyncio.Handle._run)),  # noqa: SLF001
    ):
        asyncio.run(measure(Path(folder), options.gib, steps))


if __name__ == "__main__":
    main()
