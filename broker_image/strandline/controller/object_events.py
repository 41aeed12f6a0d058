"""Handlers of Partitions and topics while the controller is active: lists, reads, watch events.

Watch events are hints: the handler adopts an object that is not older than the known one, and the
compare-and-swap of a write checks every decision that follows.

Invariant: the handler propagates every newer state of a partition, also another process's. Of two
objects of one partition only the one that counts reaches the reconciler and the propagator.
"""

from __future__ import annotations

from itertools import chain
from typing import assert_never

from strandline.model import ElectionKind, StoredPartition, StoredTopic, TopicId, TopicPartition

from . import store_events
from .active_controller import ActiveController
from .broker_entry import Awaited, Dead
from .effects import ControllerEffect
from .isr_entries import entries_above_registration
from .notices import PartitionSetAside, TopicDeletionConfirmed
from .partition_entry import Finished
from .write_notices import notices_of


class ObjectEventHandler:
    """Handles what the store and its watches show of Partitions and ReplicatedTopics."""

    def __init__(self, active: ActiveController) -> None:
        self._active = active

    def handle(self, event: store_events.ObjectEvent, now_ms: int) -> list[ControllerEffect]:
        """Take one event about stored objects."""
        match event:
            case store_events.PartitionObserved():
                return self._on_observed(event.partition, now_ms)
            case store_events.PartitionResponseReceived():
                return self._on_partition_response(event, now_ms)
            case store_events.PartitionDeleted():
                return self._on_partition_deleted(event, now_ms)
            case store_events.TopicObserved():
                return self._on_topic(event.topic, now_ms)
            case store_events.TopicDeleted():
                self._active.topics.suspect([event.topic_id])
            case store_events.TopicsRead():
                return self._on_topics_read(event, now_ms)
            case store_events.ClusterRecordResponseReceived():
                self._active.cluster_status.on_response(event, now_ms)
            case store_events.WatchLost():
                self._active.reload.ask(now_ms)
            case store_events.ClusterLoaded():
                is_asked_for = self._active.reload.on_cluster_loaded(event, now_ms)
                return self.on_loaded(event, now_ms) if is_asked_for else []
            case _:
                assert_never(event)
        return []

    def on_loaded(self, event: store_events.ClusterLoaded, now_ms: int) -> list[ControllerEffect]:
        """Adopt quorum lists, at first or after a lost watch; probe each broker without session."""
        active = self._active
        effects: list[ControllerEffect] = []
        found = {each.name for each in event.partitions}
        active.table.forget_aside(active.table.names_aside() - found)
        for topic in event.topics:
            effects.extend(self._on_topic(topic, now_ms))
        active.topics.suspect(set(active.topics.known) - {each.topic_id for each in event.topics})
        for broker in event.brokers:
            effects.extend(active.register_broker(broker, now_ms))
            entry = active.brokers.entries[broker.broker_id]
            if isinstance(entry, Awaited) and entry.suspicion is None:
                active.brokers.await_again(entry, now_ms)
        for name in sorted(set(active.table.entries) - found):
            effects.extend(self._forget_partition(name, now_ms))
        for partition in sorted(event.partitions, key=_precedence):
            effects.extend(self._on_partition(partition, now_ms))
            known = active.table.entry_of(partition.tp)
            if known is None or known.stored.name != partition.name:
                continue
            if known.stored.resource_version != partition.resource_version:
                # The list is older than what was known, or the store went back: a read tells.
                active.reconciler.doubt_status(known, now_ms)
        return effects

    def _on_observed(self, partition: StoredPartition, now_ms: int) -> list[ControllerEffect]:
        """Take what the watch showed, unless it is what we know: our own write, after its response.

        What the response changed is queued, and else nothing changed.
        """
        known = self._active.table.entries.get(partition.name)
        if known is not None and known.is_known(partition):
            return []
        return self._on_partition(partition, now_ms)

    def _on_partition(self, partition: StoredPartition, now_ms: int) -> list[ControllerEffect]:
        """Take note of a Partition; it may show our own write before the response to it."""
        active = self._active
        topic_id = partition.tp.topic_id
        if active.topics.is_confirmed(topic_id):
            return []
        if not active.table.counts(partition, active.topics.known.get(topic_id)):
            return self._set_aside(partition)
        if not active.table.adopt(partition, now_ms):
            if partition.state is None:
                # The event is late, or the status is lost: a quorum read tells.
                active.reconciler.doubt_status(active.table.entries[partition.name], now_ms)
            return []
        kind = active.table.entries[partition.name].kind_of(partition.state)
        return self._on_newer_state(partition, now_ms, kind=kind)

    def _on_partition_response(
        self, event: store_events.PartitionResponseReceived, now_ms: int
    ) -> list[ControllerEffect]:
        """Take the response to a read or a write of ours."""
        finished, effects = self._active.reconciler.on_partition_response(event, now_ms)
        if finished is None:
            return effects
        if finished.partition is None:
            return effects + self._forget_partition(finished.entry.stored.name, now_ms)
        return effects + self._on_finished(finished, finished.partition, now_ms)

    def _on_finished(
        self, finished: Finished, partition: StoredPartition, now_ms: int
    ) -> list[ControllerEffect]:
        active, written, known = self._active, finished.written, finished.entry.stored
        effects: list[ControllerEffect] = []
        if written is not None:
            leader = None if written.before is None else written.before.leader
            former = None if leader is None else active.brokers.entries.get(leader)
            detect_ms = former.detect_ms if isinstance(former, Dead) else 0
            effects.extend(notices_of(written, partition, now_ms=now_ms, detect_ms=detect_ms))
        if known.tp != partition.tp:
            return effects + self._on_partition(partition, now_ms)
        if known.state is not None and partition.state is None:
            finished.entry.adopt_without_status(partition, now_ms)
        elif active.table.adopt(partition, now_ms):
            kind = None if written is None else written.kind
            effects.extend(self._on_newer_state(partition, now_ms, kind=kind))
        return effects

    def _on_newer_state(
        self, partition: StoredPartition, now_ms: int, *, kind: ElectionKind | None
    ) -> list[ControllerEffect]:
        """Propagate and reconcile a newer object; kind is the election if our write made it."""
        active, state = self._active, partition.state
        if state is None:
            active.reconciler.queue(partition.name, now_ms)
            return []
        active.see_epoch(state.controller_epoch)
        active.moves.note(partition.name, state)
        effects = active.propagator.make_way(partition, now_ms)
        active.propagator.partition_changed(partition, now_ms, kind=kind)
        active.reconciler.queue(partition.name, now_ms)
        above = entries_above_registration(state, active.brokers.entries)
        return [*effects, *active.read_brokers(each.broker_id for each in above)]

    def _on_partition_deleted(
        self, event: store_events.PartitionDeleted, now_ms: int
    ) -> list[ControllerEffect]:
        """Forget a Partition object. Its data stays unless its topic is deleted, too."""
        entry = self._active.table.entries.get(event.name)
        if entry is None or entry.stored.tp != event.tp:
            self._active.table.forget_aside([event.name])
            return []
        return self._forget_partition(event.name, now_ms)

    def _forget_partition(self, name: str, now_ms: int) -> list[ControllerEffect]:
        active = self._active
        topic_id = active.table.entries[name].stored.tp.topic_id
        active.topics.suspect_unknown([topic_id])
        effects = active.reconciler.forget(name)
        self._take_back(topic_id, now_ms)
        return effects

    def _set_aside(self, partition: StoredPartition) -> list[ControllerEffect]:
        """Keep a Partition object out of every decision, and tell of it once."""
        effects = self._active.reconciler.forget(partition.name)
        if self._active.table.set_aside(partition):
            effects.append(
                PartitionSetAside(
                    tp=partition.tp, topic_name=partition.topic_name, name=partition.name
                )
            )
        return effects

    def _take_back(self, topic_id: TopicId, now_ms: int) -> None:
        """Adopt the objects of a topic that were set aside and count now."""
        active = self._active
        topic = active.topics.known.get(topic_id)
        for partition in active.table.aside_of(topic_id):
            if active.table.counts(partition, topic):
                active.table.adopt(partition, now_ms)
                # Brokers may have accepted states of the other object: no ISR is trusted.
                active.table.entries[partition.name].mark_state_lost()
                active.reconciler.queue_first(partition.name, now_ms)

    def _on_topic(self, topic: StoredTopic, now_ms: int) -> list[ControllerEffect]:
        """Take a topic that a watch or a list of usable topics showed.

        If its deletion is confirmed, the event is late, or the topic was adopted: a list tells.
        """
        self._active.topics.note_observed(topic.topic_id)
        return self._follow_topic(topic, now_ms)

    def _follow_topic(self, topic: StoredTopic, now_ms: int) -> list[ControllerEffect]:
        """Follow a topic's configuration: write a changed min ISR, send other settings."""
        active = self._active
        if active.topics.is_confirmed(topic.topic_id):
            return []
        known = active.topics.keep(topic)
        active.applied_configs.topic_changed(topic, now_ms)
        if known is None or known.settings != topic.settings:
            active.propagator.settings_changed(topic)
        effects: list[ControllerEffect] = []
        for name in active.table.of_topic(topic.topic_id):
            stored = active.table.entries[name].stored
            if active.table.counts(stored, topic):
                active.reconciler.queue(name, now_ms)
            else:
                effects.extend(self._set_aside(stored))
        self._take_back(topic.topic_id, now_ms)
        return effects

    def _on_topics_read(
        self, event: store_events.TopicsRead, now_ms: int
    ) -> list[ControllerEffect]:
        """Delete the logs of the recorded topics that a quorum list lacks (ADR 0037).

        The Partitions of a topic that returned may have been passed over: load them again.
        """
        active = self._active
        effects: list[ControllerEffect] = []
        verdicts = active.topics.on_topics_read(event, now_ms)
        active.cluster_status.take(verdicts)
        active.cluster_status.strays_may_have_changed(now_ms)
        if verdicts.returned:
            active.reload.ask(now_ms)
        for topic in verdicts.current:
            effects.extend(self._follow_topic(topic, now_ms))
        for name in chain.from_iterable(map(active.table.of_topic, verdicts.committed)):
            active.reconciler.queue(name, now_ms)
        for topic_id in verdicts.deleted:
            effects.extend(self._delete_topic(topic_id))
        return effects

    def _delete_topic(self, topic_id: TopicId) -> list[ControllerEffect]:
        active = self._active
        effects: list[ControllerEffect] = []
        active.applied_configs.forget(topic_id)
        for name in active.table.of_topic(topic_id):
            effects.extend(active.reconciler.forget(name))
        active.table.forget_aside(each.name for each in active.table.aside_of(topic_id))
        sent = active.propagator.replicas_of_topic(topic_id)
        everything = set(sent)
        for session in active.brokers.sessions():
            logs = {tp for tp, replicas in sent.items() if session.broker_id in replicas}
            logs |= {tp for tp in session.hosted if tp.topic_id == topic_id}
            logs |= active.moves.stopped_on(session.broker_id, topic_id)
            everything |= logs
            effects.extend(active.propagator.stop_replicas(session, sorted(logs)))
        for tp in sorted(everything):
            active.propagator.forget(tp)
        if everything:
            effects.append(TopicDeletionConfirmed(partitions=tuple(sorted(everything))))
        return effects


def _precedence(partition: StoredPartition) -> tuple[TopicPartition, bool, str]:
    """Order listed objects: of two of an unknown topic's partition the first one counts."""
    return partition.tp, partition.state is None, partition.name
