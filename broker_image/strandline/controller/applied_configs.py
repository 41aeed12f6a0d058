"""Which brokers work with the present settings of each topic, as their responses say (ADR 0060).

A broker does once it has accepted LeaderAndIsr with these settings for each replica of the topic
that it has. It counts for good: at a restart it gets the settings before it does anything with the
replica. So does each broker that the topic's status names with the present digest, and a controller
that takes over begins with what the status says and writes nothing.

Invariant: a topic is told of only when its status must change, and at most so often as the period.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from strandline.errors import ErrorCode
from strandline.model import (
    AppliedConfig,
    BrokerId,
    PartitionCommand,
    PartitionState,
    StoredTopic,
    TopicId,
    TopicPartition,
    TopicSettings,
)

from .context import ControllerContext
from .effects import ControllerEffect, SendFullState, SendLeaderAndIsr
from .elections import effective_min_isr
from .events import BrokerResponseReceived
from .topic_effects import TellAppliedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What a command gave a replica of the settings."""

    settings: TopicSettings
    min_insync_replicas: int


@dataclass(slots=True, kw_only=True)
class _Replicas:
    """The replicas of a partition as last sent, and what each has accepted."""

    state: PartitionState
    accepted: dict[BrokerId, _Given] = field(default_factory=dict)

    def take_state(self, state: PartitionState) -> bool:
        """Take a later state. Returns: whether it has other replicas."""
        before, self.state = self.state, state
        return before.replicas != state.replicas

    def take_accepted(self, broker_id: BrokerId, given: _Given) -> bool:
        """Take what a broker accepted. Returns: whether that is something else than before."""
        before = self.accepted.get(broker_id)
        self.accepted[broker_id] = given
        return before != given


class AppliedConfigs:
    """What brokers accepted, and which topics must be looked at."""

    def __init__(self, context: ControllerContext) -> None:
        self._topics, self._timing = context.topics, context.timing
        self._unanswered: dict[BrokerId, dict[int, tuple[PartitionCommand, ...]]] = {}
        self._replicas: dict[TopicId, dict[TopicPartition, _Replicas]] = {}
        self._due_ms: dict[TopicId, int] = {}
        self._look_ms = 0

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `tick` looks at topics next."""
        return self._look_ms if self._due_ms else None

    def topic_changed(self, topic: StoredTopic, now_ms: int) -> None:
        """Look at a topic at the end of the period; one without a digest is never told of."""
        if not topic.config_digest:
            return
        due_ms = now_ms + self._timing.applied_configs_period_ms
        if not self._due_ms:
            self._look_ms = due_ms
        self._due_ms[topic.topic_id] = min(due_ms, self._due_ms.get(topic.topic_id, due_ms))

    def forget(self, topic_id: TopicId) -> None:
        """Forget a topic that is deleted."""
        self._replicas.pop(topic_id, None)
        self._due_ms.pop(topic_id, None)

    def note_sent(self, effects: Iterable[ControllerEffect], now_ms: int) -> None:
        """Take note of what brokers are sent."""
        for effect in effects:
            if isinstance(effect, SendFullState):
                # Responses on the session before this one do not come any more.
                self._unanswered.pop(effect.broker_id, None)
            if isinstance(effect, SendFullState | SendLeaderAndIsr):
                unanswered = self._unanswered.setdefault(effect.broker_id, {})
                unanswered[effect.request_id] = effect.partitions
                while len(unanswered) > self._timing.unanswered_commands_max:
                    del unanswered[next(iter(unanswered))]
                for command in effect.partitions:
                    self._note_replicas(command, now_ms)

    def _note_replicas(self, command: PartitionCommand, now_ms: int) -> None:
        of_topic = self._replicas.setdefault(command.tp.topic_id, {})
        known = of_topic.setdefault(command.tp, _Replicas(state=command.state))
        if known.take_state(command.state):
            self._look_at(command.tp.topic_id, now_ms)

    def on_response(self, event: BrokerResponseReceived, now_ms: int) -> None:
        """Take note of what a broker accepted."""
        sent = self._unanswered.get(event.broker_id, {}).pop(event.request_id, ())
        if event.error is not ErrorCode.NONE:
            return
        accepted = {tp for tp, error in event.partitions if error is ErrorCode.NONE}
        for command in sent:
            known = self._replicas.get(command.tp.topic_id, {}).get(command.tp)
            given = _Given(
                settings=command.settings, min_insync_replicas=command.state.min_insync_replicas
            )
            if command.tp not in accepted or known is None:
                continue
            if known.take_accepted(event.broker_id, given):
                self._look_at(command.tp.topic_id, now_ms)

    def _look_at(self, topic_id: TopicId, now_ms: int) -> None:
        topic = self._topics.known.get(topic_id)
        if topic is not None:
            self.topic_changed(topic, now_ms)

    def tick(self, now_ms: int) -> list[ControllerEffect]:
        """Tell of topics whose status lacks brokers; look again whether it was stored."""
        if not self._due_ms or now_ms < self._look_ms:
            return []
        timing, effects = self._timing, list[ControllerEffect]()
        self._look_ms = now_ms + timing.applied_configs_period_ms
        for topic_id in [each for each, due_ms in self._due_ms.items() if due_ms <= now_ms]:
            topic = self._topics.known.get(topic_id)
            applied = None if topic is None else self._to_tell(topic)
            if topic is None or applied is None:
                del self._due_ms[topic_id]
                continue
            effects.append(
                TellAppliedConfig(
                    name=topic.name, resource_version=topic.resource_version, applied=applied
                )
            )
            self._due_ms[topic_id] = now_ms + timing.applied_configs_retry_ms
            if len(effects) == timing.applied_configs_at_once_max:
                break
        return effects

    def _to_tell(self, topic: StoredTopic) -> AppliedConfig | None:
        """Return what the topic's status must say, None if it does."""
        is_present = topic.applied.digest == topic.config_digest
        told = set(topic.applied.brokers) if is_present else set()
        behind, hosts = set[BrokerId](), set[BrokerId]()
        for partition in self._replicas.get(topic.topic_id, {}).values():
            wanted = _Given(
                settings=topic.settings,
                min_insync_replicas=effective_min_isr(partition.state, topic),
            )
            for broker_id in partition.state.replicas:
                hosts.add(broker_id)
                if partition.accepted.get(broker_id) != wanted:
                    behind.add(broker_id)
        applied = told | (hosts - behind)
        if applied == told:
            return None
        return AppliedConfig(digest=topic.config_digest, brokers=tuple(sorted(applied)))
