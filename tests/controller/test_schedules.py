"""Seeded schedules: two controllers, brokers that die and lose disks, a store that delays calls.

Every store write and message is checked: the rules of the CRD hold, a recorded epoch has one
holder, only committed states are sent, and a refusal at the stored partition epoch has committed
the next one. After the faults every partition that can have a leader has one, and every broker
has received it.
"""

from __future__ import annotations

import random

import pytest

from strandline.controller.effects import (
    ReadStoredPartition,
    ReplyAlterPartition,
    SendFullState,
    SendLeaderAndIsr,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.controller.events import IsrChangeRequested, ProbeVerdict, SessionBroken
from strandline.controller.store_events import WatchLost
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    PartitionState,
    TopicPartition,
)
from tests.support.world.network import Mode
from tests.support.world.setups import three_brokers
from tests.support.world.values import state, topic

PARTITIONS = 3
STEPS = 120


class Schedule:
    """One seeded run; the leaders of the partitions propose random ISRs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        found = state() if self.random.random() < 0.7 else None
        self.world = three_brokers(found, partitions=PARTITIONS, nodes=(0, 1, 2))
        self.world.put_topic(topic(unclean=self.random.random() < 0.3))
        self.alive = {0, 1, 2}
        self.epochs = dict.fromkeys((0, 1, 2), BrokerEpoch(1))
        self.clean = dict.fromkeys((0, 1, 2), BrokerEpoch(1))
        self.proposals: dict[tuple[int, int], IsrChangeRequested] = {}
        self.holders: dict[ControllerEpoch, str] = {}
        self.last_request_id = 0
        self.seen = dict.fromkeys((0, 1, 2), 0)

    def run(self) -> None:
        faults = (self.kill, self.start, self.cut_or_join, self.freeze_or_thaw, self.hold)
        for _ in range(STEPS):
            self.random.choice((*faults, self.propose, self.propose, self.propose, self.land))()
            self.world.advance(self.random.choice((1, 20, 100, 600)))
            self.connect()
            self.check()
        self.heal()

    # --- events -----------------------------------------------------------------------

    def kill(self) -> None:
        if len(self.alive) < 2:
            return
        broker_id = self.random.choice(sorted(self.alive))
        self.alive.discard(broker_id)
        self.world.probes[broker_id] = ProbeVerdict.REFUSED
        session = self.world.sessions.pop(broker_id, None)
        if session is not None:
            broken = SessionBroken(session_id=session[1], broker_id=BrokerId(broker_id))
            self.world.nodes[session[0]].inbox.append(broken)

    def start(self) -> None:
        for broker_id in sorted({0, 1, 2} - self.alive):
            self.alive.add(broker_id)
            self.epochs[broker_id] = BrokerEpoch(self.epochs[broker_id] + 1)
            if self.random.random() < 0.3:
                self.clean[broker_id] = self.epochs[broker_id]
            self.world.register(broker_id, self.epochs[broker_id], self.clean[broker_id])

    def cut_or_join(self) -> None:
        node = self.world.nodes[self.random.randrange(3)]
        node.cut = not node.cut
        if not node.cut:
            node.inbox.append(WatchLost())

    def freeze_or_thaw(self) -> None:
        node = self.world.nodes[self.random.randrange(3)]
        node.frozen = not node.frozen

    def hold(self) -> None:
        kinds = (WritePartitionStatus, WritePartitionStatus, ReadStoredPartition)
        kind = self.random.choice((*kinds, WriteLease, WriteControllerRecord))
        self.world.hold(kind, self.random.choice((Mode.LOSE, Mode.LOSE_RESPONSE, Mode.DELAY)))

    def land(self) -> None:
        """Let a delayed call time out, be applied, or time out and then be applied."""
        if not self.world.held:
            return
        held = self.world.held[0]
        if self.random.random() < 0.5:
            self.world.time_out(held)
        if self.random.random() < 0.7:
            self.world.release()

    def propose(self) -> None:
        """Let a leader, or a broker that takes itself for one, propose some ISR."""
        number = self.random.randrange(PARTITIONS)
        history = self.history(number)
        if not history or not self.world.sessions:
            return
        base = self.random.choice(history[-2:])
        session = self.world.sessions.get(base.leader)
        own = base.entry_of(base.leader)
        if session is None or own is None:
            return
        others = [IsrEntry(broker_id=BrokerId(b), broker_epoch=e) for b, e in self.epochs.items()]
        chosen = [e for e in others if e.broker_id != base.leader and self.random.random() < 0.6]
        kept = [base.entry_of(e.broker_id) or e for e in chosen]
        self.last_request_id += 1
        event = IsrChangeRequested(
            session_id=session[1],
            request_id=self.last_request_id,
            broker_id=base.leader,
            broker_epoch=own.broker_epoch,
            tp=self.world.store.partitions[f"orders-{number}"].tp,
            leader_epoch=base.leader_epoch,
            partition_epoch=base.partition_epoch,
            isr=(own, *kept),
        )
        for node in self.random.choice(((session[0],), (0, 1, 2))):
            self.proposals[(node, event.request_id)] = event
            self.world.nodes[node].inbox.append(event)

    def connect(self) -> None:
        """Let brokers without a session open one with an active controller."""
        nodes = self.world.nodes
        controllers = [b for b, n in nodes.items() if n.controller.epoch and not n.frozen]
        for broker_id in sorted(self.alive):
            session = self.world.sessions.get(broker_id)
            lost = session is None or nodes[session[0]].controller.epoch is None
            wanders = self.random.random() < 0.02
            if controllers and (lost or wanders):
                self.world.hello(broker_id, self.random.choice(controllers))

    # --- invariants -------------------------------------------------------------------

    def history(self, number: int) -> list[PartitionState]:
        return self.all_states(self.world.store.partitions[f"orders-{number}"].tp)

    def check(self) -> None:
        record = self.world.store.record
        assert record is not None
        if record.holder_identity:
            holder = self.holders.setdefault(record.controller_epoch, record.holder_identity)
            assert holder == record.holder_identity, "one holder per recorded epoch"
        for node_id, node in self.world.nodes.items():
            news, self.seen[node_id] = node.effects[self.seen[node_id] :], len(node.effects)
            for effect in news:
                if isinstance(effect, SendLeaderAndIsr | SendFullState):
                    for command in effect.partitions:
                        assert command.state in self.all_states(command.tp), "sent as committed"
                if isinstance(effect, ReplyAlterPartition):
                    self.check_response(node_id, effect)

    def all_states(self, tp: TopicPartition) -> list[PartitionState]:
        first = [state()]
        return first + self.world.store.history.get(tp, [])

    def check_response(self, node_id: int, response: ReplyAlterPartition) -> None:
        request = self.proposals[(node_id, response.request_id)]
        stored = response.stored
        if stored is None:
            assert response.error in (
                ErrorCode.NOT_CONTROLLER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.STALE_BROKER_EPOCH,
            )
            return
        assert stored in self.all_states(request.tp)
        if response.error is ErrorCode.NONE:
            assert frozenset(stored.isr) == frozenset(request.isr)
        if response.error is ErrorCode.INVALID_UPDATE_VERSION:
            assert stored.partition_epoch > request.partition_epoch

    def heal(self) -> None:
        """Stop the faults, and check that each partition that can have a leader gets one."""
        world = self.world
        world.network.hold_nothing()
        for held in list(world.held):
            world.time_out(held)
            if self.random.random() < 0.5:
                world.release()
        world.held.clear()
        for node in world.nodes.values():
            node.cut, node.frozen = False, False
            node.inbox.append(WatchLost())
        self.start()
        for _ in range(30):
            world.advance(500)
            self.connect()
        active = [n for n in world.nodes.values() if n.controller.epoch is not None]
        assert len(active) == 1
        for number in range(PARTITIONS):
            self.check_rest(world.state(number), active[0].controller.queue_length)
            for broker_id in sorted(self.alive):
                node_id = world.sessions[broker_id][0]
                assert world.states_sent(node_id, broker_id, number)[-1] == world.state(number)
        self.check()

    def check_rest(self, found: PartitionState, queue_length: int) -> None:
        assert queue_length == 0
        clean = [e for e in found.candidates if e.broker_epoch >= self.clean[e.broker_id]]
        if clean:
            entry = found.entry_of(found.leader)
            assert entry is not None, f"no leader though {clean} could lead"
            assert entry.broker_epoch == self.epochs[found.leader]
        else:
            assert found.leader == -1
            assert found.reason in ("UncleanLastReplica", "StateLost")


@pytest.mark.parametrize("seed", range(60))
def test_schedule(seed: int) -> None:
    Schedule(seed).run()
