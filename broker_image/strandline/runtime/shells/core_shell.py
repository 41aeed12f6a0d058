"""The shell of the replication core: its driver, which hands each effect to the right part.

Made by `broker_service`. The core sets the order: a disk effect that fails raises out of the list,
so that no message behind it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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

Message = (
    effects.ReplyProduce
    | effects.ReplyDeleteRecords
    | effects.CompleteFetch
    | effects.ReplyFetch
    | effects.SendFetch
    | effects.ProposeIsr
    | effects.ReplyLeaderAndIsr
    | effects.ReplyStopReplica
)


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
            if isinstance(effect, DiskEffect):
                self._store.perform(effect)
                if isinstance(effect, effects.AppendAsLeader):
                    self._broker_api.on_appended(effect)
                elif isinstance(effect, effects.DeleteReplica):
                    self._reporter.forget_leadership(effect.tp)
            elif isinstance(effect, Notice):
                self._reporter.report(effect)
            else:
                self._talk(effect)

    def _talk(self, effect: Message) -> None:
        match effect:
            case effects.ReplyFetch():
                self._replication_transport.reply(effect)
            case effects.ReplyProduce():
                self._broker_api.on_produced(effect)
            case effects.ReplyDeleteRecords():
                self._broker_api.on_records_deleted(effect)
            case effects.SendFetch():
                self._store.after_cuts(partial(self._replication_transport.send, effect))
            case effects.CompleteFetch():
                self._broker_api.on_fetch_completed(effect)
            case effects.ProposeIsr():
                self._step_session(IsrProposed(proposal=effect))
            case effects.ReplyLeaderAndIsr():
                self._step_session(CommandPerformed(response=effect))
                if effect.full and effect.error is ErrorCode.NONE:
                    self._on_full_state()
            case effects.ReplyStopReplica():
                self._step_session(CommandPerformed(response=effect))
