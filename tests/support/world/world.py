"""A small world: brokers, controllers and a store, one clock, messages by address.

The store responds at once unless a test holds a call (see `Mode`). Watch events reach every
controller after each change unless its watch is cut. `hello` opens a session. A broker is a
process with the shipped core, or a registration alone, which receives and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.controller.controller import Controller
from strandline.controller.effects import (
    CloseSession,
    ControllerEffect,
    LoadCluster,
    ProbeBroker,
    ProbeLeaseHolder,
    ReplyAlterPartition,
    SendFullState,
    SendLeaderAndIsr,
    SendRestoreReplica,
    StopWatching,
)
from strandline.controller.events import (
    ControllerEvent,
    HeartbeatReceived,
    HostedReplica,
    IsrChangeRequested,
    LeaseHolderProbed,
    ProbeResponseReceived,
    ProbeVerdict,
    SessionBroken,
    SessionOpened,
    Ticked,
)
from strandline.controller.store_events import (
    BrokerObserved,
    LeaseObserved,
    LeaseResponseReceived,
    PartitionObserved,
    PartitionResponseReceived,
    StoreOutcome,
    TopicDeleted,
    TopicObserved,
)
from strandline.controller.timing import ControllerTiming
from strandline.controller.topic_effects import TellAppliedConfig
from strandline.core.effects import Effect
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    TrashedReplica,
)

from .broker import Broker
from .controllers import ControllerNode
from .network import (
    SCRIPT,
    STORE,
    Message,
    Mode,
    Network,
    broker_address,
    controller_address,
)
from .replication import Replication
from .session_messages import (
    FromBroker,
    FromController,
    event_of_the_controller,
    events_of_the_core,
)
from .store import FakeStore, StoreCall, StoreResponse, StoreWrite, unknown_response
from .timings import demo_timing
from .values import NAME, TOPIC, registration, tp

HEARTBEAT_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What happened to a message: it was lost or delayed, or the store refused it."""

    message: Message
    word: str


Happened = tuple[str, object]
"""An address, and an effect of the machine there or the fate of a message that it sent."""


def always(_content: object) -> bool:
    return True


