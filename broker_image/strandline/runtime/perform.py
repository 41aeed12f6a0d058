"""Performs the effects of the replication core, each by the part that can.

Order is the core's: a disk effect that fails raises out of the list, so that no
message behind it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from strandline.controller_session.events import CommandPerformed, IsrProposed
from strandline.core.effects import (
    CompleteFetch,
    DeleteReplica,
    Effect,
    Notice,
    ProposeIsr,
    ReplyFetch,
    ReplyLeaderAndIsr,
    ReplyProduce,
    ReplyStopReplica,
    SendFetch,
)
from strandline.errors import ErrorCode

from .broker_api import BrokerApi
from .controller_session_shell import ControllerSessionShell
from .notice_reporters import CoreNoticeReporter
from .record_buffers import RecordBuffers
from .replica_store import DiskEffect, ReplicaStore
from .replication_transport import ReplicationTransport


class CorePerformer:
    """The shell of the core; on_full_state is called when the first full state was applied."""

    def __init__(
        self,
        *,
        store: ReplicaStore,
        record_buffers: RecordBuffers,
        broker_api: BrokerApi,
        replication_transport: ReplicationTransport,
        controller_session: ControllerSessionShell,
        reporter: CoreNoticeReporter,
        on_full_state: Callable[[], None],
    ) -> None:
        self._store = store
        self._record_buffers = record_buffers
        self._broker_api = broker_api
        self._replication_transport = replication_transport
        self._controller_session = controller_session
        self._reporter = reporter
        self._on_full_state = on_full_state

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform in list order; StorageError ends the list."""
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self._store.perform(effect, self._record_buffers)
                if isinstance(effect, DeleteReplica):
                    self._reporter.replica_deleted(effect.tp)
            elif isinstance(effect, Notice):
                self._reporter.report(effect)
            else:
                self._talk(effect)

    def _talk(
        self,
        effect: ReplyProduce
        | CompleteFetch
        | ReplyFetch
        | SendFetch
        | ProposeIsr
        | ReplyLeaderAndIsr
        | ReplyStopReplica,
    ) -> None:
        match effect:
            case ReplyFetch():
                self._replication_transport.reply(effect)
            case ReplyProduce():
                self._broker_api.on_produced(effect)
            case SendFetch():
                self._replication_transport.send(effect)
            case CompleteFetch():
                self._broker_api.on_fetch_completed(effect)
            case ProposeIsr():
                self._controller_session.submit(IsrProposed(proposal=effect))
            case ReplyLeaderAndIsr():
                self._controller_session.submit(CommandPerformed(response=effect))
                if effect.full and effect.error is ErrorCode.NONE:
                    self._on_full_state()
            case ReplyStopReplica():
                self._controller_session.submit(CommandPerformed(response=effect))
            case _:
                assert_never(effect)
