"""Syncs behind appends, as `flush.messages` asks: what is told of them, and when."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strandline.core.effects import DeleteReplica, RestartLogAt, TruncateTo
from strandline.errors import LogDirectoryFailed, LogDirectoryFull
from strandline.model import BrokerEpoch, TopicPartition, TopicSettings
from tests.support.disk_calls import disk_calls

from .opened import LIMIT_MS, OTHER, TP, Opened, append, created, persist_state, with_store

FSYNCS = {"fsync", "fdatasync"}


class HeldDisk:
    """Each fdatasync of a segment waits until a test lets it go on; begun counts them.

    They go on in the order in which they began.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._may_finish = 0
        self._changed = threading.Condition()

    def hold(self, fd: int) -> None:
        """Stand for the disk."""
        if Path(os.readlink(f"/proc/self/fd/{fd}")).suffix == ".log":
            with self._changed:
                self.begun += 1
                turn = self.begun
                assert self._changed.wait_for(lambda: self._may_finish >= turn, LIMIT_MS / 1000)
        _FDATASYNC(fd)

    def finish(self, count: int = 1) -> None:
        """Let as many more go on."""
        with self._changed:
            self._may_finish += count
            self._changed.notify_all()


_FDATASYNC = os.fdatasync
ENOUGH = 100


@contextmanager
def held_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldDisk]:
    disk = HeldDisk()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", disk.hold)
        try:
            yield disk
        finally:
            disk.finish(ENOUGH)


async def create(one: Opened, tp: TopicPartition = TP, *, flush_messages: int = 1) -> None:
    """Create a replica whose topic wants fsyncs, and wait until its first sync is told of."""
    token = len(one.persisted) + 1
    one.perform(persist_state(token, tp))
    await one.until(lambda: token in one.persisted, "state on disk")
    configure(one, tp, flush_messages=flush_messages)
    if flush_messages == 1:
        await one.until(lambda: (tp, 0) in one.flushed, "an empty log on disk")
    one.flushed.clear()


def configure(one: Opened, tp: TopicPartition = TP, *, flush_messages: int) -> None:
    settings = TopicSettings(flush_messages=flush_messages)
    one.perform(replace(created(tp), settings=settings))


def test_an_append_makes_no_fsync_on_the_event_loop_and_its_sync_is_told_of(
    tmp_path: Path,
) -> None:
    async def appended(one: Opened) -> None:
        await create(one)
        with disk_calls(tmp_path) as calls:
            for number in range(20):
                one.perform(append(one, TP, sequence=number))
                await one.until(partial(one.flushed.__contains__, (TP, number + 1)), "told")
            assert not [call for call in calls if call.name in FSYNCS]
        assert one.store.logs[TP].recovery_point == 20

    with_store(tmp_path, appended)


def test_one_sync_of_a_log_runs_at_a_time_and_covers_what_was_there_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def appended(one: Opened) -> None:
        await create(one)
        await create(one, OTHER)
        with held_disk(monkeypatch) as disk:
            one.perform(append(one, TP, sequence=0))
            await one.until(lambda: disk.begun == 1, "the first sync has begun")
            one.perform(append(one, TP, sequence=1))
            one.perform(append(one, TP, sequence=2))
            one.perform(append(one, OTHER))
            await one.until(lambda: disk.begun == 2, "the sync of the other log has begun")
            assert one.flushed == []
            disk.finish(2)
            await one.until(lambda: disk.begun == 3, "the next sync has begun")
            await one.until(lambda: (OTHER, 1) in one.flushed, "the other log is told of")
            assert sorted(one.flushed) == [(TP, 1), (OTHER, 1)]
            disk.finish()
            await one.until(lambda: (TP, 3) in one.flushed, "the rest is told of")
        assert disk.begun == 3

    with_store(tmp_path, appended)


