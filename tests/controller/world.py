"""A small world for controllers: a compare-and-swap store, brokers that are switches, time.

The store answers at once unless a test holds a call (see `Mode`). Watch events reach every
controller after each change unless its watch is cut. A frozen one gets nothing until it
thaws, like a stopped process. Controllers are the shipped class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from strandline.controller.controller import Controller
from strandline.controller.effects import (
    CloseSession,
    ControllerEffect,
    LoadCluster,
    ProbeBroker,
    ReadBroker,
    ReadControllerRecord,
    ReadEpochFloor,
    ReadLease,
    ReadStoredPartition,
    ReadTopics,
    ReplyAlterPartition,
    SendFullState,
    SendLeaderAndIsr,
    StopWatching,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.controller.events import (
    ControllerEvent,
    HeartbeatReceived,
    HostedReplica,
    IsrChangeRequested,
    ProbeResponseReceived,
    ProbeVerdict,
    SessionBroken,
    SessionOpened,
    Ticked,
)
from strandline.controller.store_events import (
    BrokerObserved,
    BrokerRead,
    ClusterLoaded,
    ControllerRecordResponseReceived,
    EpochFloorRead,
    LeaseObserved,
    LeaseResponseReceived,
    PartitionObserved,
    PartitionResponseReceived,
    StoreOutcome,
    TopicDeleted,
    TopicObserved,
    TopicsRead,
)
from strandline.controller.timing import ControllerTiming
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
)

from .answers import outcome_of, unknown_answer
from .store import TOPIC, FakeStore, registration, tp
from .timings import demo_timing

E = TypeVar("E")


class Mode(Enum):
    """A held call is dropped, or applied, and answered UNKNOWN; or kept for `release`."""

    LOSE = "lose"
    LOSE_ANSWER = "lose_answer"
    DELAY = "delay"


def always(_effect: ControllerEffect) -> bool:
    return True


@dataclass
class Held:
    """A call that a test took out of the stream."""

    node: int
    effect: ControllerEffect


@dataclass
class ControllerNode:
    """One broker process as far as the controller in it goes."""

    controller: Controller
    watching: bool = False
    cut: bool = False
    frozen: bool = False
    inbox: deque[ControllerEvent] = field(default_factory=deque)
    effects: list[ControllerEffect] = field(default_factory=list)

    def sent(self, kind: type[E]) -> list[E]:
        """Return the effects of one kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


