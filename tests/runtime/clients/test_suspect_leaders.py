"""A client that asks for a leader that may be dead waits for its successor, for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from strandline.controller_session.metadata_cache import MetadataCache
from strandline.model import BrokerId
from strandline.runtime.clients.suspect_leaders import HELD_MAX_MS, SuspectLeaders
from tests.controller_session.test_metadata_cache import NEW, OTHER, command, update

DEAD, ALIVE = BrokerId(1), BrokerId(0)
LIMIT_SECONDS = 20


def known() -> tuple[MetadataCache, SuspectLeaders]:
    """Return metadata of orders, whose second leader may die, and audit, whose leader may not."""
    cache = MetadataCache("demo", now_ms=lambda: 0)
    suspects = SuspectLeaders(metadata=cache)
    cache.watch(suspects.look_again)
    orders = (command(NEW, partition=each, leader=each) for each in range(2))
    assert cache.apply(update(*orders, command(OTHER, name="audit", leader=ALIVE)))
    return cache, suspects


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_SECONDS))


def begun(suspects: SuspectLeaders, topic_names: Sequence[str] | None) -> asyncio.Future[None]:
    """Begin the wait of a request."""
    settled = suspects.settled(topic_names)
    assert settled is not None
    return asyncio.ensure_future(settled)


async def is_told_at_once(suspects: SuspectLeaders, topic_names: Sequence[str] | None) -> bool:
    """Tell whether a request waits for one turn of the event loop and for nothing else."""
    waits = begun(suspects, topic_names)
    await asyncio.sleep(0)
    assert not waits.done()
    await asyncio.sleep(0)
    is_told = waits.done()
    waits.cancel()
    return is_told


def test_nobody_waits_while_no_leader_is_suspect() -> None:
    async def scenario() -> None:
        _, suspects = known()
        assert await is_told_at_once(suspects, None)
        assert await is_told_at_once(suspects, ["orders"])

    run(scenario)


def test_topics_that_no_suspect_leads_are_told_at_once() -> None:
    async def scenario() -> None:
        _, suspects = known()
        suspects.note_lost(DEAD)
        for names in (["audit"], ["unknown"]):
            assert await is_told_at_once(suspects, names)
        assert suspects.settled([]) is None
        assert not await is_told_at_once(suspects, ["audit", "orders"])

    run(scenario)


def test_a_death_of_the_same_turn_is_known() -> None:
    async def scenario() -> None:
        _, suspects = known()
        waits = begun(suspects, ["orders"])
        suspects.note_lost(DEAD)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waits.done()
        waits.cancel()

    run(scenario)


def test_the_wait_ends_when_the_leader_is_heard_again() -> None:
    async def scenario() -> None:
        _, suspects = known()
        suspects.note_lost(DEAD)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waits = begun(suspects, ["orders"])
        await asyncio.sleep(0)
        suspects.note_heard(DEAD)
        await waits
        assert loop.time() - began < HELD_MAX_MS / 1000
        assert await is_told_at_once(suspects, ["orders"])

    run(scenario)


def test_the_wait_ends_with_the_last_new_leader() -> None:
    async def scenario() -> None:
        cache, suspects = known()
        assert cache.apply(update(command(NEW, partition=2, leader=DEAD)))
        suspects.note_lost(DEAD)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waits = [begun(suspects, names) for names in (None, ["orders"])]
        for partition in (1, 2):
            await asyncio.sleep(0)
            assert not any(wait.done() for wait in waits)
            assert cache.apply(update(command(NEW, partition=partition, leader=ALIVE, pe=1)))
        await asyncio.gather(*waits)
        assert loop.time() - began < HELD_MAX_MS / 1000
        assert await is_told_at_once(suspects, None)

    run(scenario)


def test_the_wait_ends_without_a_new_leader_too() -> None:
    async def scenario() -> None:
        _, suspects = known()
        loop = asyncio.get_running_loop()
        began = loop.time()
        suspects.note_lost(DEAD)
        await begun(suspects, ["orders"])
        assert loop.time() - began >= HELD_MAX_MS / 1000
        # The next one is told at once: the client has to know what there is.
        assert await is_told_at_once(suspects, ["orders"])

    run(scenario)