class World:
    """Brokers, controllers and the store, with one clock; `happened` is all they did, in order.

    A controller closes an ended session again at each further message on it; `happened` has the
    first CloseSession alone.
    """

    def __init__(self, *, timing: ControllerTiming | None = None) -> None:
        self.now_ms = 0
        self.store = FakeStore()
        self.timing = timing or demo_timing()
        self.network = Network(self._on_fault)
        self.network.register(STORE, self._call_store)
        self.replication = Replication(
            now_ms=lambda: self.now_ms, report=self._report_core, to_controller=self._to_controller
        )
        self.nodes: dict[int, ControllerNode] = {}
        self.probes: dict[int, ProbeVerdict] = {}
        self.sessions: dict[int, tuple[int, int]] = {}
        self.silent: set[int] = set()
        self.happened: list[Happened] = []
        self._closed_sessions: set[int] = set()
        self._last_session_id = 0
        self._heartbeat_ms = 0
        self.full: set[int] = set()  # brokers whose heartbeats say that their volume has no room

    # --- building ---------------------------------------------------------------------

    def add_node(self, broker_id: int, *, incarnation: str | None = None) -> ControllerNode:
        node = ControllerNode(
            controller=Controller(
                broker_id=BrokerId(broker_id),
                identity=f"broker-{broker_id}/{incarnation or f'pod-{broker_id}/1'}",
                rank=broker_id,
                timing=self.timing,
            )
        )
        self.nodes[broker_id] = node
        self.network.register(controller_address(broker_id), self._into_inbox_of(node))
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

    def start(self, broker_id: int) -> None:
        """Begin a process of a broker of `replication`, and register it."""
        self.network.register(broker_address(broker_id), self._receive_at_broker)
        self.replication.start(broker_id)
        broker = self.replication.brokers[broker_id]
        self.register(broker_id, broker.broker_epoch, broker.clean_since_epoch)

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
        assigned: tuple[int, ...] = (0, 1, 2),
        name: str = "",
    ) -> None:
        stored = StoredPartition(
            name=name or f"{NAME}-{number}",
            resource_version=self.store.next_version(),
            tp=tp(number, topic_id),
            topic_name=NAME,
            assigned=tuple(map(BrokerId, assigned)),
            recover=recover,
            state=found,
        )
        self.store.partitions[stored.name] = stored
        self.show(PartitionObserved(partition=stored))

    def state(self, number: int = 0) -> PartitionState:
        found = self.store.partitions[f"{NAME}-{number}"].state
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
        """Step the controllers until no inbox of a node that is not frozen holds an event."""
        for _ in range(100_000):
            ready = [b for b, n in sorted(self.nodes.items()) if n.inbox and not n.frozen]
            if not ready:
                return
            node = self.nodes[ready[0]]
            event = node.inbox.popleft()
            self._perform(ready[0], node.controller.step(event, self.now_ms))
        raise AssertionError("the controllers do not come to rest")

    def advance(self, ms: int) -> None:
        """Let time pass; brokers with a session send heartbeats each 500 ms."""
        end_ms = self.now_ms + ms
        self.settle()
        while True:
            self.now_ms = max(self.now_ms, min([end_ms, *self._due()]))
            if self.now_ms >= self._heartbeat_ms:
                self._heartbeat_ms = self.now_ms + HEARTBEAT_MS
                self._heartbeats()
            self.replication.tick()
            for node in self.nodes.values():
                node.inbox.append(Ticked())
            self.settle()
            self._check_wakeups()
            core = self.replication.next_wakeup()
            if self.now_ms >= end_ms and (core is None or core[0] > end_ms):
                return

    def _due(self) -> list[int]:
        due = [self._heartbeat_ms]
        core = self.replication.next_wakeup()
        if core is not None:
            due.append(core[0])
        for node in self.nodes.values():
            wakeup_ms = node.controller.next_wakeup_ms
            if wakeup_ms is not None and not node.frozen:
                due.append(max(wakeup_ms, self.now_ms + 1))
        return due

    def _check_wakeups(self) -> None:
        """Check that a tick leaves no due work undone, which would make a driver spin."""
        for node in self.nodes.values():
            wakeup_ms = node.controller.next_wakeup_ms
            assert node.frozen or wakeup_ms is None or wakeup_ms > self.now_ms

    # --- sessions ---------------------------------------------------------------------

    def _heartbeats(self) -> None:
        for broker_id, (node_id, _) in sorted(self.sessions.items()):
            heartbeat = self.heartbeat_of(broker_id)
            if broker_id not in self.silent and heartbeat is not None and node_id in self.nodes:
                self.nodes[node_id].inbox.append(heartbeat)

    def heartbeat_of(self, broker_id: int) -> HeartbeatReceived | None:
        """Return what a broker in session says of itself, None if it is not registered."""
        found = self.store.brokers[broker_id].registration
        if found is None:
            return None
        return HeartbeatReceived(
            session_id=self.sessions[broker_id][1],
            broker_id=BrokerId(broker_id),
            broker_epoch=found.broker_epoch,
            is_full=broker_id in self.full,
        )

    def hello(
        self,
        broker_id: int,
        to: int,
        *,
        epoch: int | None = None,
        hosted: tuple[HostedReplica, ...] = (),
        trashed: tuple[TrashedReplica, ...] = (),
        incarnation: str | None = None,
    ) -> int:
        """Open a session of a broker, which then sends its heartbeats on this one."""
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
                trashed=trashed,
            ),
        )
        return self._last_session_id

    def kill(self, broker_id: int) -> None:
        """End a broker's process: its stream breaks, and its address refuses connections."""
        self.probes[broker_id] = ProbeVerdict.REFUSED
        if broker_id in self.replication.brokers:
            self.replication.kill(broker_id)
            self.network.unregister(broker_address(broker_id))
        self.break_session(broker_id)

    def break_session(self, broker_id: int) -> None:
        """End the stream of a broker's session."""
        node_id, session_id = self.sessions.pop(broker_id, (-1, -1))
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
        """Send an AlterPartition of orders-0 as if the broker's core had sent it."""
        self.deliver(
            to,
            IsrChangeRequested(
                session_id=self.sessions[broker_id][1] if session_id is None else session_id,
                request_id=request_id,
                broker_id=BrokerId(broker_id),
                broker_epoch=BrokerEpoch(broker_epoch),
                tp=tp(),
                leader_epoch=self.state().leader_epoch
                if leader_epoch is None
                else LeaderEpoch(leader_epoch),
                partition_epoch=self.state().partition_epoch
                if partition_epoch is None
                else PartitionEpoch(partition_epoch),
                isr=isr,
            ),
        )

    # --- faults -----------------------------------------------------------------------

    def hold(self, kind: type, mode: Mode, when: Callable[[object], bool] = always) -> None:
        """Drop or delay the next message of this kind; see `Network.hold`."""
        self.network.hold(kind, mode, when)

    @property
    def held(self) -> list[Message]:
        """The delayed messages, oldest first."""
        return self.network.held

    def release(self) -> None:
        """Deliver the oldest delayed message now."""
        self.network.deliver(self.held.pop(0))
        self.settle()

    def time_out(self, message: Message) -> None:
        """Give the sender of a store call an unknown outcome; the call itself may still arrive."""
        assert isinstance(message.content, StoreCall)
        self.network.deliver(
            Message(
                source=STORE, destination=message.source, content=unknown_response(message.content)
            )
        )

    def _on_fault(self, message: Message, mode: Mode) -> None:
        self.happened.append((message.source, Fate(message=message, word=mode.value)))
        if mode in {Mode.LOSE, Mode.LOSE_RESPONSE} and isinstance(message.content, StoreCall):
            self.time_out(message)

    # --- effects ----------------------------------------------------------------------

    def _report_core(self, broker_id: int, effect: Effect) -> None:
        self.happened.append((broker_address(broker_id), effect))

    def _perform(self, node_id: int, effects: list[ControllerEffect]) -> None:
        node, me = self.nodes[node_id], controller_address(node_id)
        for effect in effects:
            node.effects.append(effect)
            if not (
                isinstance(effect, CloseSession) and effect.session_id in self._closed_sessions
            ):
                self.happened.append((me, effect))
            match effect:
                case ProbeBroker() | ProbeLeaseHolder():
                    node.inbox.append(self._probed(effect))
                case TellAppliedConfig():
                    told = self.store.put_applied(effect)
                    if told is not None:
                        self.show(TopicObserved(topic=told))
                case StopWatching():
                    node.watching = False
                case CloseSession():
                    self._closed_sessions.add(effect.session_id)
                    ended = (node_id, effect.session_id)
                    self.sessions = {b: s for b, s in self.sessions.items() if s != ended}
                case _:
                    self._send(me, effect)

    def _probed(self, probe: ProbeBroker | ProbeLeaseHolder) -> ControllerEvent:
        asked, about = probe.request_id, probe.broker_id
        verdict = self.probes.get(about, ProbeVerdict.NO_ANSWER)
        if isinstance(probe, ProbeLeaseHolder):
            return LeaseHolderProbed(request_id=asked, verdict=verdict)
        return ProbeResponseReceived(request_id=asked, broker_id=about, verdict=verdict)

    def _send(self, me: str, effect: ControllerEffect) -> None:
        if isinstance(effect, StoreCall):
            self.network.send(me, STORE, effect)
        elif isinstance(effect, FromController):
            self.network.send(me, broker_address(effect.broker_id), effect)

    def _into_inbox_of(self, node: ControllerNode) -> Callable[[Message], None]:
        def receive(message: Message) -> None:
            assert isinstance(message.content, ControllerEvent)
            node.inbox.append(message.content)

        return receive

    def _call_store(self, message: Message) -> None:
        """Perform a call of a controller; watches show a change before the call's response."""
        call = message.content
        assert isinstance(call, StoreCall)
        response = self.store.respond(call)
        if isinstance(call, StoreWrite):
            self._show_written(response)
            if response.outcome is not StoreOutcome.OK:
                self.happened.append((STORE, Fate(message=message, word="refused")))
        if isinstance(call, LoadCluster):
            self._node_at(message.source).watching = True
        self.network.send(STORE, message.source, response)

    def _show_written(self, response: StoreResponse) -> None:
        match response:
            case LeaseResponseReceived(lease=lease) if lease is not None:
                self.show_lease()
            case PartitionResponseReceived(partition=partition) if partition is not None:
                self.show(PartitionObserved(partition=partition))
            case _:
                pass

    def show_lease(self) -> None:
        """Show the Lease to every node, because candidates watch the Lease alone."""
        for node in self.nodes.values():
            if not node.cut:
                node.inbox.append(LeaseObserved(lease=self.store.lease))

    def _node_at(self, address: str) -> ControllerNode:
        (found,) = (n for b, n in self.nodes.items() if controller_address(b) == address)
        return found

    def _receive_at_broker(self, message: Message) -> None:
        """Give a core a controller's message if it came on the broker's present session."""
        sent, broker_id = message.content, int(message.destination)
        assert isinstance(sent, FromController)
        node_id, session_id = self.sessions.get(broker_id, (-1, -1))
        if message.source == controller_address(node_id) and sent.session_id == session_id:
            for event in events_of_the_core(sent):
                self.replication.step(broker_id, event)
            if isinstance(sent, SendRestoreReplica):
                done = self.replication.restored(sent)
                self.network.send(message.destination, message.source, done)

    def _to_controller(self, broker: Broker, sent: FromBroker) -> None:
        """Send a core's message on its session, or to the scenario if it has none."""
        me = broker_address(broker.broker_id)
        if broker.broker_id not in self.sessions:
            self.network.send(me, SCRIPT, sent)
            return
        node_id, session_id = self.sessions[broker.broker_id]
        event = event_of_the_controller(broker, session_id, sent)
        self.network.send(me, controller_address(node_id), event)

    # --- what was sent ----------------------------------------------------------------

    def alter_responses(self, node_id: int) -> list[ReplyAlterPartition]:
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
