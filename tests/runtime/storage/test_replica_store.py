"""Replicas on disk: the order in which they are created and deleted, and a kill in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from strandline.broker_interface import Buffer
from strandline.core.effects import (
    AppendAsFollower,
    CreateReplica,
    DeleteReplica,
    PersistedPartition,
    PersistState,
    WriteEpochCheckpoint,
)
from strandline.core.events import NO_RECORDS, RecordsHandle
from strandline.errors import InvariantViolation, StorageError
from strandline.log import record_batch
from strandline.log.checkpoint import EpochCheckpoint, HighWatermarkCheckpoint
from strandline.log.data_directory import BrokerState, DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.segment import SegmentPool
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    EpochStart,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
    TopicSettings,
)
from strandline.runtime.storage.loaded_store import load_store
from strandline.runtime.storage.replica_store import ReplicaStore
from tests.log.support.batches import batch
from tests.log.support.logs import SMALL_INDEX
from tests.support.eventually import aeventually

TP = TopicPartition(topic_id=TopicId("00000000-0000-4000-8000-000000000001"), partition=0)
LIMIT_MS = 5_000


class Opened:
    """A ReplicaStore over a data directory, and the tokens and failures that it reported."""

    def __init__(self, folder: Path) -> None:
        self.directory = DataDirectory.open(folder)
        self.persisted: list[int] = []
        self.failures: list[StorageError] = []
        self.log_starts: list[tuple[TopicPartition, int]] = []
        state = BrokerState()
        if (folder / "broker-state").exists():
            state = self.directory.read_state()
        environment = LogEnvironment(pool=SegmentPool(open_segments_max=128), limits=SMALL_INDEX)
        loaded = load_store(self.directory, state, environment, clean=True)
        self.loaded = loaded.found
        self.store = ReplicaStore(
            loaded,
            on_persisted=self.persisted.append,
            on_log_start_persisted=lambda tp, offset: self.log_starts.append((tp, offset)),
            on_failure=self.failures.append,
        )

    def perform(
        self,
        effect: AppendAsFollower
        | PersistState
        | CreateReplica
        | DeleteReplica
        | WriteEpochCheckpoint,
    ) -> None:
        self.store.perform(effect)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition()

        await aeventually(holds, LIMIT_MS, what)


def persist_state(token: int) -> PersistState:
    entry = PersistedPartition(
        topic_name="orders",
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(IsrEntry(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1)),),
    )
    return PersistState(token=token, controller_epoch=ControllerEpoch(3), partitions=((TP, entry),))


def created() -> CreateReplica:
    return CreateReplica(tp=TP, topic_name="orders", settings=TopicSettings())


def with_store(folder: Path, scenario: Callable[[Opened], Awaitable[None]]) -> Opened:
    async def run() -> Opened:
        opened = Opened(folder)
        opened.store.start()
        await scenario(opened)
        opened.directory.close()
        return opened

    return asyncio.run(run())


def test_a_kill_before_the_folder_is_made_loses_nothing(tmp_path: Path) -> None:
    async def killed_after_the_write(one: Opened) -> None:
        one.perform(persist_state(1))
        await one.until(lambda: one.persisted == [1], "state on disk")

    with_store(tmp_path, killed_after_the_write)
    again = Opened(tmp_path)
    assert again.loaded.lost == []
    assert len(again.loaded.warnings) == 1


def test_a_deleted_replica_leaves_the_state_file_before_its_folder_goes(tmp_path: Path) -> None:
    async def deleted(one: Opened) -> None:
        one.perform(persist_state(1))
        one.perform(created())
        await one.until(lambda: one.persisted == [1], "state on disk")
        folder = one.store.logs[TP].folder
        one.perform(DeleteReplica(tp=TP))
        assert folder.exists()
        await one.until(lambda: not folder.exists(), "folder gone")
        assert one.directory.read_state().partitions == {}

    with_store(tmp_path, deleted)
    again = Opened(tmp_path)
    assert (again.loaded.logs, again.loaded.lost) == ({}, [])


def test_a_follower_reads_a_header_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [batch([b"v"], base_offset=offset, leader_epoch=0) for offset in range(3)]
    parsed: list[int] = []
    parse = record_batch.parse_header

    def counted(buffer: Buffer, position: int = 0) -> record_batch.BatchHeader:
        parsed.append(position)
        return parse(buffer, position)

    monkeypatch.setattr(record_batch, "parse_header", counted)

    async def appended(one: Opened) -> None:
        one.perform(created())
        fetched = record_batch.read_fetched(b"".join(parts))
        one.perform(AppendAsFollower(tp=TP, records=RecordsHandle(fetched), batch_count=2))
        assert one.store.logs[TP].log_end_offset == 2

    with_store(tmp_path, appended)
    assert parsed == [0, len(parts[0]), len(parts[0]) + len(parts[1])]


def test_an_unchecked_batch_is_never_appended(tmp_path: Path) -> None:
    async def appended(one: Opened) -> None:
        one.perform(created())
        sent = record_batch.read_client_batch(batch([b"v"]))
        for records in (NO_RECORDS, RecordsHandle(sent)):
            with pytest.raises(InvariantViolation, match="came with the event"):
                one.perform(AppendAsFollower(tp=TP, records=records, batch_count=1))
        assert one.store.logs[TP].log_end_offset == 0

    with_store(tmp_path, appended)


def test_a_stop_brings_states_epochs_and_high_watermarks_to_disk(tmp_path: Path) -> None:
    epochs = (EpochStart(leader_epoch=LeaderEpoch(0), start_offset=0),)

    async def stopped(one: Opened) -> None:
        one.perform(created())
        folder = one.store.logs[TP].folder
        one.perform(WriteEpochCheckpoint(tp=TP, epochs=epochs))
        one.perform(persist_state(1))
        await one.store.stop({TP: 0})
        assert one.directory.read_state().controller_epoch == 3
        assert EpochCheckpoint(folder).read() == epochs
        assert HighWatermarkCheckpoint(tmp_path).read() == {TP: 0}

    with_store(tmp_path, stopped)


def test_a_state_file_that_cannot_be_written_is_reported_and_makes_the_stop_fail(
    tmp_path: Path,
) -> None:
    async def failing(one: Opened) -> None:
        (tmp_path / "broker-state.tmp").mkdir()
        one.perform(persist_state(1))
        await one.until(lambda: len(one.failures) == 1, "failure reported")
        assert one.persisted == []
        try:
            await one.store.stop({})
        except StorageError:
            return
        raise AssertionError("the stop looked clean")

    with_store(tmp_path, failing)
