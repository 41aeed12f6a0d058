"""Replicas on disk: the order in which they are created and deleted, and a kill in between."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.broker_interface import Buffer
from strandline.config.storage import StorageConfig
from strandline.core.effects import (
    AppendAsFollower,
    CreateReplica,
    DeleteReplica,
    PersistedPartition,
    PersistState,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import NO_RECORDS, RecordsHandle
from strandline.errors import InvariantViolation, ProtocolError, StorageError
from strandline.log import record_batch
from strandline.log.checkpoint import EpochCheckpoint, HighWatermarkCheckpoint
from strandline.log.data_directory import BrokerState, DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.partition_folder import folder_of
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
from tests.support.disk_calls import disk_calls
from tests.support.eventually import aeventually

TP = TopicPartition(topic_id=TopicId("00000000-0000-4000-8000-000000000001"), partition=0)
OTHER = TopicPartition(topic_id=TP.topic_id, partition=1)
LIMIT_MS = 5_000
DEFAULTS = StorageConfig()


class Opened:
    """A ReplicaStore over a data directory, and the tokens and failures that it reported."""

    def __init__(self, folder: Path, config: StorageConfig) -> None:
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
        self.now_ms = 1_700_000_000_000
        self.store = ReplicaStore(
            loaded,
            config=config,
            wall_time_us=lambda: self.now_ms * 1000,
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


def append(one: Opened, tp: TopicPartition) -> AppendAsFollower:
    data = batch([b"v"], base_offset=one.store.logs[tp].log_end_offset, leader_epoch=0)
    fetched = record_batch.read_fetched(data)
    return AppendAsFollower(tp=tp, records=RecordsHandle(fetched), batch_count=1)


def with_store(
    folder: Path,
    scenario: Callable[[Opened], Awaitable[None]],
    *,
    config: StorageConfig = DEFAULTS,
) -> Opened:
    async def run() -> Opened:
        opened = Opened(folder, config)
        opened.store.start()
        await scenario(opened)
        opened.directory.close()
        return opened

    return asyncio.run(run())


@contextmanager
def held_fsync(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[threading.Event]:
    """Hold every fsync of a file with this name until the block ends; yield when one is held."""
    reached, gate, really = threading.Event(), threading.Event(), os.fsync

    def held(fd: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{fd}")).name == name:
            reached.set()
            assert gate.wait(LIMIT_MS / 1000)
        really(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", held)
        try:
            yield reached
        finally:
            gate.set()


def test_a_kill_before_the_folder_is_made_loses_nothing(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    state = BrokerState(
        controller_epoch=ControllerEpoch(3), partitions=dict(persist_state(1, TP).partitions)
    )
    directory.write_state(state)
    directory.close()

    async def found(one: Opened) -> None:
        assert one.loaded.lost == []
        assert len(one.loaded.warnings) == 1
        await one.create(TP)
        assert one.store.logs[TP].log_end_offset == 0

    with_store(tmp_path, found)


def test_a_folder_is_made_after_the_state_file_knows_it_and_before_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def creating(one: Opened) -> None:
        folder = folder_of(tmp_path, TP)
        with held_fsync(monkeypatch, "broker-state.tmp") as reached:
            one.perform(persist_state(1, TP))
            await one.until(reached.is_set, "state being written")
            assert not folder.exists()
        with held_fsync(monkeypatch, folder.name) as reached:
            await one.until(reached.is_set, "folder being made")
            assert TP in one.directory.read_state().partitions
            assert one.persisted == []
        await one.until(lambda: one.persisted == [1], "all of it on disk")
        with disk_calls(tmp_path) as calls:
            one.perform(created(TP))
        assert calls == []

    with_store(tmp_path, creating)


def test_a_replica_without_a_state_is_never_created(tmp_path: Path) -> None:
    async def creating(one: Opened) -> None:
        with pytest.raises(InvariantViolation, match="made with its state"):
            one.perform(created(TP))

    with_store(tmp_path, creating)


def test_a_deleted_replica_leaves_the_state_file_before_its_folder_goes(tmp_path: Path) -> None:
    async def deleted(one: Opened) -> None:
        await one.create(TP)
        folder = one.store.logs[TP].folder
        one.perform(DeleteReplica(tp=TP))
        assert folder.exists()
        await one.until(lambda: not folder.exists(), "folder gone")
        assert one.directory.read_state().partitions == {}

    with_store(tmp_path, deleted)
    again = Opened(tmp_path, DEFAULTS)
    assert (again.loaded.logs, again.loaded.lost) == ({}, [])


def test_a_deletion_during_a_write_of_the_state_file_waits_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write under way still names the replica: its folder must outlive that write."""
    forgotten_at_move: list[bool] = []
    rename = Path.rename

    async def deleted(one: Opened) -> None:
        await one.create(TP, OTHER)
        folder = one.store.logs[TP].folder

        def watched(path: Path, target: Path) -> Path:
            if path == folder:
                forgotten_at_move.append(TP not in one.directory.read_state().partitions)
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", watched)
        with held_fsync(monkeypatch, "broker-state.tmp") as reached:
            one.perform(persist_state(2, OTHER))
            await one.until(reached.is_set, "state being written")
            one.perform(DeleteReplica(tp=TP))
        await one.until(lambda: not folder.exists(), "folder gone")

    with_store(tmp_path, deleted)
    assert forgotten_at_move == [True]


