"""A client that asks for offsets of a partition before its leader heard of it waits, a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from strandline.controller_session.metadata_cache import MetadataCache
from strandline.runtime.clients.unheard_partitions import AWAITED_MAX_MS, UnheardPartitions
from tests.controller_session.test_metadata_cache import NEW, OTHER, command, update

LIMIT_SECONDS = 20
FIRST, SECOND, AUDIT = ("orders", 0), ("orders", 1), ("audit", 0)


def run(scenario: Callable[[MetadataCache, UnheardPartitions], Coroutine[Any, Any, None]]) -> None:
    cache = MetadataCache("demo", now_ms=lambda: 0)
    unheard = UnheardPartitions(metadata=cache)
    cache.watch(unheard.look_again)
    asyncio.run(asyncio.wait_for(scenario(cache, unheard), LIMIT_SECONDS))


def test_the_wait_ends_with_the_last_partition() -> None:
    async def scenario(cache: MetadataCache, unheard: UnheardPartitions) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        wait = asyncio.ensure_future(unheard.heard([FIRST, SECOND, AUDIT]))
        for news in (
            command(NEW, partition=0),
            command(OTHER, name="audit"),
            command(NEW, partition=1),
        ):
            await asyncio.sleep(0)
            assert not wait.done()
            assert cache.apply(update(news))
        await wait
        assert loop.time() - began < AWAITED_MAX_MS / 1000

    run(scenario)


def test_what_is_known_is_not_awaited() -> None:
    async def scenario(cache: MetadataCache, unheard: UnheardPartitions) -> None:
        assert cache.apply(update(command(NEW)))
        wait = asyncio.ensure_future(unheard.heard([FIRST]))
        await asyncio.sleep(0)
        assert wait.done()

    run(scenario)


def test_the_wait_ends_without_news_too() -> None:
    async def scenario(cache: MetadataCache, unheard: UnheardPartitions) -> None:
        assert cache.apply(update(command(NEW)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await unheard.heard([FIRST, SECOND])
        assert loop.time() - began >= AWAITED_MAX_MS / 1000

    run(scenario)
