"""Deletions of records that clients asked for and that wait for the replicas.

Used by `BrokerApi` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from strandline.broker_interface import DeletedRecords
from strandline.core.effects import ReplyDeleteRecords
from strandline.core.events import DeleteRecordsReceived, Event
from strandline.errors import ErrorCode
from strandline.model import TopicPartition


@dataclass(slots=True, kw_only=True)
class RecordDeletions:
    """The deletions in flight, by request id; the core bounds how many wait."""

    submit: Callable[[Event], None]
    next_request_id: Callable[[], int]
    _waiting: dict[int, asyncio.Future[DeletedRecords]] = field(default_factory=dict, init=False)

    def delete(
        self, tp: TopicPartition | None, offset: int, *, timeout_ms: int
    ) -> Awaitable[DeletedRecords]:
        """Hand a deletion to the core; tp is None for a partition that this broker knows not."""
        done = asyncio.get_running_loop().create_future()
        if tp is None:
            done.set_result(DeletedRecords(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return done
        request_id = self.next_request_id()
        self._waiting[request_id] = done
        self.submit(
            DeleteRecordsReceived(
                request_id=request_id, tp=tp, offset=offset, timeout_ms=timeout_ms
            )
        )
        return done

    def on_deleted(self, effect: ReplyDeleteRecords) -> None:
        """Take the core's response."""
        done = self._waiting.pop(effect.request_id)
        if not done.done():
            done.set_result(DeletedRecords(error=effect.error, low_watermark=effect.low_watermark))
