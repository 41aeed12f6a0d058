"""What this broker knows of the cluster: live brokers, topics, leaders.

UpdateMetadata alone fills the cache, which is eventually consistent: clients drop metadata with an
older leader epoch than they have seen, and the cache drops states with an older partition epoch.

While a topic is being deleted, another of the same name may be created. The name belongs to the
topic whose first update came last: a later update of the old topic does not take the name back.
When a topic goes, its name goes to the other one, so that the order of updates does not matter.

A broker that is live no more stays in the list for a while, though nobody is told that it leads: a
client that finds a broker missing drops what it has for it at once (ADR 0075).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline.broker_interface import (
    BrokerMetadata,
    MetadataSnapshot,
    PartitionMetadata,
    TopicMetadata,
)
from strandline.model import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionState,
    TopicId,
    TopicPartition,
)

from .messages import MetadataUpdate

DEAD_LISTED_MS: Final = 60_000
"""Time for clients to learn of the leaders that follow those of a broker that is live no more."""


@dataclass(slots=True, kw_only=True)
class _Topic:
    """One topic's partitions; changed by its own methods alone."""

    name: str
    partitions: dict[int, PartitionState] = field(default_factory=dict)

    def learn(self, partition: int, state: PartitionState) -> None:
        known = self.partitions.get(partition)
        if known is None or known.partition_epoch <= state.partition_epoch:
            self.partitions[partition] = state

    def forget(self, partition: int) -> None:
        self.partitions.pop(partition, None)


class MetadataCache:
    """The last metadata the controller announced; it ignores an older controller's updates."""

    def __init__(
        self,
        cluster_id: str,
        *,
        now_ms: Callable[[], int],
        controller_epoch: ControllerEpoch = ControllerEpoch(0),
    ) -> None:
        """Begin empty; controller_epoch is the highest that this broker ever accepted."""
        self._now_ms = now_ms
        self._cluster_id = cluster_id
        self._controller_epoch = controller_epoch
        self._controller_id = NO_LEADER
        self._brokers: dict[BrokerId, LiveBroker] = {}
        self._lately: dict[BrokerId, tuple[LiveBroker, int]] = {}
        """Brokers that are live no more, and until when they are listed."""
        self._topics: dict[TopicId, _Topic] = {}
        self._ids_by_name: dict[str, TopicId] = {}
        self._snapshots: dict[str, MetadataSnapshot] = {}
        self._on_change: Callable[[], None] = lambda: None

    def watch(self, on_change: Callable[[], None]) -> None:
        """Have a function called after each update that is taken, in place of an earlier one."""
        self._on_change = on_change

    def live_broker(self, broker_id: BrokerId) -> LiveBroker | None:
        """Return a live broker, None if it is unknown or not live."""
        return self._brokers.get(broker_id)

    def live_brokers(self) -> Collection[LiveBroker]:
        """Return all live brokers."""
        return self._brokers.values()

    def apply(self, update: MetadataUpdate) -> bool:
        """Take an update; False (and no change) if an older controller sent it."""
        if update.controller_epoch < self._controller_epoch:
            return False
        self._snapshots = {}
        self._controller_epoch = update.controller_epoch
        self._controller_id = update.controller_id
        self._note_live({broker.broker_id: broker for broker in update.live_brokers})
        commands = list(update.partitions)
        if update.full:
            commands.sort(key=self._age)
            self._topics, self._ids_by_name = {}, {}
        for tp in update.removed:
            self._forget(tp)
        for command in commands:
            self._learn(command)
        self._on_change()
        return True

    def resolve(self, topic_name: str, partition: int) -> TopicPartition | None:
        """Return the partition of the present topic of that name, None if unknown."""
        topic_id = self._ids_by_name.get(topic_name)
        if topic_id is None or partition not in self._topics[topic_id].partitions:
            return None
        return TopicPartition(topic_id=topic_id, partition=partition)

    def leaders_of(self, topic_names: Sequence[str] | None) -> frozenset[BrokerId]:
        """Return the leaders of all partitions of these topics, None for all topics."""
        wanted = self._ids_by_name if topic_names is None else topic_names
        ids = [self._ids_by_name[name] for name in wanted if name in self._ids_by_name]
        states = (state for each in ids for state in self._topics[each].partitions.values())
        return frozenset(state.leader for state in states)

    def snapshot(self, listener: str) -> MetadataSnapshot:
        """Return the cluster by the addresses of that listener, without brokers that lack it.

        It is made once after each update and each end of a listing: until then every caller gets
        the same object.
        """
        now_ms = self._now_ms()
        for broker_id in [each for each, (_, until) in self._lately.items() if until <= now_ms]:
            del self._lately[broker_id]
            self._snapshots = {}
        if listener not in self._snapshots:
            self._snapshots[listener] = self._make_snapshot(listener)
        return self._snapshots[listener]

    def _note_live(self, live: dict[BrokerId, LiveBroker]) -> None:
        until_ms = self._now_ms() + DEAD_LISTED_MS
        gone = self._brokers.keys() - live.keys()
        self._lately.update({each: (self._brokers[each], until_ms) for each in gone})
        for broker_id in self._lately.keys() & live.keys():
            del self._lately[broker_id]
        self._brokers = live

    def _make_snapshot(self, listener: str) -> MetadataSnapshot:
        listed = {each: broker for each, (broker, _) in self._lately.items()} | self._brokers
        return MetadataSnapshot(
            cluster_id=self._cluster_id,
            controller=self._controller_id,
            brokers=tuple(
                BrokerMetadata(
                    broker_id=broker_id,
                    endpoint=endpoint,
                    rack=broker.rack,
                    is_live=broker_id in self._brokers,
                )
                for broker_id, broker in sorted(listed.items())
                for endpoint in broker.endpoints
                if endpoint.listener == listener
            ),
            topics=tuple(
                TopicMetadata(
                    name=name,
                    topic_id=topic_id,
                    partitions=tuple(
                        self._partition(number, state)
                        for number, state in sorted(self._topics[topic_id].partitions.items())
                    ),
                )
                for name, topic_id in sorted(self._ids_by_name.items())
            ),
        )

    def _partition(self, number: int, state: PartitionState) -> PartitionMetadata:
        return PartitionMetadata(
            partition=number,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr_ids,
            offline=tuple(r for r in state.replicas if r not in self._brokers),
        )

    def _age(self, command: PartitionCommand) -> int:
        """Order the topics of a full state: former bearers of a name, present ones, new ones."""
        topic_id = command.tp.topic_id
        if topic_id not in self._topics:
            return 2
        return 1 if self._ids_by_name[self._topics[topic_id].name] == topic_id else 0

    def _learn(self, command: PartitionCommand) -> None:
        topic_id = command.tp.topic_id
        if topic_id not in self._topics:
            self._topics[topic_id] = _Topic(name=command.topic_name)
            self._ids_by_name[command.topic_name] = topic_id
        self._topics[topic_id].learn(command.tp.partition, command.state)

    def _forget(self, tp: TopicPartition) -> None:
        topic = self._topics.get(tp.topic_id)
        if topic is None:
            return
        topic.forget(tp.partition)
        if topic.partitions:
            return
        del self._topics[tp.topic_id]
        if self._ids_by_name[topic.name] == tp.topic_id:
            del self._ids_by_name[topic.name]
            for topic_id, other in self._topics.items():
                if other.name == topic.name:
                    self._ids_by_name[topic.name] = topic_id
