"""A queue of keys: one worker at a time works on a key; a change meanwhile queues the key again.

Bounded, because a key waits at most once. A failed key comes back after a pause that doubles, with
jitter, so that many objects do not come back together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

from . import operator_config


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReconcileKey:
    """An object to reconcile: kind is BrokerCluster or ReplicatedTopic."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Pause(Enum):
    """Why a queue begins no work."""

    NO_LEASE = auto()
    """Another operator has the Lease, or none."""
    OLD_DEFINITIONS = auto()
    """The API server would drop fields of what is written."""


class WorkQueue:
    """Keys, each with the time from which a worker may take it; lives on one event loop."""

    def __init__(
        self,
        work: Callable[[ReconcileKey], Coroutine[Any, Any, bool]],
        *,
        on_begun: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Take the function that works on a key and tells whether it succeeded.

        on_begun hears how many seconds after its time a key's work began.
        """
        self._work = work
        self._on_begun = on_begun
        self._due: dict[ReconcileKey, float] = {}
        self._running: dict[ReconcileKey, asyncio.Task[bool]] = {}
        self._failures: dict[ReconcileKey, int] = {}
        self._changed = asyncio.Event()
        self._bug: BaseException | None = None
        self._stopping = False
        self._pauses: set[Pause] = set()

    def pause(self, why: Pause) -> None:
        """Begin no work until `resume`; what runs goes on, and keys are still queued."""
        self._pauses.add(why)

    @property
    def length(self) -> int:
        """Return how many keys wait."""
        return len(self._due)

    @property
    def has_lease(self) -> bool:
        """Tell whether this operator is the one that works, now or once definitions are new."""
        return Pause.NO_LEASE not in self._pauses

    def resume(self, why: Pause) -> None:
        """Begin work again, unless another reason keeps it."""
        self._pauses.discard(why)
        self._changed.set()

    def add(self, key: ReconcileKey, *, after_ms: int = 0) -> None:
        """Queue a key for after a pause; if it waits already, the earlier time holds."""
        due = asyncio.get_running_loop().time() + after_ms / 1000
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    async def run(self) -> None:
        """Work until `stop`; then wait for the running work.

        Raises:  any error of the work itself: a bug must end the process, not one object
        """
        loop = asyncio.get_running_loop()
        while not self._stopping:
            self._changed.clear()
            for key in self._next_keys(loop.time()):
                self._on_begun(max(0.0, loop.time() - self._due.pop(key)))
                task = asyncio.create_task(self._work(key))
                self._running[key] = task
                task.add_done_callback(partial(self._finished, key))
            await self._wait(loop.time())
            if self._bug is not None:
                raise self._bug
        if self._running:
            await asyncio.wait(list(self._running.values()))

    def stop(self) -> None:
        """Begin no more work."""
        self._stopping = True
        self._changed.set()

    def _next_keys(self, now: float) -> list[ReconcileKey]:
        free = 0 if self._pauses else operator_config.WORKERS - len(self._running)
        due = [(at, key) for key, at in self._due.items() if at <= now]
        ready = [key for _, key in sorted(due) if key not in self._running]
        return ready[: max(0, free)]

    async def _wait(self, now: float) -> None:
        """Wait for a change, or for the next key's time if a worker is free for it."""
        waiting = [at for key, at in self._due.items() if key not in self._running]
        full = bool(self._pauses) or len(self._running) >= operator_config.WORKERS
        timeout = None if full or not waiting else max(0.0, min(waiting) - now)
        # Not `wait_for`, which makes a task: kopf cancels every task that began beside it.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def _finished(self, key: ReconcileKey, task: asyncio.Task[bool]) -> None:
        del self._running[key]
        self._changed.set()
        if task.cancelled():
            return
        if task.exception() is not None:
            self._bug = task.exception()
        elif task.result():
            self._failures.pop(key, None)
        else:
            self._failures[key] = self._failures.get(key, 0) + 1
            pause_ms = operator_config.BACKOFF.after_ms(self._failures[key])
            self.add(key, after_ms=int(pause_ms * random.uniform(0.5, 1.0)))
