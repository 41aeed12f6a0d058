"""Tasks end with their owner, and their errors are reported."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from strandline.runtime.event_loop import begun_tasks
from strandline.runtime.event_loop.begun_tasks import BegunTasks, end_all


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


def test_close_ends_all_tasks() -> None:
    async def scenario() -> None:
        tasks = BegunTasks()
        ended: list[int] = []

        async def work(number: int) -> None:
            try:
                await wait_for_ever()
            finally:
                await asyncio.sleep(0)
                ended.append(number)

        for number in (1, 2):
            tasks.begin(work(number))
        await asyncio.sleep(0)
        tasks.cancel()
        await tasks.close()
        assert sorted(ended) == [1, 2]

    asyncio.run(scenario())


def test_all_done_waits_for_tasks_that_begin_meanwhile() -> None:
    async def scenario() -> None:
        tasks = BegunTasks()
        done: list[str] = []

        async def second() -> None:
            await asyncio.sleep(0)
            done.append("second")

        async def first() -> None:
            await asyncio.sleep(0)
            tasks.begin(second())
            done.append("first")

        tasks.begin(first())
        await tasks.all_done()
        assert done == ["first", "second"]

    asyncio.run(scenario())


def test_unexpected_error_reaches_the_handler_of_the_loop() -> None:
    async def scenario() -> None:
        uncaught: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: uncaught.append(context["exception"]))
        error = OSError("as planned")

        async def fail() -> None:
            raise error

        tasks = BegunTasks()
        tasks.begin(fail())
        await tasks.all_done()
        await asyncio.sleep(0)
        assert uncaught == [error]

    asyncio.run(scenario())


def test_task_that_swallows_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(begun_tasks, "CANCEL_AGAIN_SECONDS", 0)

        async def lose_one() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await wait_for_ever()
            await wait_for_ever()

        task = asyncio.create_task(lose_one())
        await asyncio.sleep(0)
        await end_all([task])
        assert task.cancelled()

    asyncio.run(scenario())


def test_task_that_never_ends_is_reported_and_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(begun_tasks, "CANCEL_AGAIN_SECONDS", 0)
        is_over = asyncio.Event()

        async def go_on() -> None:
            while not is_over.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await is_over.wait()

        task = asyncio.create_task(go_on())
        await asyncio.sleep(0)
        await end_all([task])
        assert caplog.messages == ["task does not end"]
        is_over.set()
        await task

    asyncio.run(scenario())
