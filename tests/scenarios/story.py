"""One run of a scenario: the world, and the state of the script as a controller.

In a scenario without controllers the script is the controller: it commits states, announces them
and responds to proposals, and may do so wrongly. In one with controllers these decide.
"""

from __future__ import annotations

from dataclasses import replace

from strandline import component_settings
from strandline.config.replication import ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.core.effects import ProposeIsr
from strandline.core.events import AlterPartitionResponseReceived, Event
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
)
from tests.support.world.broker import Broker
from tests.support.world.network import SCRIPT, Message
from tests.support.world.store import FakeStore
from tests.support.world.world import World

from .language import ScenarioError


class Story:
    """One run; only commands change it. `proposals` are those that the script has received."""

    def __init__(self) -> None:
        self.world = World()
        self.world.network.register(SCRIPT, self._receive)
        self.core_settings = component_settings.core(TimingConfig(), ReplicationConfig())
        self.controllers: tuple[int, ...] = ()
        self.proposals: dict[int, list[ProposeIsr]] = {}
        self.late: list[AlterPartitionResponseReceived] = []
        self.saved: PartitionState | None = None
        self.backup: FakeStore | None = None
        self._last_id = 100

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def broker(self, broker_id: int) -> Broker:
        found = self.world.replication.brokers.get(broker_id)
        if found is None:
            known = ", ".join(map(str, self.world.replication.brokers))
            raise ScenarioError(f"no broker {broker_id}; brokers are: {known}")
        return found

    def alive(self, broker_ids: tuple[int, ...] | None) -> list[Broker]:
        """Return the named brokers, or all brokers, that have a process."""
        wanted = tuple(self.world.replication.brokers) if broker_ids is None else broker_ids
        return [each for each in map(self.broker, wanted) if each.alive]

    def step(self, broker_id: int, event: Event) -> None:
        self.broker(broker_id)
        self.world.replication.step(broker_id, event)

    def entries(self, isr: tuple[str, ...]) -> tuple[IsrEntry, ...]:
        """Return ISR entries: `1` has broker 1's present broker epoch, `1@2` has epoch 2."""
        entries = []
        for each in isr:
            broker_id, _, epoch = each.partition("@")
            broker = self.broker(int(broker_id))
            present = BrokerEpoch(int(epoch)) if epoch else broker.broker_epoch
            entries.append(IsrEntry(broker_id=broker.broker_id, broker_epoch=present))
        return tuple(entries)

    def commit(
        self, *, leader: BrokerId, isr: tuple[IsrEntry, ...], leader_epoch: LeaderEpoch
    ) -> PartitionState:
        """Store the next state of partition 0 as the script's controller."""
        if self.controllers:
            raise ScenarioError("controllers decide in this story; `write` is another writer")
        stored = self.world.state()
        committed = replace(
            stored,
            leader=leader,
            isr=isr,
            leader_epoch=leader_epoch,
            partition_epoch=PartitionEpoch(stored.partition_epoch + 1),
        )
        self.world.put_partition(committed)
        return committed

    def _receive(self, message: Message) -> None:
        if isinstance(message.content, ProposeIsr):
            self.proposals.setdefault(int(message.source), []).append(message.content)
