"""Performs the effects of the replication core, each by the part that has the hands for it.

Order is the core's: a disk command that fails raises out of the list, so that nothing behind
it is told to anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import assert_never

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
from strandline.core.events import AlterPartitionResponseReceived, Event
from strandline.errors import ErrorCode
from strandline.model import TopicPartition

from .client_requests import ClientRequests
from .controller_link import ControllerLink
from .notices import CoreNotices
from .payloads import Payloads
from .replica_store import DiskCommand, ReplicaStore
from .replication_hands import ReplicationHands


class CorePerformer:
    """The hands of the core; on_full_state is called when the first full state was obeyed."""

    def __init__(
        self,
        *,
        store: ReplicaStore,
        payloads: Payloads,
        clients: ClientRequests,
        peers: ReplicationHands,
        link: ControllerLink,
        notices: CoreNotices,
        submit: Callable[[Event], None],
        on_full_state: Callable[[], None],
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._clients = clients
        self._peers = peers
        self._link = link
        self._notices = notices
        self._submit = submit
        self._on_full_state = on_full_state
        self._unsent: dict[TopicPartition, ProposeIsr] = {}

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform in list order; StorageError ends the list."""
        for effect in effects:
            if isinstance(effect, DiskCommand):
                self._store.perform(effect, self._payloads)
                if isinstance(effect, DeleteReplica):
                    self._notices.replica_deleted(effect.tp)
            elif isinstance(effect, Notice):
                self._notices.tell(effect)
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
                self._peers.reply(effect)
            case ReplyProduce():
                self._clients.on_produced(effect)
            case SendFetch():
                self._peers.send(effect)
            case CompleteFetch():
                self._clients.on_woken(effect)
            case ProposeIsr():
                self._propose(effect)
            case ReplyLeaderAndIsr():
                self._link.answer(effect)
                if effect.full and effect.error is ErrorCode.NONE:
                    self._give_up_unsent()
                    self._on_full_state()
            case ReplyStopReplica():
                self._link.answer(effect)
            case _:
                assert_never(effect)

    def _propose(self, effect: ProposeIsr) -> None:
        """Send a proposal; without a session it waits for one, so that an outage costs nothing."""
        if self._link.propose(effect):
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