def test_a_replica_deleted_and_made_again_at_once_is_new_and_its_old_log_is_kept(
    tmp_path: Path,
) -> None:
    async def made_again(one: Opened) -> None:
        await one.create(TP)
        one.perform(append(one, TP))
        one.perform(DeleteReplica(tp=TP))
        await one.create(TP)
        assert one.store.logs[TP].log_end_offset == 0
        assert TP in one.directory.read_state().partitions
        assert len(list((tmp_path / "trash").iterdir())) == 1

    with_store(tmp_path, made_again)


def test_a_deletion_reaches_a_folder_that_no_start_could_load(tmp_path: Path) -> None:
    folder_of(tmp_path, TP).mkdir()

    async def deleted(one: Opened) -> None:
        assert one.store.logs == {}
        one.perform(DeleteReplica(tp=TP))
        await one.until(lambda: not folder_of(tmp_path, TP).exists(), "folder gone")
        assert (tmp_path / "trash" / f"{TP}.{one.now_ms}").is_dir()

    with_store(tmp_path, deleted)


def test_states_are_written_while_epochs_and_the_trash_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow_disk(one: Opened) -> None:
        await one.create(TP, OTHER)
        one.perform(DeleteReplica(tp=OTHER))
        await one.until(lambda: one.store.trash_bytes > 0, "trash seen")
        one.now_ms += DEFAULTS.trash_retention_ms + 1
        epoch = EpochStart(leader_epoch=LeaderEpoch(0), start_offset=0)
        with (
            held_fsync(monkeypatch, "leader-epoch-checkpoint.tmp") as checkpoint_held,
            held_unlink(monkeypatch) as unlink_held,
        ):
            one.perform(WriteEpochCheckpoint(tp=TP, epochs=(epoch,)))
            one.perform(DeleteReplica(tp=OTHER))
            await one.until(checkpoint_held.is_set, "checkpoint being written")
            await one.until(unlink_held.is_set, "log being removed")
            one.perform(persist_state(2, TP))
            await one.until(lambda: one.persisted == [1, 2], "state on disk")

    with_store(tmp_path, slow_disk)


