"""The shell of the replication core: its driver, which hands each effect to the right part.

Made by `broker_service`. The core sets the order: a disk effect that fails raises out of the list,
so that no message behind it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

from strandline.controller_session.events import CommandPerformed, IsrProposed
from strandline.controller_session.events import Event as SessionEvent
from strandline.core import effects
from strandline.core.events import Event, Ticked
from strandline.core.notices import Notice
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode, InvariantViolation, StorageError
from strandline.runtime.clients.broker_api import BrokerApi
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.event_loop.driver import Driver
from strandline.runtime.observability.notice_reporters import CoreNoticeReporter
from strandline.runtime.storage.replica_store import DiskEffect, ReplicaStore

from .replication_transport import ReplicationTransport


class CoreShell:
    """Runs the replicas of this broker; each applied full state calls on_full_state."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        store: ReplicaStore,
        broker_api: BrokerApi,
        replication_transport: ReplicationTransport,
        step_session: Callable[[SessionEvent], None],
        reporter: CoreNoticeReporter,
        clock: Clock,
        on_full_state: Callable[[], None],
        on_storage_error: Callable[[StorageError], Event],
        on_broken_promise: Callable[[InvariantViolation], None],
    ) -> None:
        self._store = store
        self._broker_api = broker_api
        self._replication_transport = replication_transport
        self._step_session = step_session
        self._reporter = reporter
        self._on_full_state = on_full_state
        self.performers: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys(get_args(DiskEffect), store.perform),
            **dict.fromkeys(get_args(Notice), reporter.report),
            effects.AppendAsLeader: self._append_as_leader,
            effects.DeleteReplica: self._delete_replica,
            effects.ReplyFetch: replication_transport.reply,
            effects.ReplyProduce: broker_api.on_produced,
            effects.ReplyDeleteRecords: broker_api.on_records_deleted,
            effects.SendFetch: self._send_fetch,
            effects.CompleteFetch: broker_api.on_fetch_completed,
            effects.ProposeIsr: self._propose_isr,
            effects.ReplyLeaderAndIsr: self._reply_leader_and_isr,
            effects.ReplyStopReplica: self._reply_stop_replica,
        }
        """What performs an effect, by its type; a search of all types costs more than an effect."""
        self._driver: Driver[Event, effects.Effect] = Driver(
            replicas,
            perform=self._perform,
            tick=Ticked(),
            now_ms=clock.now_ms,
            on_storage_error=on_storage_error,
            on_broken_promise=on_broken_promise,
        )

    def submit(self, event: Event) -> None:
        """Step the replicas with an event."""
        self._driver.submit(event)

    def stop(self) -> None:
        """Take no more events."""
        self._driver.stop()

    def _perform(self, performed: Sequence[effects.Effect]) -> None:
        """Perform in list order; StorageError ends the list."""
        for effect in performed:
            self.performers[type(effect)](effect)

    def _append_as_leader(self, effect: effects.AppendAsLeader) -> None:
        self._store.perform(effect)
        self._broker_api.on_appended(effect)

    def _delete_replica(self, effect: effects.DeleteReplica) -> None:
        self._store.perform(effect)
        self._reporter.replica_deleted(effect.tp)

    def _send_fetch(self, effect: effects.SendFetch) -> None:
        self._store.after_cuts(partial(self._replication_transport.send, effect))

    def _propose_isr(self, effect: effects.ProposeIsr) -> None:
        self._step_session(IsrProposed(proposal=effect))

    def _reply_leader_and_isr(self, effect: effects.ReplyLeaderAndIsr) -> None:
        self._step_session(CommandPerformed(response=effect))
        if effect.full and effect.error is ErrorCode.NONE:
            self._on_full_state()

    def _reply_stop_replica(self, effect: effects.ReplyStopReplica) -> None:
        self._step_session(CommandPerformed(response=effect))
