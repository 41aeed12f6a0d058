"""Looks at every log of the broker from time to time: closes segments, and has old ones deleted.

Run by `broker_service`. The leader alone decides where a log begins (ADR 0035); every replica
closes its active segment and deletes what lies below the log start. Between two logs other work of
the event loop gets its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from strandline.core.events import Event, RetentionReached
from strandline.core.replicas import Replicas
from strandline.core.views import RoleName
from strandline.errors import StorageError
from strandline.log.partition_log import PartitionLog
from strandline.model import TopicPartition
from strandline.runtime.event_loop.clock import Clock

from .replica_store import ReplicaStore


@dataclass(slots=True, kw_only=True)
class RetentionCheck:
    """One pass over all logs each log.retention.check.interval.ms."""

    replicas: Replicas
    store: ReplicaStore
    clock: Clock
    submit: Callable[[Event], None]
    on_failure: Callable[[StorageError], None]
    interval_ms: int
    _active_since: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def change_interval(self, interval_ms: int) -> None:
        """Check soon, and then at another interval."""
        if interval_ms != self.interval_ms:
            self.interval_ms = interval_ms
            self._wake.set()

    async def run(self) -> None:
        """Check all logs for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.interval_ms / 1000):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.check_all()
            except StorageError as error:
                self.on_failure(error)
                return

    async def check_all(self) -> None:
        """Check each log once."""
        logs = dict(self.store.logs)
        self._active_since = {tp: at for tp, at in self._active_since.items() if tp in logs}
        for tp, log in logs.items():
            is_more_left = True
            while is_more_left:
                is_more_left = self._check(tp, log)
                await asyncio.sleep(0)

    def _check(self, tp: TopicPartition, log: PartitionLog) -> bool:
        """Check one log; return whether more of its segments may be left to delete."""
        view = self.replicas.view(tp)
        is_active = view is not None and view.role not in {RoleName.IDLE, RoleName.FAILED}
        if view is None or not is_active or self.store.logs.get(tp) is not log:
            return False
        now_ms, high_watermark = self.clock.wall_time_us() // 1000, view.high_watermark
        base_offset, since_ms = self._active_since.get(tp, (-1, now_ms))
        if base_offset != log.active_base_offset:
            since_ms = now_ms
        self._active_since[tp] = (log.active_base_offset, since_ms)
        log.roll_if_due(high_watermark=high_watermark, active_since_ms=since_ms, now_ms=now_ms)
        is_more_left = self.store.after_check(tp)
        if view.role is RoleName.LEADER:
            offset = log.start_by_retention(high_watermark=high_watermark, now_ms=now_ms)
            if offset > view.log_start_offset:
                self.submit(RetentionReached(tp=tp, offset=offset))
        return is_more_left