class ControllerWorld:
    """Controllers, brokers and the store, with one clock."""

    def __init__(self, *, timing: ControllerTiming | None = None) -> None:
        self.now_ms = 0
        self.store = FakeStore()
        self.timing = timing or demo_timing()
        self.nodes: dict[int, ControllerNode] = {}
        self.probes: dict[int, ProbeVerdict] = {}
        self.sessions: dict[int, tuple[int, int]] = {}
        self.silent: set[int] = set()
        self.holds: list[
            tuple[type[ControllerEffect], Mode, Callable[[ControllerEffect], bool]]
        ] = []
        self.held: list[Held] = []
        self._last_session_id = 0
        self._heartbeat_ms = 0

    # --- building ---------------------------------------------------------------------

    def add_node(self, broker_id: int, *, rank: int | None = None) -> ControllerNode:
        node = ControllerNode(
            controller=Controller(
                broker_id=BrokerId(broker_id),
                identity=f"broker-{broker_id}/pod-{broker_id}",
                rank=broker_id if rank is None else rank,
                timing=self.timing,
            )
        )
        self.nodes[broker_id] = node
        return node

    def register(self, broker_id: int, epoch: int = 1, clean_since: int = 1) -> None:
        self.store.brokers[broker_id] = StoredBroker(
            name=f"c-{broker_id}",
            resource_version=self.store.next_version(),
            broker_id=BrokerId(broker_id),
            registration=registration(broker_id, epoch, clean_since),
        )
        self.probes[broker_id] = ProbeVerdict.ANSWERED
        self.show(BrokerObserved(broker=self.store.brokers[broker_id]))

    def put_topic(self, found: StoredTopic) -> None:
        self.store.topics[found.topic_id] = found
        self.show(TopicObserved(topic=found))

    def delete_topic(self, topic_id: TopicId = TOPIC) -> None:
        del self.store.topics[topic_id]
        self.show(TopicDeleted(topic_id=topic_id))

    def put_partition(
        self,
        found: PartitionState | None,
        *,
        number: int = 0,
        recover: bool = False,
        topic_id: TopicId = TOPIC,
    ) -> None:
        stored = StoredPartition(
            name=f"orders-{number}",
            resource_version=self.store.next_version(),
            tp=tp(number, topic_id),
            topic_name="orders",
            assigned=(BrokerId(0), BrokerId(1), BrokerId(2)),
            recover=recover,
            state=found,
        )
        self.store.partitions[stored.name] = stored
        self.show(PartitionObserved(partition=stored))

    def state(self, number: int = 0) -> PartitionState:
        found = self.store.partitions[f"orders-{number}"].state
        assert found is not None
        return found

    # --- events -----------------------------------------------------------------------

    def show(self, event: ControllerEvent) -> None:
        """Send a watch event to every controller that watches."""
        for node in self.nodes.values():
            if node.watching and not node.cut:
                node.inbox.append(event)

    def deliver(self, broker_id: int, event: ControllerEvent) -> None:
        self.nodes[broker_id].inbox.append(event)
        self.settle()

    def settle(self) -> None:
        """Deliver everything that can be delivered."""
        for _ in range(100_000):
            ready = [b for b, n in sorted(self.nodes.items()) if n.inbox and not n.frozen]
            if not ready:
                return
            node = self.nodes[ready[0]]
            event = node.inbox.popleft()
            self._perform(ready[0], node.controller.step(event, self.now_ms))
        raise AssertionError("the controllers do not come to rest")

    def advance(self, ms: int) -> None:
        """Let time pass; brokers in session send heartbeats each 500 ms."""
        end_ms = self.now_ms + ms
        self.settle()
        while True:
            due = [end_ms, self._heartbeat_ms]
            for node in self.nodes.values():
                wakeup_ms = node.controller.next_wakeup_ms
                if wakeup_ms is not None and not node.frozen:
                    due.append(max(wakeup_ms, self.now_ms + 1))
            self.now_ms = max(self.now_ms, min(due))
            if self.now_ms >= self._heartbeat_ms:
                self._heartbeat_ms = self.now_ms + 500
                self._heartbeats()
            for node in self.nodes.values():
                node.inbox.append(Ticked())
            self.settle()
            self._check_wakeups()
            if self.now_ms >= end_ms:
                return

    def _check_wakeups(self) -> None:
        """Nothing that is due is left undone by a tick: a driver would spin."""
        for node in self.nodes.values():
            wakeup_ms = node.controller.next_wakeup_ms
            assert node.frozen or wakeup_ms is None or wakeup_ms > self.now_ms

    def _heartbeats(self) -> None:
        for broker_id, (node_id, session_id) in sorted(self.sessions.items()):
            found = self.store.brokers[broker_id].registration
            if broker_id not in self.silent and found is not None:
                self.nodes[node_id].inbox.append(
                    HeartbeatReceived(
                        session_id=session_id,
                        broker_id=BrokerId(broker_id),
                        broker_epoch=found.broker_epoch,
                    )
                )

    def hello(
        self,
        broker_id: int,
        to: int,
        *,
        epoch: int | None = None,
        hosted: tuple[HostedReplica, ...] = (),
        incarnation: str | None = None,
    ) -> int:
        """Open a session; the last one opened sends the heartbeats."""
        found = self.store.brokers[broker_id].registration
        assert found is not None
        self._last_session_id += 1
        self.sessions[broker_id] = (to, self._last_session_id)
        self.deliver(
            to,
            SessionOpened(
                session_id=self._last_session_id,
                broker_id=BrokerId(broker_id),
                broker_epoch=found.broker_epoch if epoch is None else BrokerEpoch(epoch),
                clean_since_epoch=found.clean_since_epoch,
                incarnation=found.incarnation if incarnation is None else incarnation,
                hosted=hosted,
            ),
        )
        return self._last_session_id

    def kill(self, broker_id: int) -> None:
        """Kill -9: the stream breaks, connections are refused."""
        self.probes[broker_id] = ProbeVerdict.REFUSED
        node_id, session_id = self.sessions.pop(broker_id)
        if node_id in self.nodes:
            self.deliver(
                node_id, SessionBroken(session_id=session_id, broker_id=BrokerId(broker_id))
            )

    def alter(
        self,
        broker_id: int,
        to: int,
        isr: tuple[IsrEntry, ...],
        *,
        session_id: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        request_id: int = 1,
        broker_epoch: int = 1,
    ) -> None:
        """Send an AlterPartition of orders-0."""
        stored = self.state()
        self.deliver(
            to,
            IsrChangeRequested(
                session_id=self.sessions[broker_id][1] if session_id is None else session_id,
                request_id=request_id,
                broker_id=BrokerId(broker_id),
                broker_epoch=BrokerEpoch(broker_epoch),
                tp=tp(),
                leader_epoch=stored.leader_epoch
                if leader_epoch is None
                else LeaderEpoch(leader_epoch),
                partition_epoch=stored.partition_epoch
                if partition_epoch is None
                else PartitionEpoch(partition_epoch),
                isr=isr,
            ),
        )

    # --- faults -----------------------------------------------------------------------

    def hold(
        self,
        kind: type[ControllerEffect],
        mode: Mode,
        when: Callable[[ControllerEffect], bool] = always,
    ) -> None:
        """Treat the next call of this kind so."""
        self.holds.append((kind, mode, when))

    def release(self) -> None:
        """Let the first delayed call arrive now; its answer goes to the node that sent it."""
        held = self.held.pop(0)
        self._answer(held.node, held.effect)
        self.settle()

    def _perform(self, node_id: int, effects: list[ControllerEffect]) -> None:
        for effect in effects:
            self.nodes[node_id].effects.append(effect)
            if isinstance(effect, CloseSession):
                ended = (node_id, effect.session_id)
                self.sessions = {b: s for b, s in self.sessions.items() if s != ended}
            for index, (kind, mode, when) in enumerate(self.holds):
                if isinstance(effect, kind) and when(effect):
                    del self.holds[index]
                    self._fault(node_id, effect, mode)
                    break
            else:
                self._answer(node_id, effect)

    def _fault(self, node_id: int, effect: ControllerEffect, mode: Mode) -> None:
        if mode is Mode.DELAY:
            self.held.append(Held(node=node_id, effect=effect))
            return
        inbox = self.nodes[node_id].inbox
        if mode is Mode.LOSE_ANSWER:
            before = len(inbox)
            self._answer(node_id, effect)
            answers = (
                LeaseResponseReceived,
                ControllerRecordResponseReceived,
                PartitionResponseReceived,
            )
            kept = [e for i, e in enumerate(inbox) if i < before or not isinstance(e, answers)]
            self.nodes[node_id].inbox = inbox = deque(kept)
        inbox.append(unknown_answer(effect))

    # --- the store's answers ----------------------------------------------------------

    def _answer(self, node_id: int, effect: ControllerEffect) -> None:
        answer = self._written(effect) or self._read(node_id, effect)
        if answer is not None:
            self.nodes[node_id].inbox.append(answer)

    def _read(self, node_id: int, effect: ControllerEffect) -> ControllerEvent | None:
        node, store = self.nodes[node_id], self.store
        answer: ControllerEvent | None = None
        match effect:
            case ReadLease():
                answer = LeaseResponseReceived(
                    request_id=effect.request_id, outcome=StoreOutcome.OK, lease=store.lease
                )
            case ReadEpochFloor():
                epochs = [p.state.controller_epoch for p in store.partitions.values() if p.state]
                answer = EpochFloorRead(
                    request_id=effect.request_id,
                    outcome=StoreOutcome.OK,
                    partitions_epoch=max(epochs, default=ControllerEpoch(0)),
                    record=store.record,
                )
            case ReadControllerRecord():
                answer = ControllerRecordResponseReceived(
                    request_id=effect.request_id, outcome=StoreOutcome.OK, record=store.record
                )
            case LoadCluster():
                node.watching = True
                answer = ClusterLoaded(
                    request_id=effect.request_id,
                    outcome=StoreOutcome.OK,
                    partitions=tuple(store.partitions.values()),
                    brokers=tuple(store.brokers.values()),
                    topics=tuple(store.topics.values()),
                )
            case StopWatching():
                node.watching = False
            case ReadStoredPartition():
                answer = PartitionResponseReceived(
                    request_id=effect.request_id,
                    outcome=StoreOutcome.OK,
                    partition=store.partitions.get(effect.name),
                )
            case ReadBroker():
                answer = BrokerRead(
                    request_id=effect.request_id,
                    outcome=StoreOutcome.OK,
                    broker=store.brokers.get(effect.broker_id),
                )
            case ReadTopics():
                answer = TopicsRead(
                    request_id=effect.request_id,
                    outcome=StoreOutcome.OK,
                    topic_ids=frozenset(store.topics),
                    topics=tuple(store.topics.values()),
                )
            case ProbeBroker():
                answer = ProbeResponseReceived(
                    request_id=effect.request_id,
                    broker_id=effect.broker_id,
                    verdict=self.probes.get(effect.broker_id, ProbeVerdict.NO_ANSWER),
                )
            case _:
                pass
        return answer

    def _written(self, effect: ControllerEffect) -> ControllerEvent | None:
        store = self.store
        answer: ControllerEvent | None = None
        match effect:
            case WriteLease():
                lease = store.put_lease(effect.lease)
                answer = LeaseResponseReceived(
                    request_id=effect.request_id, outcome=outcome_of(lease), lease=lease
                )
                if lease is not None:
                    self._show_lease()
            case WriteControllerRecord():
                record = store.put_record(effect.record)
                answer = ControllerRecordResponseReceived(
                    request_id=effect.request_id, outcome=outcome_of(record), record=record
                )
            case WritePartitionStatus():
                stored = store.put_status(effect)
                answer = PartitionResponseReceived(
                    request_id=effect.request_id, outcome=outcome_of(stored), partition=stored
                )
                if stored is not None:
                    self.show(PartitionObserved(partition=stored))
            case _:
                pass
        return answer

    def _show_lease(self) -> None:
        for node in self.nodes.values():
            if not node.cut:
                node.inbox.append(LeaseObserved(lease=self.store.lease))

    # --- what was sent ----------------------------------------------------------------

    def answers(self, node_id: int) -> list[ReplyAlterPartition]:
        return self.nodes[node_id].sent(ReplyAlterPartition)

    def states_sent(self, node_id: int, broker_id: int, number: int = 0) -> list[PartitionState]:
        """Return the states of a partition that one controller sent to one broker."""
        return [
            command.state
            for effect in self.nodes[node_id].effects
            if isinstance(effect, SendLeaderAndIsr | SendFullState)
            for command in effect.partitions
            if effect.broker_id == broker_id and command.tp == tp(number)
        ]
