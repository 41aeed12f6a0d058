"""The work queue: one task at a time for a key, changes are merged, failed keys are retried."""

from __future__ import annotations

import asyncio

import pytest

from strandline_operator.work_queue import Pause, ReconcileKey, WorkQueue
from tests.support.eventually import aeventually

A = ReconcileKey(kind="ReplicatedTopic", name="a")
B = ReconcileKey(kind="ReplicatedTopic", name="b")
LIMIT_MS = 10_000


def test_a_paused_queue_begins_nothing_and_forgets_nothing() -> None:
    async def scenario() -> None:
        begun = []

        async def work(key: ReconcileKey) -> bool:
            begun.append(key)
            return True

        queue = WorkQueue(work)
        queue.pause(Pause.NO_LEASE)
        queue.pause(Pause.OLD_DEFINITIONS)
        running = asyncio.create_task(queue.run())
        queue.add(A)
        for _ in range(10):
            await asyncio.sleep(0)
        assert begun == []
        queue.resume(Pause.OLD_DEFINITIONS)
        for _ in range(10):
            await asyncio.sleep(0)
        assert begun == [], "one reason is left"
        queue.resume(Pause.NO_LEASE)
        await aeventually(lambda: begun == [A], LIMIT_MS, "begun")
        queue.stop()
        await running

    asyncio.run(scenario())


def test_a_key_is_never_worked_on_twice_at_once_and_nothing_is_forgotten() -> None:
    async def scenario() -> None:
        gate, begun, active = asyncio.Event(), [], set()

        async def work(key: ReconcileKey) -> bool:
            assert key not in active
            active.add(key)
            begun.append(key)
            await gate.wait()
            active.discard(key)
            return True

        queue = WorkQueue(work)
        running = asyncio.create_task(queue.run())
        queue.add(A)
        await aeventually(lambda: begun == [A], LIMIT_MS, "begun")
        queue.add(A)
        queue.add(A)
        queue.add(B)
        await aeventually(lambda: begun == [A, B], LIMIT_MS, "another key goes on")
        gate.set()
        await aeventually(lambda: begun == [A, B, A], LIMIT_MS, "the changes gathered")
        queue.stop()
        await running
        assert begun == [A, B, A]

    asyncio.run(scenario())


def test_a_failed_key_is_tried_again() -> None:
    async def scenario() -> None:
        tries: list[ReconcileKey] = []

        async def work(key: ReconcileKey) -> bool:
            tries.append(key)
            return len(tries) == 3

        queue = WorkQueue(work)
        running = asyncio.create_task(queue.run())
        queue.add(A)
        await aeventually(lambda: len(tries) == 3, LIMIT_MS, "third try")
        queue.stop()
        await running

    asyncio.run(scenario())


def test_an_earlier_time_precedes_a_later_one() -> None:
    async def scenario() -> None:
        done: list[ReconcileKey] = []

        async def work(key: ReconcileKey) -> bool:
            done.append(key)
            return True

        queue = WorkQueue(work)
        running = asyncio.create_task(queue.run())
        queue.add(A, after_ms=3_600_000)
        queue.add(A)
        await aeventually(lambda: done == [A], LIMIT_MS, "worked on at once")
        queue.stop()
        await running

    asyncio.run(scenario())


def test_a_bug_ends_the_queue() -> None:
    async def scenario() -> None:
        async def work(key: ReconcileKey) -> bool:
            raise KeyError(key.name)

        queue = WorkQueue(work)
        queue.add(A)
        with pytest.raises(KeyError):
            await asyncio.wait_for(queue.run(), LIMIT_MS / 1000)

    asyncio.run(scenario())
