"""Leaders that a connection just broke to: who asks for one of them waits for its successor.

A client loses its connection to a dead leader at once and asks for metadata 0.3 ms later, long
before the controller has elected another. Told the old leader again, it asks no more for a second
or longer. So `BrokerApi` holds the response while a leader that it would name is suspect: until the
new one is known, HELD_MAX_MS at most (ADR 0076). A suspicion is a hint for clients and decides
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from strandline.controller_session.metadata_cache import MetadataCache
from strandline.model import BrokerId

HELD_MAX_MS: Final = 1_000
"""From the break of a connection: by then most leaders have a successor, or the clients' own timers
are as good."""


@dataclass(slots=True, kw_only=True, eq=False)
class SuspectLeaders:
    """The brokers that this one lost in the last HELD_MAX_MS, and has not heard of since."""

    metadata: MetadataCache
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _until: dict[BrokerId, float] = field(default_factory=dict, init=False)
    """Time of the event loop in seconds, by broker."""

    def note_lost(self, broker_id: BrokerId) -> None:
        """Note that the connection to a broker, which had responded on it, broke just now."""
        self._until[broker_id] = asyncio.get_running_loop().time() + HELD_MAX_MS / 1000

    def note_heard(self, broker_id: BrokerId) -> None:
        """Note that a broker responded on a new connection: it did not die."""
        if self._until.pop(broker_id, None) is not None:
            self.look_again()

    def look_again(self) -> None:
        """Let those who wait look once more: the metadata, or the suspects, changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def settled(self, topic_names: Sequence[str] | None) -> Awaitable[None] | None:
        """Return what ends when no suspect leads these topics, None for a client that names none.

        Mostly that is one turn of the event loop. In this turn the loop learns of a death that a
        client noticed first: the kernel ends the connections of a process one after the other.

        Shape:   topic_names None means all topics
        """
        names_none = topic_names is not None and not topic_names
        return None if names_none else self._wait(topic_names)

    async def _wait(self, topic_names: Sequence[str] | None) -> None:
        await asyncio.sleep(0)
        while suspects := self._suspects_of(topic_names):
            until = max(self._until[each] for each in suspects)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._changed.wait()

    def _suspects_of(self, topic_names: Sequence[str] | None) -> frozenset[BrokerId]:
        now = asyncio.get_running_loop().time()
        for broker_id in [each for each, until in self._until.items() if until <= now]:
            del self._until[broker_id]
        if not self._until:
            return frozenset()
        return self.metadata.leaders_of(topic_names) & self._until.keys()
