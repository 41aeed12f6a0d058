"""Rolls, truncations and flushes: what the event loop calls, and what is durable when."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from strandline.core.effects import (
    CreateReplica,
    RestartLogAt,
    TruncateTo,
)
from strandline.errors import ErrorCode
from strandline.log import record_batch
from strandline.log.checkpoint import (
    RecoveryPointCheckpoint,
)
from strandline.log.segment import LOG_SUFFIX, SET_ASIDE_SUFFIX
from strandline.model import (
    BatchSpan,
    TopicPartition,
    TopicSettings,
)
from tests.log.support.batches import batch
from tests.support.disk_calls import DiskCall, disk_calls

from .opened import (
    DEFAULTS,
    TP,
    Opened,
    append,
    held_fsync,
    persist_state,
    with_store,
)

SMALL_CALLS = {"pwritev", "pread", "ftruncate", "open", "rename", "remove"}
"""What the event loop may call on the files of one log: a write to the page cache; a read of at
most `READ_MAX_BYTES`; a cut of one segment; an open for reading or writing; a renaming of a segment
that a truncation takes whole, and the removal of the small files beside a segment."""
READ_MAX_BYTES = 1 << 20


def test_rolls_and_truncations_on_the_event_loop_are_small_calls_of_known_number(
    tmp_path: Path,
) -> None:
    config = dataclasses.replace(DEFAULTS, unflushed_segments_max=2)
    small = CreateReplica(tp=TP, topic_name="orders", settings=TopicSettings(segment_bytes=400))

    async def watched(one: Opened) -> None:
        await one.create(TP)
        one.perform(small)
        log = one.store.logs[TP]
        with disk_calls(tmp_path) as calls:
            for n in range(120):
                one.perform(append(one, TP, sequence=n))
                await asyncio.sleep(0)
            rolls = [call for call in calls if call.name == "create"]
            assert len(rolls) == log.segment_count - 1
            assert {call.name for call in calls} <= SMALL_CALLS | {"create"}
            await one.until(lambda: log.sealed_waiting == 0, "segments flushed")
            await one.until(lambda: log.recovery_point > 0, "recovery point moved")
            for n in range(120, 130):
                one.perform(append(one, TP, sequence=n))
                await one.until(lambda: log.sealed_waiting == 0, "a small segment flushed")
            calls.clear()
            one.perform(TruncateTo(tp=TP, offset=60))
            await one.until(lambda: log.rebuild is None, "producers known")
            assert {call.name for call in calls} <= SMALL_CALLS
            assert all(call.amount <= READ_MAX_BYTES for call in calls if call.name == "pread")
            assert sum(call.name == "ftruncate" for call in calls) <= 1
            assert not removed_segments(calls)
            assert sum(call.name == "rename" for call in calls) > 1
        assert isinstance(log.check_sequence(_header(59)), BatchSpan)
        assert log.check_sequence(_header(60)) is ErrorCode.NONE
        await one.until(lambda: not set_aside(log.folder), "segments taken whole are removed")
        with disk_calls(tmp_path) as calls:
            one.perform(RestartLogAt(tp=TP, offset=60))
            assert not removed_segments(calls)
        await one.until(lambda: not set_aside(log.folder), "all segments are removed")

    with_store(tmp_path, watched, config=config)


def removed_segments(calls: Sequence[DiskCall]) -> list[DiskCall]:
    """Return the removals of records: as long as the disk takes to free them."""
    return [call for call in calls if call.name == "remove" and call.target.endswith(LOG_SUFFIX)]


def set_aside(folder: Path) -> list[Path]:
    return list(folder.glob("*" + SET_ASIDE_SUFFIX))


def test_recovery_points_move_with_time_and_at_each_roll(tmp_path: Path) -> None:
    config = dataclasses.replace(DEFAULTS, flush_checkpoint_interval_ms=100)
    small = CreateReplica(tp=TP, topic_name="orders", settings=TopicSettings(segment_bytes=400))

    async def by_time(one: Opened) -> None:
        await one.create(TP)
        one.perform(append(one, TP))
        await one.until(lambda: read_points() == {TP: 1}, "recovery point of a log written once")

    async def at_rolls(one: Opened) -> None:
        one.perform(small)
        log = one.store.logs[TP]
        while log.segment_count == 1:
            one.perform(append(one, TP))
        await one.until(lambda: read_points()[TP] >= log.log_end_offset - 1, "recovery point")

    def read_points() -> dict[TopicPartition, int]:
        return RecoveryPointCheckpoint(tmp_path).read()

    with_store(tmp_path, by_time, config=config)
    with_store(tmp_path, at_rolls)


def test_no_fetch_leaves_before_the_cut_of_a_log_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(DEFAULTS, flush_checkpoint_interval_ms=100)
    sent: list[int] = []

    async def cut(one: Opened) -> None:
        await one.create(TP)
        one.store.after_cuts(lambda: sent.append(0))
        assert sent == [0]
        for _ in range(3):
            one.perform(append(one, TP))
        await one.until(
            lambda: RecoveryPointCheckpoint(tmp_path).read() == {TP: 3}, "recovery point"
        )
        with held_fsync(monkeypatch, "recovery-point-offset-checkpoint.tmp") as reached:
            one.perform(TruncateTo(tp=TP, offset=1))
            one.store.after_cuts(lambda: sent.append(1))
            await one.until(reached.is_set, "recovery point being lowered")
            one.store.after_cuts(lambda: sent.append(2))
            assert sent == [0]
        await one.until(lambda: len(sent) == 3, "fetches sent")
        assert sent == [0, 1, 2]
        assert RecoveryPointCheckpoint(tmp_path).read() == {TP: 1}

    with_store(tmp_path, cut, config=config)


def test_a_state_is_not_accepted_before_the_cut_of_a_log_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(DEFAULTS, flush_checkpoint_interval_ms=100)

    async def cut(one: Opened) -> None:
        await one.create(TP)
        one.perform(append(one, TP))
        await one.until(
            lambda: RecoveryPointCheckpoint(tmp_path).read() == {TP: 1}, "recovery point"
        )
        with held_fsync(monkeypatch, "recovery-point-offset-checkpoint.tmp") as reached:
            one.perform(RestartLogAt(tp=TP, offset=0))
            one.perform(persist_state(2, TP))
            await one.until(reached.is_set, "recovery point being lowered")
            assert one.persisted == [1]
        await one.until(lambda: one.persisted == [1, 2], "state on disk")

    with_store(tmp_path, cut, config=config)


def _header(sequence: int) -> record_batch.BatchHeader:
    source = batch([b"v"], producer_id=9, producer_epoch=0, base_sequence=sequence)
    return record_batch.parse_header(source)
