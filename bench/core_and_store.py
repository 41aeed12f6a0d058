"""The core and the store of a broker in this process, and the leader that it follows: `loop_steps`.

Events reach the shipped core through the shipped driver; disk effects reach the store, and notices
the log and the metrics, as in a broker. Only the peers are missing: this class keeps the core's
fetch, and the bench responds to it.
"""

from __future__ import annotations

import asyncio
import io
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from crc32c import crc32c

from strandline import component_settings
from strandline.config.replication import ReplicationConfig
from strandline.config.storage import StorageConfig
from strandline.config.timing import TimingConfig
from strandline.core.effects import Effect, ReplyStopReplica, SendFetch
from strandline.core.events import (
    Event,
    FetchedPartition,
    FetchResponseReceived,
    LeaderAndIsrReceived,
    LogDirectoryLost,
    LogFlushed,
    LogStartPersisted,
    RecordsHandle,
    ReplicaLoaded,
    StatePersisted,
    StopReplicaReceived,
    Ticked,
)
from strandline.core.notices import Notice
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode, InvariantViolation
from strandline.log.data_directory import DataDirectory
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import (
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_V2,
    BatchHeader,
    pack_header,
    read_fetched,
)
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochEndOffset,
    IsrEntry,
    LeaderEpoch,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
    TopicSettings,
)
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.event_loop.driver import Driver
from strandline.runtime.observability import logs
from strandline.runtime.observability.metrics import Metrics
from strandline.runtime.observability.notice_reporters import CoreNoticeReporter
from strandline.runtime.storage.loaded_store import load_store, log_environment
from strandline.runtime.storage.replica_store import DiskEffect, ReplicaStore

ME, LEADER = BrokerId(1), BrokerId(2)
EPOCH = BrokerEpoch(1)
CONTROLLER_EPOCH = ControllerEpoch(1)
TOPIC = "bench"


