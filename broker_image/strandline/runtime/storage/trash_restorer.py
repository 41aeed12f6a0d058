"""Takes logs back from the trash, one after another, as the controller asks (ADR 0037).

Made by `broker_service`. The controller asks again while a log is in the trash, and a partition
waits here once. The replicas get the log as they get those that a start finds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from strandline.controller_session.effects import RestoreReplicas
from strandline.controller_session.messages import ReplyRestoreReplica
from strandline.core.events import ReplicaLoaded
from strandline.errors import ErrorCode, ProtocolError, StorageError
from strandline.log_fields import fields
from strandline.model import HostedPartition, TopicPartition

from .replica_store import ReplicaStore

_log = logging.getLogger(__name__)


class TrashRestorer:
    """The restores that wait; on_done gets the response to each request, on_failure an error."""

    def __init__(
        self,
        store: ReplicaStore,
        *,
        step_replicas: Callable[[ReplicaLoaded], None],
        on_done: Callable[[ReplyRestoreReplica], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._store = store
        self._step_replicas = step_replicas
        self._on_done = on_done
        self._on_failure = on_failure
        self._waiting: dict[TopicPartition, int] = {}
        """By partition: the request that asked last. The first one is under way."""
        self._wake = asyncio.Event()

    def ask(self, effect: RestoreReplicas) -> None:
        """Restore these partitions when it is their turn."""
        for tp in effect.partitions:
            self._waiting[tp] = effect.request_id
        self._wake.set()

    async def run(self) -> None:
        """Restore what waits, for ever."""
        while True:
            await self._wake.wait()
            while self._waiting:
                tp = next(iter(self._waiting))
                try:
                    error = await self._restore(tp)
                except StorageError as failure:
                    self._on_failure(failure)
                    return
                request_id = self._waiting.pop(tp)
                done = ((tp, error),)
                self._on_done(
                    ReplyRestoreReplica(
                        request_id=request_id, error=ErrorCode.NONE, partitions=done
                    )
                )
            self._wake.clear()

    async def _restore(self, tp: TopicPartition) -> ErrorCode:
        def on_restored(hosted: HostedPartition) -> None:
            self._step_replicas(ReplicaLoaded(hosted=hosted))
            end = hosted.log_end_offset
            _log.info("log restored", extra=fields(partition=str(tp), log_end_offset=end))

        try:
            await self._store.restore_from_trash(tp, on_restored=on_restored)
        except ProtocolError as error:
            _log.warning("log not restored", extra=fields(partition=str(tp), cause=str(error)))
            return error.code
        return ErrorCode.NONE
