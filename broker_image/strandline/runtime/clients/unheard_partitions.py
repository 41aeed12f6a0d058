"""Partitions that a client knows and this broker does not yet: who asks for their offsets waits.

The controller tells all brokers of a new topic together, and each takes the news in its own time.
So a client that another broker told may ask the leader before the leader has heard of the topic.
librdkafka takes UNKNOWN_TOPIC_OR_PARTITION in a ListOffsets response for final and goes to where
auto.offset.reset points: by default past all records. `BrokerApi` waits for the news (ADR 0080).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from strandline.controller_session.metadata_cache import MetadataCache

AWAITED_MAX_MS: Final = 1_000
"""A partition without news by then does not exist, or the controller cannot reach this broker."""


@dataclass(slots=True, kw_only=True, eq=False)
class UnheardPartitions:
    """Waits of requests for partitions that this broker has not heard of."""

    metadata: MetadataCache
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def look_again(self) -> None:
        """Let those who wait look once more: the metadata changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def heard(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Wait until all these partitions are known, AWAITED_MAX_MS at most.

        Shape:   topic name and partition of each
        """
        left = list(partitions)
        with suppress(TimeoutError):
            async with asyncio.timeout(AWAITED_MAX_MS / 1000):
                while left:
                    if self.metadata.resolve(*left[-1]) is None:
                        await self._changed.wait()
                    else:
                        left.pop()
