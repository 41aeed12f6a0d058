"""One look at all logs: the leader lets its log begin later; segments are closed and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from strandline.core.effects import AppendAsLeader, Effect
from strandline.core.events import Event, LogStartPersisted, RecordsHandle, RetentionReached
from strandline.log.record_batch import read_client_batch
from strandline.model import TopicSettings
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.storage.replica_store import DiskEffect
from strandline.runtime.storage.retention_check import RetentionCheck
from tests.core.samples import Core, command, entries, leader_and_isr, produced, state
from tests.log.support.batches import batch

from .opened import TP, Opened, with_store

WRITTEN_MS = 1_700_000_000_000
"""The timestamp of the records."""
KEPT_MS = 3_600_000
DAY_MS = 86_400_000
BY_AGE = TopicSettings(segment_bytes=300, retention_ms=KEPT_MS, file_delete_delay_ms=0)


@dataclass
class FixedClock(Clock):
    ms: int

    def wall_time_us(self) -> int:
        return self.ms * 1000


class Checked:
    """A broker that leads or follows one partition, and its retention check."""

    def __init__(self, one: Opened) -> None:
        self.one = one
        self.core = Core()
        self.submitted: list[Event] = []
        self.clock = FixedClock(WRITTEN_MS)
        self.check = RetentionCheck(
            replicas=self.core.replicas,
            store=one.store,
            clock=self.clock,
            submit=self.submit,
            on_failure=one.failures.append,
            interval_ms=1,
        )

    async def host(self, settings: TopicSettings, *, leader: int = 0) -> None:
        """Host a partition that this broker alone has, or follows."""
        await self.one.create(TP)
        replicas = (0,) if leader == 0 else (0, leader)
        committed = state(leader, isr=entries(leader), replicas=replicas)
        self.perform(self.core.step(leader_and_isr(command(committed, tp=TP, settings=settings))))

    def produce(self, count: int) -> None:
        for number in range(count):
            self.perform(self.core.step(produced(number, tp=TP)))

    def perform(self, effects: list[Effect]) -> None:
        records = RecordsHandle(read_client_batch(batch([b"v" * 50])))
        for effect in effects:
            if isinstance(effect, AppendAsLeader):
                self.one.store.perform(replace(effect, records=records))
            elif isinstance(effect, DiskEffect):
                self.one.store.perform(effect)

    def submit(self, event: Event) -> None:
        self.submitted.append(event)
        self.perform(self.core.step(event))

    async def look(self, *, at_ms: int) -> None:
        self.clock.ms = at_ms
        await self.check.check_all()

    async def begins_at(self, offset: int) -> None:
        """Wait until the log start is on disk, and tell the core."""
        await self.one.until(lambda: (TP, offset) in self.one.log_starts, "log start on disk")
        self.submit(LogStartPersisted(tp=TP, offset=offset))


def with_check(tmp_path: Path, scenario: Callable[[Checked], Awaitable[None]]) -> None:
    async def run(one: Opened) -> None:
        await scenario(Checked(one))
        await one.store.stop({})

    with_store(tmp_path, run)


def test_a_leaders_log_ages_out_whole_and_begins_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario(checked: Checked) -> None:
        await checked.host(BY_AGE)
        checked.produce(5)
        await checked.look(at_ms=WRITTEN_MS + KEPT_MS)
        assert checked.submitted == []
        await checked.look(at_ms=WRITTEN_MS + KEPT_MS + 1)
        assert checked.submitted == [RetentionReached(tp=TP, offset=5)]
        log = checked.one.store.logs[TP]
        assert (log.log_start_offset, log.segment_count) == (5, 4)
        await checked.begins_at(5)
        assert (log.segment_count, log.size_bytes) == (1, 0)

    with_check(tmp_path, scenario)

    async def later(one: Opened) -> None:
        log = one.store.logs[TP]
        assert (log.log_start_offset, log.log_end_offset) == (5, 5)

    with_store(tmp_path, later)


def test_a_follower_decides_nothing(
    tmp_path: Path,
) -> None:
    async def scenario(checked: Checked) -> None:
        await checked.host(BY_AGE, leader=1)
        log = checked.one.store.logs[TP]
        for offset in range(5):
            part = read_client_batch(batch([b"v" * 50]))
            log.append_as_leader(part, base_offset=offset, leader_epoch=state().leader_epoch)
        await checked.look(at_ms=WRITTEN_MS + 10 * KEPT_MS)
        assert (checked.submitted, log.log_start_offset) == ([], 0)

    with_check(tmp_path, scenario)


def test_files_of_deleted_segments_stay_for_the_topics_delay(tmp_path: Path) -> None:
    async def scenario(checked: Checked) -> None:
        long = replace(BY_AGE, file_delete_delay_ms=604_800_000)
        await checked.host(long)
        checked.produce(5)
        await checked.look(at_ms=WRITTEN_MS + KEPT_MS + 1)
        await checked.begins_at(5)
        folder = checked.one.store.logs[TP].folder
        assert len(list(folder.glob("*.deleted"))) == 3
        checked.core.step(leader_and_isr(command(state(replicas=(0,), isr=entries(0)), tp=TP)))

    with_check(tmp_path, scenario)

    async def later(one: Opened) -> None:
        assert list(one.store.logs[TP].folder.glob("*.deleted")) == []

    with_store(tmp_path, later)


def test_files_are_removed_when_the_delay_is_over(tmp_path: Path) -> None:
    async def scenario(checked: Checked) -> None:
        await checked.host(BY_AGE)
        checked.produce(5)
        await checked.look(at_ms=WRITTEN_MS + KEPT_MS + 1)
        await checked.begins_at(5)
        folder = checked.one.store.logs[TP].folder
        await checked.one.until(lambda: not list(folder.glob("*.deleted")), "files removed")
        assert checked.one.failures == []

    with_check(tmp_path, scenario)


@pytest.mark.parametrize("at_ms", [0, 1 << 62])
def test_a_topic_without_a_retention_keeps_everything(tmp_path: Path, at_ms: int) -> None:
    async def scenario(checked: Checked) -> None:
        await checked.host(TopicSettings(segment_bytes=300))
        checked.produce(5)
        await checked.look(at_ms=at_ms)
        assert checked.submitted == []
        assert checked.one.store.logs[TP].log_start_offset == 0

    with_check(tmp_path, scenario)


def test_another_interval_causes_a_look_at_once(tmp_path: Path) -> None:
    async def scenario(checked: Checked) -> None:
        await checked.host(BY_AGE)
        checked.produce(5)
        checked.clock.ms = WRITTEN_MS + KEPT_MS + 1
        checked.check.change_interval(DAY_MS)
        looking = asyncio.create_task(checked.check.run())
        await checked.one.until(lambda: bool(checked.submitted), "a look long before its time")
        looking.cancel()

    with_check(tmp_path, scenario)