def batch(base_offset: int, *, size_bytes: int, producer_id: int, sequence: int) -> bytes:
    """Return one batch with one record's worth of bytes and a right CRC."""
    header = BatchHeader(
        base_offset=base_offset,
        length=size_bytes - LENGTH_PREFIX_BYTES,
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
    data = bytearray(pack_header(header) + bytes(size_bytes - HEADER_BYTES))
    struct.pack_into(">I", data, CRC_FROM - 4, crc32c(bytes(data[CRC_FROM:])))
    return bytes(data)


def command_of(
    tp: TopicPartition, *, leader: BrokerId, leader_epoch: int, segment_bytes: int = 1 << 30
) -> PartitionCommand:
    """Return what the controller says of a partition with both brokers in its ISR."""
    state = PartitionState(
        replicas=(ME, LEADER),
        leader=leader,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(leader_epoch),
        isr=tuple(IsrEntry(broker_id=each, broker_epoch=EPOCH) for each in (ME, LEADER)),
        min_insync_replicas=1,
        controller_epoch=CONTROLLER_EPOCH,
    )
    settings = TopicSettings(segment_bytes=segment_bytes)
    return PartitionCommand(tp=tp, topic_name=TOPIC, state=state, settings=settings)


async def until(condition: Callable[[], bool]) -> None:
    """Look at a condition until it holds."""
    while not condition():  # noqa: ASYNC110 - it changes on threads, which set no event
        await asyncio.sleep(0.01)


class CoreAndStore:
    """Broker 1 in a data directory; broker 2 leads what it follows."""

    def __init__(self, folder: Path, config: StorageConfig) -> None:
        logs.configure(io.StringIO())
        self._directory = DataDirectory.open(folder)
        state = self._directory.read_state()
        begun = time.perf_counter()
        self._loaded = load_store(
            self._directory,
            state,
            log_environment(config, lambda _seconds: None),
            clean=True,
            before_loss=lambda: None,
        )
        self.load_seconds = time.perf_counter() - begun
        clock = Clock()
        self.replicas = Replicas(
            ME, EPOCH, EPOCH, component_settings.core(TimingConfig(), ReplicationConfig())
        )
        self._reporter = CoreNoticeReporter(Metrics(), clock)
        self._driver: Driver[Event, Effect] = Driver(
            self.replicas,
            perform=self._perform,
            tick=Ticked(),
            now_ms=clock.now_ms,
            on_storage_error=lambda error: LogDirectoryLost(reason=str(error)),
            on_broken_promise=_end,
        )
        self._fetch: SendFetch | None = None
        self._stopped: list[ReplyStopReplica] = []
        self._last_request_id = 0
        self.store = ReplicaStore(
            self._loaded,
            config=config,
            wall_time_us=clock.wall_time_us,
            on_persisted=lambda token: self._driver.submit(StatePersisted(token=token)),
            on_trash_changed=lambda _trashed: None,
            on_log_start_persisted=lambda tp, offset: self._driver.submit(
                LogStartPersisted(tp=tp, offset=offset)
            ),
            on_log_flushed=lambda tp, offset: self._driver.submit(LogFlushed(tp=tp, offset=offset)),
            on_failure=_end,
        )

    def start(self) -> None:
        """Begin the tasks of the store, and tell the core of the logs that were found."""
        self.store.start()
        for hosted in self._loaded.found.hosted:
            self._driver.submit(ReplicaLoaded(hosted=hosted))

    async def stop(self) -> None:
        """Stop as a broker does."""
        self._driver.stop()
        await self.store.stop(dict(self.replicas.high_watermarks()))
        self._directory.close()

    def log(self, tp: TopicPartition) -> PartitionLog:
        """Return the log of a partition."""
        return self.store.logs[tp]

    async def apply(
        self,
        tps: Sequence[TopicPartition],
        *,
        leader: BrokerId,
        leader_epoch: int,
        segment_bytes: int = 1 << 30,
    ) -> None:
        """Receive one LeaderAndIsr of all these partitions, and wait until it is applied."""
        commands = tuple(
            command_of(tp, leader=leader, leader_epoch=leader_epoch, segment_bytes=segment_bytes)
            for tp in tps
        )
        await asyncio.sleep(0)
        received = LeaderAndIsrReceived(
            request_id=self._next_request_id(),
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=EPOCH,
            partitions=commands,
        )
        asyncio.get_running_loop().call_soon(self._driver.submit, received)
        await until(lambda: all(self._epoch_of(tp) == leader_epoch for tp in tps))

    async def delete(self, tps: Sequence[TopicPartition]) -> None:
        """Receive a StopReplica of these partitions, and wait until the trash is empty again."""
        received = StopReplicaReceived(
            request_id=self._next_request_id(),
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=EPOCH,
            partitions=tuple(tps),
        )
        asyncio.get_running_loop().call_soon(self._driver.submit, received)
        await until(lambda: bool(self._stopped))
        await until(lambda: not any(self.store.root.joinpath(str(tp)).exists() for tp in tps))
        await until(lambda: not any(self.store.root.joinpath("trash").iterdir()))

    async def follow(self, tp: TopicPartition, data: bytes) -> None:
        """Get these batches as the response to the present fetch."""
        await until(lambda: self._fetch is not None)
        asyncio.get_running_loop().call_soon(self._received, tp, data)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _received(self, tp: TopicPartition, data: bytes) -> None:
        fetched = read_fetched(data)
        self._respond(
            FetchedPartition(
                tp=tp,
                error=ErrorCode.NONE,
                high_watermark=fetched.spans[-1].next_offset,
                log_start_offset=0,
                batches=fetched.spans,
                records=RecordsHandle(fetched),
            )
        )

    async def diverge(self, tp: TopicPartition, *, leader_epoch: int, end_offset: int) -> None:
        """Hear from the leader that its history of an epoch ends earlier than ours."""
        await until(lambda: self._fetch is not None)
        diverging = FetchedPartition(
            tp=tp,
            error=ErrorCode.NONE,
            high_watermark=0,
            log_start_offset=0,
            diverging=EpochEndOffset(leader_epoch=LeaderEpoch(leader_epoch), end_offset=end_offset),
        )
        asyncio.get_running_loop().call_soon(self._respond, diverging)
        await until(lambda: self.log(tp).log_end_offset == end_offset)

    def _respond(self, fetched: FetchedPartition) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is None:
            raise InvariantViolation("a response has a fetch")
        self._driver.submit(
            FetchResponseReceived(request_id=fetch.request_id, leader=LEADER, partitions=(fetched,))
        )

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self.store.perform(effect)
            elif isinstance(effect, Notice):
                self._reporter.report(effect)
            elif isinstance(effect, SendFetch):
                self.store.after_cuts(partial(self._hold, effect))
            elif isinstance(effect, ReplyStopReplica):
                self._stopped.append(effect)

    def _hold(self, fetch: SendFetch) -> None:
        self._fetch = fetch

    def _epoch_of(self, tp: TopicPartition) -> int | None:
        view = self.replicas.view(tp)
        return None if view is None else view.leader_epoch

    def _next_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id


def _end(error: Exception) -> None:
    sys.exit(f"the broker of the bench failed: {error}")
