"""A long tail leaves the disk on a thread, and the partition's next records wait for that."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.core.effects import DeleteReplica, TruncateTo
from strandline.errors import LogDirectoryFailed
from strandline.log.checkpoint import RecoveryPointCheckpoint
from tests.log.support.logs import SMALL_INDEX
from tests.support.disk_calls import disk_calls

from .opened import LIMIT_MS, TP, Opened, append, persist_state, with_store

ALL_TAILS = dataclasses.replace(SMALL_INDEX, cut_at_once_bytes_max=0)
BATCHES = 6


@contextmanager
def held_ftruncate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold every ftruncate until the block ends; yield when one is held."""
    reached, gate, really = threading.Event(), threading.Event(), os.ftruncate

    def held(fd: int, size_bytes: int) -> None:
        reached.set()
        assert gate.wait(LIMIT_MS / 1000)
        really(fd, size_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", held)
        try:
            yield reached
        finally:
            gate.set()


async def filled(one: Opened) -> Path:
    """Fill the log, whose recovery point is not on disk yet, and return its file."""
    await one.create(TP)
    for n in range(BATCHES):
        one.perform(append(one, TP, sequence=n))
    (file,) = one.store.logs[TP].folder.glob("*.log")
    assert not RecoveryPointCheckpoint(one.store.root).read().get(TP)
    return file


def test_a_long_tail_is_cut_off_by_a_thread(tmp_path: Path) -> None:
    async def cut(one: Opened) -> None:
        file = await filled(one)
        log = one.store.logs[TP]
        with disk_calls(tmp_path) as calls:
            one.perform(TruncateTo(tp=TP, offset=2))
            assert "ftruncate" not in {call.name for call in calls}
            await one.until(lambda: file.stat().st_size == log.size_bytes, "tail gone")
            assert not {"ftruncate", "fsync"} & {call.name for call in calls}
            one.perform(append(one, TP, sequence=2))
            assert not {"ftruncate", "fsync"} & {call.name for call in calls}
        assert file.stat().st_size == log.size_bytes

    with_store(tmp_path, cut, limits=ALL_TAILS)


def test_fetches_and_states_wait_until_a_long_tail_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    async def cut(one: Opened) -> None:
        file = await filled(one)
        with held_ftruncate(monkeypatch) as reached:
            one.perform(TruncateTo(tp=TP, offset=2))
            one.store.after_cuts(lambda: sent.append(1))
            one.perform(persist_state(2, TP))
            await one.until(reached.is_set, "tail being cut off")
            one.store.after_cuts(lambda: sent.append(2))
            await asyncio.sleep(0)
            assert (sent, one.persisted) == ([], [1])
        await one.until(lambda: one.persisted == [1, 2], "state on disk")
        assert sent == [1, 2]
        assert file.stat().st_size == one.store.logs[TP].size_bytes

    with_store(tmp_path, cut, limits=ALL_TAILS)


def test_a_log_may_be_deleted_while_its_tail_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(one: Opened) -> None:
        await filled(one)
        with held_ftruncate(monkeypatch) as reached:
            one.perform(TruncateTo(tp=TP, offset=2))
            await one.until(reached.is_set, "tail being cut off")
            one.perform(DeleteReplica(tp=TP))
        await one.create(TP)
        one.perform(append(one, TP))
        assert one.store.logs[TP].log_end_offset == 1
        assert one.failures == []

    with_store(tmp_path, cut, limits=ALL_TAILS)


def test_a_tail_that_cannot_be_cut_off_fails_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(one: Opened) -> None:
        await filled(one)

        def broken(_fd: int, _size_bytes: int) -> None:
            raise OSError(5, "input/output error")

        sent: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", broken)
            one.perform(TruncateTo(tp=TP, offset=2))
            one.store.after_cuts(lambda: sent.append(1))
            await one.until(lambda: bool(one.failures), "failure")
        assert isinstance(one.failures[0], LogDirectoryFailed)
        assert sent == []

    with_store(tmp_path, cut, limits=ALL_TAILS)


def test_an_orderly_stop_cuts_the_tail_off(tmp_path: Path) -> None:
    async def cut(one: Opened) -> None:
        file = await filled(one)
        one.perform(TruncateTo(tp=TP, offset=2))
        log = one.store.logs[TP]
        await one.store.stop({TP: 0})
        assert file.stat().st_size == log.size_bytes

    with_store(tmp_path, cut, limits=ALL_TAILS)


def test_a_killed_broker_has_no_record_of_the_tail_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk while a thread is about to cut the tail off is what a kill would leave."""
    running, killed = tmp_path / "running", tmp_path / "killed"
    running.mkdir()

    async def cut(one: Opened) -> None:
        file = await filled(one)
        with held_ftruncate(monkeypatch) as reached:
            one.perform(TruncateTo(tp=TP, offset=2))
            await one.until(reached.is_set, "tail being cut off")
            shutil.copytree(running, killed)
            copied = killed / file.relative_to(running)
            assert copied.stat().st_size > one.store.logs[TP].size_bytes

    async def again(one: Opened) -> None:
        assert one.loaded.hosted[0].log_end_offset == 2
        assert not one.loaded.lost
        one.perform(append(one, TP, sequence=2))
        assert one.store.logs[TP].log_end_offset == 3

    with_store(running, cut, limits=ALL_TAILS)
    with_store(killed, again)
