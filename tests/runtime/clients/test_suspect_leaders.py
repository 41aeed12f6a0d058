"""A client that asks for a leader that may be dead waits for its successor, for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
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
    cache.watch(suspects.note_metadata)
    orders = (command(NEW, partition=each, leader=each) for each in range(2))
    assert cache.apply(update(*orders, command(OTHER, name="audit", leader=ALIVE)))
    return cache, suspects


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_SECONDS))


def of(held: Awaitable[None] | None) -> Awaitable[None]:
    assert held is not None
    return held


def test_nobody_waits_while_no_leader_is_suspect() -> None:
    async def scenario() -> None:
        _, suspects = known()
        assert suspects.settled(None) is None
        assert suspects.settled(["orders"]) is None

    run(scenario)


def test_topics_that_no_suspect_leads_are_told_at_once() -> None:
    async def scenario() -> None:
        _, suspects = known()
        suspects.note_lost(DEAD)
        assert suspects.settled(["audit"]) is None
        assert suspects.settled(["unknown"]) is None
        assert suspects.settled([]) is None

    run(scenario)


def test_the_wait_ends_with_the_last_new_leader() -> None:
    async def scenario() -> None:
        cache, suspects = known()
        assert cache.apply(update(command(NEW, partition=2, leader=DEAD)))
        suspects.note_lost(DEAD)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waits = [asyncio.ensure_future(of(suspects.settled(names))) for names in (None, ["orders"])]
        for partition in (1, 2):
            await asyncio.sleep(0)
            assert not any(wait.done() for wait in waits)
            assert cache.apply(update(command(NEW, partition=partition, leader=ALIVE, pe=1)))
        await asyncio.gather(*waits)
        assert loop.time() - began < HELD_MAX_MS / 1000
        assert suspects.settled(None) is None

    run(scenario)


def test_the_wait_ends_without_a_new_leader_too() -> None:
    async def scenario() -> None:
        _, suspects = known()
        loop = asyncio.get_running_loop()
        began = loop.time()
        suspects.note_lost(DEAD)
        await of(suspects.settled(["orders"]))
        assert loop.time() - began >= HELD_MAX_MS / 1000
        # The next one is told at once: the client has to know what there is.
        assert suspects.settled(["orders"]) is None

    run(scenario)
