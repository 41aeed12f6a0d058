"""The brokers of a world, and the fetches between them.

Messages between brokers wait until a test delivers them, so a scenario says exactly which broker
gets which message, and when. A core's messages to its controller arrive at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from strandline.controller.effects import SendRestoreReplica
from strandline.controller.events import BrokerResponseReceived
from strandline.core.effects import (
    Effect,
    PersistLogStart,
    PersistState,
    ProposeIsr,
    ReplyFetch,
    ReplyLeaderAndIsr,
    ReplyProduce,
    ReplyStopReplica,
    SendFetch,
)
from strandline.core.events import (
    Event,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    LogStartPersisted,
    StatePersisted,
    Ticked,
)
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import Acks

from .broker import Broker
from .invariants import ReplicationInvariants
from .session_messages import FromBroker


class Replication:
    """Brokers by id; a follower has one outstanding fetch, and responses on their way to it.

    `report` is called with every effect, `to_controller` with what a core sends to its controller.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        report: Callable[[int, Effect], None],
        to_controller: Callable[[Broker, FromBroker], None],
    ) -> None:
        self.brokers: dict[int, Broker] = {}
        self.fetches: dict[int, SendFetch] = {}
        self.responses: dict[int, deque[FetchResponseReceived]] = {}
        self.produced: dict[int, tuple[list[str], Acks]] = {}
        self.persist_held: dict[int, deque[StatePersisted | LogStartPersisted]] = {}
        self.invariants = ReplicationInvariants()
        self._now_ms = now_ms
        self._report = report
        self._to_controller = to_controller

    # --- processes ----------------------------------------------------------------------

    def add(self, broker_id: int, settings: CoreSettings) -> Broker:
        broker = self.brokers[broker_id] = Broker(broker_id, settings)
        return broker

    def start(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        self._carry_all(broker, broker.start(self._now_ms()))

    def kill(self, broker_id: int) -> None:
        """End a process; its fetch, and the responses on their way to it, are lost."""
        self.brokers[broker_id].alive = False
        self.fetches.pop(broker_id, None)
        self.responses.pop(broker_id, None)

    def step(self, broker_id: int, event: Event) -> None:
        """Step a core, and send its messages."""
        broker = self.brokers[broker_id]
        self._carry_all(broker, broker.step(event, self._now_ms()))

    def restored(self, sent: SendRestoreReplica) -> BrokerResponseReceived:
        """Let a broker take logs back from its trash; return its response."""
        errors = []
        for tp in sent.partitions:
            broker = self.brokers[sent.broker_id]
            error, effects = broker.restore(tp, self._now_ms())
            self._carry_all(broker, effects)
            errors.append((tp, error))
        return BrokerResponseReceived(
            session_id=sent.session_id,
            broker_id=sent.broker_id,
            request_id=sent.request_id,
            error=ErrorCode.NONE,
            controller_epoch=sent.controller_epoch,
            partitions=tuple(errors),
        )

    def next_wakeup(self) -> tuple[int, int] | None:
        """Return the earliest wakeup time of all cores, and the broker that has it."""
        due = [
            (wakeup_ms, broker_id)
            for broker_id, broker in self.brokers.items()
            if broker.alive and (wakeup_ms := broker.replicas.next_wakeup_ms) is not None
        ]
        return min(due, default=None)

    def tick(self) -> None:
        """Tick every core that is due now."""
        while (due := self.next_wakeup()) is not None and due[0] <= self._now_ms():
            self.step(due[1], Ticked())

    # --- streams ------------------------------------------------------------------------

    def deliver_fetch(self, follower_id: int, *, without_records: bool = False) -> None:
        """Let the fetch of a follower arrive; it fails if the leader's process has ended."""
        fetch, follower = self.fetches.pop(follower_id), self.brokers[follower_id]
        if not self.brokers[fetch.leader].alive:
            failed = FetchFailed(request_id=fetch.request_id, leader=fetch.leader)
            self.step(follower_id, failed)
            return
        event = FollowerFetchReceived(
            request_id=fetch.request_id,
            follower=follower.broker_id,
            broker_epoch=follower.broker_epoch,
            clean_since_epoch=follower.clean_since_epoch,
            max_wait_ms=fetch.max_wait_ms,
            partitions=fetch.partitions,
            changes=fetch.changes,
            without_records=without_records,
        )
        self.step(fetch.leader, event)

    def deliver_response(self, follower_id: int, *, batches: int | None = None) -> None:
        """Let the oldest response to a follower arrive, or only its first batches."""
        response = self.responses[follower_id].popleft()
        kept = tuple(replace(each, batches=each.batches[:batches]) for each in response.partitions)
        self.step(follower_id, replace(response, partitions=kept))

    def lose_fetch(self, follower_id: int) -> None:
        """Break the stream of a follower: its fetch failed."""
        fetch = self.fetches.pop(follower_id)
        self.step(follower_id, FetchFailed(request_id=fetch.request_id, leader=fetch.leader))

    # --- effects ------------------------------------------------------------------------

    def _carry_all(self, broker: Broker, effects: list[Effect]) -> None:
        for effect in effects:
            self._report(broker.broker_id, effect)
            self._carry(broker, effect)
        for effect in effects:
            if isinstance(effect, PersistLogStart):
                self.invariants.forget_below(effect.offset)
                event = LogStartPersisted(tp=effect.tp, offset=effect.offset)
                self._persisted(broker.broker_id, event)

    def _carry(self, broker: Broker, effect: Effect) -> None:
        """Keep a message for a follower until a test delivers it; send one for the controller."""
        me = broker.broker_id
        match effect:
            case SendFetch():
                self.fetches[me] = effect
            case ReplyFetch():
                self._carry_response(broker, effect)
            case ProposeIsr() | ReplyLeaderAndIsr() | ReplyStopReplica():
                self._to_controller(broker, effect)
            case ReplyProduce(request_id=request_id, error=error, base_offset=base):
                names, acks = self.produced[request_id]
                if error is ErrorCode.NONE and acks is Acks.ALL:
                    self.invariants.acknowledged.update(enumerate(names, start=base))
            case PersistState(token=token):
                self._persisted(me, StatePersisted(token=token))
            case _:
                pass

    def _persisted(self, broker_id: int, event: StatePersisted | LogStartPersisted) -> None:
        """Finish a write at once, or later if the disk of the broker is slow."""
        if broker_id in self.persist_held:
            self.persist_held[broker_id].append(event)
        else:
            self.step(broker_id, event)

    def _carry_response(self, broker: Broker, effect: ReplyFetch) -> None:
        if not self.brokers[effect.follower].alive:
            return
        response = FetchResponseReceived(
            request_id=effect.request_id,
            leader=broker.broker_id,
            partitions=tuple(broker.fetched(read) for read in effect.partitions),
        )
        self.responses.setdefault(effect.follower, deque()).append(response)
