"""Performs the effects of the replication core, each by the part that can.

Order is the core's: a disk effect that fails raises out of the list, so that no
message behind it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import assert_never

from strandline.core.effects import (
    AppendAsLeader,
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
from strandline.core.events import AlterPartitionResponseReceived, Event
from strandline.errors import ErrorCode
from strandline.model import TopicPartition

from .broker_api import BrokerApi
from .controller_session import ControllerSession
from .notice_reporters import CoreNoticeReporter
from .replica_store import DiskEffect, ReplicaStore
from .replication_transport import ReplicationTransport


class CorePerformer:
    """The shell of the core; on_full_state is called when the first full state was applied."""

    def __init__(
        self,
        *,
        store: ReplicaStore,
        broker_api: BrokerApi,
        replication_transport: ReplicationTransport,
        controller_session: ControllerSession,
        reporter: CoreNoticeReporter,
        submit: Callable[[Event], None],
        on_full_state: Callable[[], None],
    ) -> None:
        self._store = store
        self._broker_api = broker_api
        self._replication_transport = replication_transport
        self._controller_session = controller_session
        self._reporter = reporter
        self._submit = submit
        self._on_full_state = on_full_state
        self._unsent: dict[TopicPartition, ProposeIsr] = {}

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform in list order; StorageError ends the list."""
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self._store.perform(effect)
                if isinstance(effect, AppendAsLeader):
                    self._broker_api.on_appended(effect)
                elif isinstance(effect, DeleteReplica):
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
                self._propose(effect)
            case ReplyLeaderAndIsr():
                self._controller_session.answer(effect)
                if effect.full and effect.error is ErrorCode.NONE:
                    self._give_up_unsent()
                    self._on_full_state()
            case ReplyStopReplica():
                self._controller_session.answer(effect)
            case _:
                assert_never(effect)

    def _propose(self, effect: ProposeIsr) -> None:
        """Send a proposal; without a session it waits for one, so that an outage costs nothing."""
        if self._controller_session.propose(effect):
            self._unsent.pop(effect.tp, None)
        else:
            self._unsent[effect.tp] = effect

    def _give_up_unsent(self) -> None:
        """Answer what could not be sent, now that there is a session: the core asks again."""
        loop = asyncio.get_running_loop()
        for effect in self._unsent.values():
            unanswered = AlterPartitionResponseReceived(
                request_id=effect.request_id,
                tp=effect.tp,
                error=ErrorCode.NETWORK_EXCEPTION,
                stored=None,
            )
            loop.call_soon(self._submit, unanswered)
        self._unsent.clear()
