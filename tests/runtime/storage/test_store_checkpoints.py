"""The order of checkpoints: what waits for a log start, and what a log start waits for."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from strandline.core.effects import (
    DeleteReplica,
    PersistLogStart,
    RestartLogAt,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    LogStartCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.model import EpochStart, LeaderEpoch, TopicPartition

from .opened import OTHER, TP, Opened, append, held_fsync, with_store

FILE = "log-start-offset-checkpoint.tmp"


def on_disk(root: Path) -> dict[TopicPartition, int]:
    return {tp: at.start_offset for tp, at in LogStartCheckpoint(root).read().items()}


def has(checkpoint: EpochCheckpoint, epochs: tuple[EpochStart, ...]) -> bool:
    return checkpoint.read() == epochs


def test_a_take_over_waits_for_no_fsync_of_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each replica has a file of its own, which no start needs (ADR 0011)."""
    taken = [TopicPartition(topic_id=TP.topic_id, partition=number) for number in range(20)]
    epochs = (EpochStart(leader_epoch=LeaderEpoch(1), start_offset=0),)
    synced: list[str] = []

    def note(really: Callable[[int], None], fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        really(fd)

    async def taking_over(one: Opened) -> None:
        await one.create(*taken)
        folders = [one.store.logs[tp].folder for tp in taken]
        with monkeypatch.context() as patch:
            for name in ("fsync", "fdatasync"):
                patch.setattr(os, name, partial(note, getattr(os, name)))
            for tp in taken:
                one.perform(WriteEpochCheckpoint(tp=tp, epochs=epochs))
            for folder in folders:
                checkpoint = EpochCheckpoint(folder)
                await one.until(partial(has, checkpoint, epochs), "epochs written")
        assert synced == []

    with_store(tmp_path, taking_over)


async def begun_at(one: Opened, offset: int) -> None:
    """Have a log of four batches that begins at an offset, also on disk."""
    await one.create(TP)
    for _ in range(4):
        one.perform(append(one, TP))
    one.store.perform(PersistLogStart(tp=TP, offset=offset))
    await one.until(lambda: one.log_starts == [(TP, offset)], "log start told of")


def test_a_log_start_on_a_full_volume_is_told_of_once_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    really = os.open

    def full_once(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).name == FILE and not refused:
            refused.append(FILE)
            raise OSError(errno.ENOSPC, "full")
        return really(path, flags, mode)

    async def full(one: Opened) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", full_once)
            await begun_at(one, 3)
        assert (refused, one.failures, on_disk(tmp_path)) == ([FILE], [], {TP: 3})

    with_store(tmp_path, full)


def test_no_fetch_leaves_before_the_start_of_a_log_that_began_anew_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    async def anew(one: Opened) -> None:
        await begun_at(one, 3)
        with held_fsync(monkeypatch, FILE) as reached:
            one.store.perform(RestartLogAt(tp=TP, offset=1))
            one.store.after_cuts(lambda: sent.append(1))
            await one.until(reached.is_set, "log start being lowered")
            assert sent == []
        await one.until(lambda: sent == [1], "fetch sent")
        assert on_disk(tmp_path) == {TP: 1}

    with_store(tmp_path, anew)

    async def later(one: Opened) -> None:
        log = one.store.logs[TP]
        assert (log.log_start_offset, log.log_end_offset, one.loaded.lost) == (1, 1, [])

    with_store(tmp_path, later)


def test_a_start_that_a_log_gave_up_meanwhile_is_not_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def anew(one: Opened) -> None:
        await begun_at(one, 2)
        with held_fsync(monkeypatch, FILE) as reached:
            one.store.perform(PersistLogStart(tp=TP, offset=4))
            await one.until(reached.is_set, "log start being written")
            one.store.perform(RestartLogAt(tp=TP, offset=0))
        await one.until(lambda: on_disk(tmp_path) == {}, "log start lowered")
        assert one.log_starts == [(TP, 2)]

    with_store(tmp_path, anew)


def test_a_replica_made_again_begins_at_its_own_start(tmp_path: Path) -> None:
    """The checkpoint still names the start of the log that was deleted."""

    async def made(one: Opened) -> None:
        await begun_at(one, 3)
        one.perform(DeleteReplica(tp=TP))
        await one.create(OTHER, TP)
        assert on_disk(tmp_path) == {}
        assert RecoveryPointCheckpoint(tmp_path).read().get(TP, 0) == 0

    with_store(tmp_path, made)

    async def later(one: Opened) -> None:
        assert (one.store.logs[TP].log_start_offset, one.loaded.lost) == (0, [])

    with_store(tmp_path, later)


def test_a_replica_made_again_is_not_below_the_high_watermark_of_its_former_log(
    tmp_path: Path,
) -> None:
    marks = HighWatermarkCheckpoint(tmp_path)

    async def made(one: Opened) -> None:
        await one.create(TP, OTHER)
        one.perform(append(one, TP))
        one.perform(WriteHighWatermarkCheckpoint(high_watermarks=((OTHER, 0), (TP, 1))))
        await one.until(lambda: marks.read() == {OTHER: 0, TP: 1}, "high watermarks on disk")
        one.perform(DeleteReplica(tp=TP))
        await one.create(TP)
        assert marks.read() == {OTHER: 0}

    with_store(tmp_path, made)


def test_a_kill_while_a_replica_is_made_again_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start must not take the log that is yet to be made for one that lost its records."""
    root = tmp_path / "root"
    root.mkdir()
    marks = HighWatermarkCheckpoint(root)
    copies: list[Path] = []

    async def made(one: Opened) -> None:
        await one.create(TP)
        one.perform(append(one, TP))
        one.perform(WriteHighWatermarkCheckpoint(high_watermarks=((TP, 1),)))
        await one.until(lambda: marks.read() == {TP: 1}, "high watermark on disk")
        folder = one.store.logs[TP].folder
        one.perform(DeleteReplica(tp=TP))
        await one.until(lambda: not folder.exists(), "log in the trash")
        with copied_before_every_fsync(monkeypatch, root, copies):
            await one.create(TP)

    with_store(root, made)
    assert len(copies) > 3

    async def later(one: Opened) -> None:
        assert one.loaded.lost == []

    for each in copies:
        with_store(each, later)


@contextmanager
def copied_before_every_fsync(
    monkeypatch: pytest.MonkeyPatch, root: Path, copies: list[Path]
) -> Iterator[None]:
    """Have the files beside this folder that a process leaves that is killed at an fsync."""
    really = os.fsync

    def copied(fd: int) -> None:
        copies.append(shutil.copytree(root, root.with_name(f"copy-{len(copies)}")))
        really(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", copied)
        yield
