"""A `ReplicaStore` over a data directory, and effects for it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from strandline.config.storage import StorageConfig
from strandline.core.effects import (
    AppendAsFollower,
    CreateReplica,
    DeleteReplica,
    PersistedPartition,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import RecordsHandle
from strandline.errors import StorageError
from strandline.log import record_batch
from strandline.log.data_directory import DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.segment import LogLimits, SegmentPool
from strandline.log.state_file import BrokerState
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
    TopicSettings,
    TrashedReplica,
)
from strandline.runtime.storage.loaded_store import load_store
from strandline.runtime.storage.replica_store import ReplicaStore
from tests.log.support.batches import batch
from tests.log.support.logs import SMALL_INDEX
from tests.support.eventually import aeventually

TP = TopicPartition(topic_id=TopicId("00000000-0000-4000-8000-000000000001"), partition=0)
OTHER = TopicPartition(topic_id=TP.topic_id, partition=1)
LIMIT_MS = 5_000
DEFAULTS = StorageConfig()


class Opened:
    """A ReplicaStore over a data directory, and the tokens and failures that it reported."""

    def __init__(
        self, folder: Path, config: StorageConfig, limits: LogLimits = SMALL_INDEX
    ) -> None:
        self.directory = DataDirectory.open(folder)
        self.persisted: list[int] = []
        self.failures: list[StorageError] = []
        self.log_starts: list[tuple[TopicPartition, int]] = []
        self.flushed: list[tuple[TopicPartition, int]] = []
        self.trashed: list[tuple[TrashedReplica, ...]] = []
        state = BrokerState()
        if (folder / "broker-state").exists():
            state = self.directory.read_state()
        limits = dataclasses.replace(limits, unflushed_segments_max=config.unflushed_segments_max)
        environment = LogEnvironment(pool=SegmentPool(open_segments_max=128), limits=limits)
        loaded = load_store(
            self.directory, state, environment, clean=True, before_loss=lambda: None
        )
        self.loaded_store = loaded
        self.loaded = loaded.found
        self.now_ms = 1_700_000_000_000
        self.store = ReplicaStore(
            loaded,
            config=config,
            wall_time_us=lambda: self.now_ms * 1000,
            on_persisted=self.persisted.append,
            on_log_start_persisted=lambda tp, offset: self.log_starts.append((tp, offset)),
            on_log_flushed=lambda tp, offset: self.flushed.append((tp, offset)),
            on_trash_changed=self.trashed.append,
            on_failure=self.failures.append,
        )

    def perform(
        self,
        effect: AppendAsFollower
        | PersistState
        | RestartLogAt
        | TruncateTo
        | CreateReplica
        | DeleteReplica
        | WriteEpochCheckpoint
        | WriteHighWatermarkCheckpoint,
    ) -> None:
        self.store.perform(effect)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition()

        await aeventually(holds, LIMIT_MS, what)

    async def create(self, *partitions: TopicPartition) -> None:
        """Create replicas as the core does: their state first, then they."""
        token = len(self.persisted) + 1
        self.perform(persist_state(token, *partitions))
        await self.until(lambda: token in self.persisted, "state on disk")
        for tp in partitions:
            self.perform(created(tp))


def persist_state(token: int, *partitions: TopicPartition) -> PersistState:
    entry = PersistedPartition(
        topic_name="orders",
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(IsrEntry(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),),
    )
    return PersistState(
        token=token,
        controller_epoch=ControllerEpoch(3),
        partitions=tuple((tp, entry) for tp in partitions),
    )


def created(tp: TopicPartition) -> CreateReplica:
    return CreateReplica(tp=tp, topic_name="orders", settings=TopicSettings())


def append(one: Opened, tp: TopicPartition, *, sequence: int = 0) -> AppendAsFollower:
    data = batch(
        [b"v"],
        base_offset=one.store.logs[tp].log_end_offset,
        leader_epoch=0,
        producer_id=9,
        producer_epoch=0,
        base_sequence=sequence,
    )
    fetched = record_batch.read_fetched(data)
    return AppendAsFollower(tp=tp, records=RecordsHandle(fetched), batch_count=1)


def with_store(
    folder: Path,
    scenario: Callable[[Opened], Awaitable[None]],
    *,
    config: StorageConfig = DEFAULTS,
    limits: LogLimits = SMALL_INDEX,
) -> Opened:
    async def run() -> Opened:
        opened = Opened(folder, config, limits)
        opened.store.start()
        await scenario(opened)
        opened.directory.close()
        return opened

    return asyncio.run(run())


@contextmanager
def held_fsync(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[threading.Event]:
    """Hold every fsync of a file with this name until the block ends; yield when one is held."""
    reached, gate = threading.Event(), threading.Event()

    def held(really: Callable[[int], None], fd: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).name == name:
            reached.set()
            assert gate.wait(LIMIT_MS / 1000)
        really(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", partial(held, os.fsync))
        patch.setattr(os, "fdatasync", partial(held, os.fdatasync))
        try:
            yield reached
        finally:
            gate.set()
