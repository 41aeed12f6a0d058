"""Replicas on disk: the order in which they are created and deleted, and a kill in between."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strandline.broker_interface import Buffer
from strandline.core.effects import (
    AppendAsFollower,
    DeleteReplica,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import NO_RECORDS, RecordsHandle
from strandline.errors import InvariantViolation, ProtocolError, StorageError
from strandline.log import record_batch
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.data_directory import DataDirectory
from strandline.log.partition_folder import folder_of
from strandline.log.partition_log import PartitionLog
from strandline.log.state_file import BrokerState
from strandline.model import (
    NO_TERM,
    BrokerEpoch,
    ControllerEpoch,
    EpochStart,
    HostedPartition,
    LeaderEpoch,
    TopicPartition,
    TopicSettings,
)
from strandline.runtime.storage.replica_store import ReplicaStore
from tests.log.support.batches import batch
from tests.support.disk_calls import disk_calls

from .opened import (
    DEFAULTS,
    LIMIT_MS,
    OTHER,
    TP,
    Opened,
    append,
    created,
    held_fsync,
    persist_state,
    with_store,
)


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
        with held_fsync(monkeypatch, "broker-state") as reached:
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
        await one.until((tmp_path / "trash" / f"{TP}.{one.now_ms}").is_dir, "in the trash")

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
            held(monkeypatch, "rename", "leader-epoch-checkpoint.tmp") as checkpoint_held,
            held(monkeypatch, "unlink", "*.log") as unlink_held,
        ):
            one.perform(WriteEpochCheckpoint(tp=TP, epochs=(epoch,)))
            one.perform(DeleteReplica(tp=OTHER))
            await one.until(checkpoint_held.is_set, "checkpoint being written")
            await one.until(unlink_held.is_set, "log being removed")
            one.perform(persist_state(2, TP))
            await one.until(lambda: one.persisted == [1, 2], "state on disk")

    with_store(tmp_path, slow_disk)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, call: str, pattern: str) -> Iterator[threading.Event]:
    """Hold every call of a Path with such a name until the block ends; yield when one is held."""
    reached, gate, really = threading.Event(), threading.Event(), getattr(Path, call)

    def hold(path: Path, *args: object, **options: object) -> object:
        if path.match(pattern):
            reached.set()
            assert gate.wait(LIMIT_MS / 1000)
        return really(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, call, hold)
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


async def deleted(one: Opened, *partitions: TopicPartition) -> None:
    """Delete replicas of one record each, and wait until the trash has their logs."""
    await one.create(*partitions)
    for tp in partitions:
        one.perform(append(one, tp))
        one.perform(DeleteReplica(tp=tp))
    folder = one.store.root / "trash"
    await one.until(
        lambda: folder.is_dir() and len(list(folder.iterdir())) >= len(partitions), "trash"
    )


def test_a_deleted_log_comes_back_whole_until_its_time_is_over(tmp_path: Path) -> None:
    config = dataclasses.replace(DEFAULTS, trash_retention_ms=1_000)
    loaded: list[HostedPartition] = []

    async def restored(one: Opened) -> None:
        await deleted(one, TP)
        await one.until(lambda: one.store.trash_bytes > 0, "log in the trash")
        await one.store.restore_from_trash(TP, on_restored=loaded.append)
        assert list(one.store.logs) == [TP]
        (found,) = loaded
        assert (found.tp, found.log_end_offset, found.isr) == (TP, 1, ())
        assert (found.leader_epoch, found.partition_epoch, found.term) == (0, 0, NO_TERM)
        for refused in (TP, OTHER):
            with pytest.raises(ProtocolError):
                await one.store.restore_from_trash(refused, on_restored=loaded.append)
        one.perform(DeleteReplica(tp=TP))
        one.now_ms += 1_001
        one.perform(DeleteReplica(tp=OTHER))
        await one.until(lambda: not list((tmp_path / "trash").iterdir()), "trash emptied")
        with pytest.raises(ProtocolError):
            await one.store.restore_from_trash(TP, on_restored=loaded.append)
        assert len(loaded) == 1

    with_store(tmp_path, restored, config=config)


def test_another_retention_of_the_trash_holds_at_once(tmp_path: Path) -> None:
    async def shortened(one: Opened) -> None:
        await deleted(one, TP)
        await one.until(lambda: one.store.trash_bytes > 0, "log in the trash")
        one.now_ms += 1_001
        one.store.change_trash_limits(dataclasses.replace(DEFAULTS, trash_retention_ms=1_000))
        await one.until(lambda: not list((tmp_path / "trash").iterdir()), "trash emptied")

    with_store(tmp_path, shortened)


def told(one: Opened) -> set[TopicPartition]:
    return {each.tp for each in one.trashed[-1]} if one.trashed else set()


def test_what_is_told_of_the_trash_never_lacks_a_log_that_is_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def moved(one: Opened) -> None:
        await deleted(one, TP)
        await one.create(OTHER)
        opened, loop = PartitionLog.open, asyncio.get_running_loop()
        at_the_end: list[set[TopicPartition]] = []

        async def delete_another() -> None:
            one.perform(DeleteReplica(tp=OTHER))
            await one.until(lambda: not (tmp_path / str(OTHER)).exists(), "moved")
            await one.until(lambda: OTHER in told(one), "told of the other log")

        def slow(*args: Any, **kwargs: Any) -> PartitionLog:
            assert not list((tmp_path / "trash").glob(f"{TP}.*"))
            asyncio.run_coroutine_threadsafe(delete_another(), loop).result(10)
            return opened(*args, **kwargs)

        monkeypatch.setattr(PartitionLog, "open", slow)
        await one.store.restore_from_trash(TP, on_restored=lambda _: at_the_end.append(told(one)))
        assert at_the_end == [{TP, OTHER}]
        assert told(one) == {OTHER}

    with_store(tmp_path, moved)


def test_a_replica_that_is_promised_during_a_restore_is_made_and_the_log_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def promised(one: Opened) -> None:
        await deleted(one, TP)
        opened = PartitionLog.open
        token = len(one.persisted) + 1
        loop = asyncio.get_running_loop()

        def slow(*args: Any, **kwargs: Any) -> PartitionLog:
            done = threading.Event()

            def promise() -> None:
                one.perform(persist_state(token, TP))
                done.set()

            loop.call_soon_threadsafe(promise)
            assert done.wait(10)
            return opened(*args, **kwargs)

        monkeypatch.setattr(PartitionLog, "open", slow)
        loaded: list[HostedPartition] = []
        with pytest.raises(ProtocolError, match="TOPIC_ALREADY_EXISTS"):
            await one.store.restore_from_trash(TP, on_restored=loaded.append)
        await one.until(lambda: token in one.persisted, "replica made")
        one.perform(created(TP))
        assert (one.store.logs[TP].log_end_offset, loaded) == (0, [])
        await one.until(lambda: told(one) == {TP}, "the log is in the trash again")

    with_store(tmp_path, promised)


def test_a_log_that_cannot_be_opened_goes_back_into_the_trash(tmp_path: Path) -> None:
    async def refused(one: Opened) -> None:
        await deleted(one, TP)
        (folder,) = (tmp_path / "trash").iterdir()
        (folder / "partition.metadata").write_text("nothing")
        with pytest.raises(ProtocolError, match="KAFKA_STORAGE_ERROR"):
            await one.store.restore_from_trash(TP, on_restored=lambda _: None)
        assert told(one) == {TP}
        assert not (tmp_path / str(TP)).exists()

    with_store(tmp_path, refused)


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


def test_a_writer_that_dies_of_a_bug_is_heard_of(tmp_path: Path) -> None:
    heard: list[object] = []

    async def dying(one: Opened) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: heard.append(context["exception"])
        )
        store = ReplicaStore(
            one.loaded_store,
            config=DEFAULTS,
            wall_time_us=lambda: 0,
            on_persisted=dict[int, None]().__getitem__,
            on_log_start_persisted=lambda _tp, _offset: None,
            on_log_flushed=lambda _tp, _offset: None,
            on_trash_changed=lambda _trashed: None,
            on_failure=one.failures.append,
        )
        store.start()
        store.perform(persist_state(1))
        await one.until(lambda: heard != [], "heard")

    with_store(tmp_path, dying)
    assert [type(error) for error in heard] == [KeyError]


def test_a_replica_made_again_starts_with_a_recovery_point_of_its_own(tmp_path: Path) -> None:
    """The checkpoint still names the offset of the log that was deleted."""

    async def made(one: Opened) -> None:
        await one.create(TP)
        fetched = record_batch.read_fetched(batch([b"v"], leader_epoch=0))
        one.perform(AppendAsFollower(tp=TP, records=RecordsHandle(fetched), batch_count=1))
        await one.store.stop({TP: 1})

    with_store(tmp_path, made)
    assert RecoveryPointCheckpoint(tmp_path).read() == {TP: 1}

    async def deleted_and_made(one: Opened) -> None:
        one.perform(DeleteReplica(tp=TP))
        one.perform(persist_state(2, TP))
        await one.until(lambda: one.persisted == [2], "state on disk")
        one.perform(created(TP))
        assert RecoveryPointCheckpoint(tmp_path).read().get(TP, 0) == 0

    with_store(tmp_path, deleted_and_made)


@pytest.mark.parametrize("flush_messages", [1, 2])
def test_the_flushed_mark_goes_before_the_first_append_that_counts_without_an_fsync(
    tmp_path: Path, flush_messages: int
) -> None:
    async def appended(one: Opened) -> None:
        one.directory.write_flushed_mark(BrokerEpoch(1))
        one.perform(persist_state(1, TP))
        await one.until(lambda: one.persisted == [1], "state on disk")
        one.perform(replace(created(TP), settings=TopicSettings(flush_messages=flush_messages)))
        assert one.directory.read_flushed_mark() == 1
        fetched = record_batch.read_fetched(batch([b"v"], leader_epoch=0))
        one.perform(AppendAsFollower(tp=TP, records=RecordsHandle(fetched), batch_count=1))
        assert one.directory.read_flushed_mark() == (1 if flush_messages == 1 else None)

    with_store(tmp_path, appended)


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