@pytest.mark.parametrize("cut", [TruncateTo(tp=TP, offset=1), RestartLogAt(tp=TP, offset=7)])
def test_nothing_is_told_of_a_sync_that_a_cut_has_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: TruncateTo | RestartLogAt
) -> None:
    async def overtaken(one: Opened) -> None:
        await create(one)
        with held_disk(monkeypatch) as disk:
            for number in range(3):
                one.perform(append(one, TP, sequence=number))
            await one.until(lambda: disk.begun == 1, "a sync of three records has begun")
            one.perform(cut)
            # As many records as were there before: their ends alone tell nothing.
            for number in range(3):
                one.perform(append(one, TP, sequence=10 + number))
            end = one.store.logs[TP].log_end_offset
            disk.finish()
            await one.until(lambda: disk.begun == 2, "the next sync has begun")
            assert one.flushed == []
            assert one.store.logs[TP].recovery_point == min(cut.offset, end - 3 if end > 7 else 0)
            disk.finish()
            await one.until(lambda: one.flushed == [(TP, end)], "the records behind the cut")
        assert one.store.logs[TP].recovery_point == end

    with_store(tmp_path, overtaken)


def test_a_log_that_is_made_again_is_synced_though_a_sync_of_its_former_self_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made_again(one: Opened) -> None:
        await create(one)
        with held_disk(monkeypatch) as disk:
            for number in range(3):
                one.perform(append(one, TP, sequence=number))
            await one.until(lambda: disk.begun == 1, "a sync has begun")
            one.perform(DeleteReplica(tp=TP))
            one.perform(persist_state(2, TP))
            await one.until(lambda: 2 in one.persisted, "made again")
            configure(one, flush_messages=1)
            one.perform(append(one, TP))
            disk.finish(ENOUGH)
            await one.until(lambda: (TP, 1) in one.flushed, "the new log is told of")
        assert (TP, 3) not in one.flushed
        assert not one.failures

    with_store(tmp_path, made_again)


def test_a_failed_fsync_fails_the_directory_and_its_records_are_never_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.ENOSPC, "a thin volume has no space for what it took")

    async def failed(one: Opened) -> None:
        await create(one)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", failing)
            one.perform(append(one, TP))
            await one.until(lambda: one.failures != [], "a failure")
        assert "fsync: ENOSPC" in str(one.failures[0])
        assert not isinstance(one.failures[0], LogDirectoryFull)
        with pytest.raises(LogDirectoryFailed):
            one.perform(append(one, TP))
        assert one.flushed == []
        assert one.store.logs[TP].recovery_point == 0

    with_store(tmp_path, failed)


def test_more_than_one_message_is_synced_when_that_many_are_not_on_disk(tmp_path: Path) -> None:
    async def appended(one: Opened) -> None:
        await create(one, flush_messages=3)
        log = one.store.logs[TP]
        for number in range(2):
            one.perform(append(one, TP, sequence=number))
        await asyncio.sleep(0)
        assert log.recovery_point == 0
        one.perform(append(one, TP, sequence=2))
        await one.until(lambda: log.recovery_point == 3, "three records on disk")

    with_store(tmp_path, appended)


def test_settings_that_want_fsyncs_tell_of_what_is_on_disk_already(tmp_path: Path) -> None:
    async def written(one: Opened) -> None:
        await one.create(TP)
        one.perform(append(one, TP))
        await one.store.stop({TP: 1})

    with_store(tmp_path, written)

    async def started(one: Opened) -> None:
        configure(one, flush_messages=1)
        await one.until(lambda: one.flushed == [(TP, 1)], "told of a log that is on disk")

    with_store(tmp_path, started)


def test_the_flushed_mark_goes_when_records_count_that_still_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def configured(one: Opened) -> None:
        await create(one)
        one.directory.write_flushed_mark(BrokerEpoch(1))
        with held_disk(monkeypatch) as disk:
            one.perform(append(one, TP))
            await one.until(lambda: disk.begun == 1, "a sync has begun")
            assert one.directory.read_flushed_mark() == 1
            configure(one, flush_messages=2)
            assert one.directory.read_flushed_mark() is None

    with_store(tmp_path, configured)


def test_a_stop_waits_for_the_sync_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(one: Opened) -> None:
        await create(one)
        with held_disk(monkeypatch) as disk:
            one.perform(append(one, TP))
            await one.until(lambda: disk.begun == 1, "a sync has begun")
            stop = asyncio.create_task(one.store.stop({TP: 0}))
            await asyncio.sleep(0)
            assert not stop.done()
            disk.finish(ENOUGH)
            await stop
        assert one.flushed == [(TP, 1)]

    with_store(tmp_path, stopped)