@contextmanager
def held_unlink(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold every removal of a segment until the block ends; yield when one is held."""
    reached, gate, really = threading.Event(), threading.Event(), Path.unlink

    def held(path: Path, *, missing_ok: bool = False) -> None:
        if path.suffix == ".log":
            reached.set()
            assert gate.wait(LIMIT_MS / 1000)
        really(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", held)
        try:
            yield reached
        finally:
            gate.set()


def test_the_event_loop_makes_no_disk_call_for_creations_deletions_and_checkpoints(
    tmp_path: Path,
) -> None:
    partitions = [TopicPartition(topic_id=TP.topic_id, partition=n) for n in range(40)]
    epoch = EpochStart(leader_epoch=LeaderEpoch(0), start_offset=0)

    async def watched(one: Opened) -> None:
        with disk_calls(tmp_path) as calls:
            await one.create(*partitions)
            for tp in partitions:
                one.perform(WriteEpochCheckpoint(tp=tp, epochs=(epoch,)))
            marks = tuple((tp, 0) for tp in partitions)
            one.perform(WriteHighWatermarkCheckpoint(high_watermarks=marks))
            for tp in partitions[::2]:
                one.perform(DeleteReplica(tp=tp))
            await one.until(lambda: one.store.trash_bytes > 0, "logs in the trash")
            await one.store.stop({})
        assert calls == []

    with_store(tmp_path, watched)


def test_a_deleted_log_comes_back_whole_until_its_time_is_over(tmp_path: Path) -> None:
    config = dataclasses.replace(DEFAULTS, trash_retention_ms=1_000)

    async def restored(one: Opened) -> None:
        await one.create(TP)
        one.perform(append(one, TP))
        one.perform(DeleteReplica(tp=TP))
        await one.until(lambda: one.store.trash_bytes > 0, "log in the trash")
        log = await one.store.restore_from_trash(TP)
        assert one.store.logs == {TP: log}
        assert log.log_end_offset == 1
        for refused in (TP, OTHER):
            with pytest.raises(ProtocolError):
                await one.store.restore_from_trash(refused)
        one.perform(DeleteReplica(tp=TP))
        one.now_ms += 1_001
        one.perform(DeleteReplica(tp=OTHER))
        await one.until(lambda: not list((tmp_path / "trash").iterdir()), "trash emptied")
        with pytest.raises(ProtocolError):
            await one.store.restore_from_trash(TP)

    with_store(tmp_path, restored, config=config)


def test_a_follower_reads_a_header_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [batch([b"v"], base_offset=offset, leader_epoch=0) for offset in range(3)]
    parsed: list[int] = []
    parse = record_batch.parse_header

    def counted(buffer: Buffer, position: int = 0) -> record_batch.BatchHeader:
        parsed.append(position)
        return parse(buffer, position)

    monkeypatch.setattr(record_batch, "parse_header", counted)

    async def appended(one: Opened) -> None:
        await one.create(TP)
        fetched = record_batch.read_fetched(b"".join(parts))
        one.perform(AppendAsFollower(tp=TP, records=RecordsHandle(fetched), batch_count=2))
        assert one.store.logs[TP].log_end_offset == 2

    with_store(tmp_path, appended)
    assert parsed == [0, len(parts[0]), len(parts[0]) + len(parts[1])]


def test_an_unchecked_batch_is_never_appended(tmp_path: Path) -> None:
    async def appended(one: Opened) -> None:
        await one.create(TP)
        sent = record_batch.read_client_batch(batch([b"v"]))
        for records in (NO_RECORDS, RecordsHandle(sent)):
            with pytest.raises(InvariantViolation, match="came with the event"):
                one.perform(AppendAsFollower(tp=TP, records=records, batch_count=1))
        assert one.store.logs[TP].log_end_offset == 0

    with_store(tmp_path, appended)


def test_a_stop_brings_states_epochs_and_high_watermarks_to_disk(tmp_path: Path) -> None:
    epochs = (EpochStart(leader_epoch=LeaderEpoch(0), start_offset=0),)

    async def stopped(one: Opened) -> None:
        await one.create(TP)
        folder = one.store.logs[TP].folder
        one.perform(WriteEpochCheckpoint(tp=TP, epochs=epochs))
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
        one.perform(persist_state(1, TP))
        await one.until(lambda: len(one.failures) == 1, "failure reported")
        assert one.persisted == []
        try:
            await one.store.stop({})
        except StorageError:
            return
        raise AssertionError("the stop looked clean")

    with_store(tmp_path, failing)
