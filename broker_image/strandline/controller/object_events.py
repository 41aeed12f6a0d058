"""Handlers of stored objects while the controller is active: lists, reads, watch events.

Watch events are hints: an object is adopted when it is not older than the known one, and
the compare-and-swap of a write checks every decision that follows.
"""

from __future__ import annotations

from strandline.errors import ErrorCode
from strandline.model import (
    BrokerId,
    ElectionKind,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
)

from .active_controller import ActiveController
from .brokers import LivenessState
from .effects import ControllerEffect
from .notices import BrokerDead, TopicDeletionConfirmed
from .partition_reconciler import Finished
from .store_events import (
    ClusterLoaded,
    PartitionDeleted,
    PartitionObserved,
    PartitionResponseReceived,
    TopicsRead,
)
from .write_notices import notices_of


def on_loaded(
    active: ActiveController, event: ClusterLoaded, now_ms: int
) -> list[ControllerEffect]:
    """Adopt the quorum lists, the first ones of an epoch or those after a lost watch.

    Every registered broker counts as live, and is probed, until it opens a session.
    """
    effects: list[ControllerEffect] = []
    for topic in event.topics:
        on_topic(active, topic, now_ms)
    active.deletion.suspect(set(active.topics) - {topic.topic_id for topic in event.topics})
    for broker in event.brokers:
        effects.extend(on_broker(active, broker, now_ms))
        entry = active.brokers.entries[broker.broker_id]
        if entry.liveness is LivenessState.AWAITED and entry.probe is None:
            active.liveness.suspect(entry, now_ms)
    for name in sorted(set(active.table.entries) - {found.name for found in event.partitions}):
        effects.extend(_forget_partition(active, name))
    for partition in sorted(event.partitions, key=lambda found: found.tp):
        effects.extend(on_partition(active, PartitionObserved(partition=partition), now_ms))
    return effects


def on_partition(
    active: ActiveController, event: PartitionObserved, now_ms: int
) -> list[ControllerEffect]:
    """Take note of a Partition; it may be our own write, seen before its answer."""
    partition = event.partition
    if active.deletion.is_confirmed(partition.tp.topic_id) or not active.table.adopt(
        partition, now_ms
    ):
        return []
    entry = active.table.entries[partition.name]
    kind: ElectionKind | None = None
    if entry.writing is not None and entry.writing.after == partition.state:
        kind = entry.writing.kind
    return active.on_newer_state(partition, entry, now_ms, kind=kind)


def on_partition_response(
    active: ActiveController, event: PartitionResponseReceived, now_ms: int
) -> list[ControllerEffect]:
    """Take the answer of a read or a write of ours."""
    finished, effects = active.reconciler.answered(event, now_ms)
    if finished is None:
        return effects
    if finished.partition is None:
        return effects + _forget_partition(active, finished.entry.stored.name)
    return effects + _on_finished(active, finished, finished.partition, now_ms)


def _on_finished(
    active: ActiveController, finished: Finished, partition: StoredPartition, now_ms: int
) -> list[ControllerEffect]:
    effects: list[ControllerEffect] = []
    written = finished.written
    if written is not None:
        former = (
            None if written.before is None else active.brokers.entries.get(written.before.leader)
        )
        dead = former is not None and former.liveness is LivenessState.DEAD
        detect_ms = former.dead_ms - former.suspected_ms if former is not None and dead else 0
        effects.extend(notices_of(written, partition, now_ms=now_ms, detect_ms=detect_ms))
    same = finished.entry.stored.tp == partition.tp
    if same and partition.state is None and finished.entry.stored.state is not None:
        active.table.lost_status(partition, now_ms)
        return effects
    if active.table.adopt(partition, now_ms):
        entry = active.table.entries[partition.name]
        kind = None if written is None else written.kind
        effects.extend(active.on_newer_state(partition, entry, now_ms, kind=kind))
    return effects


def on_partition_deleted(
    active: ActiveController, event: PartitionDeleted
) -> list[ControllerEffect]:
    """Forget a Partition object. Its data stays unless its topic is deleted, too."""
    entry = active.table.entries.get(event.name)
    if entry is None or entry.stored.tp != event.tp:
        return []
    effects = _forget_partition(active, event.name)
    if event.tp.topic_id not in active.topics:
        active.deletion.suspect([event.tp.topic_id])
    return effects


def _forget_partition(active: ActiveController, name: str) -> list[ControllerEffect]:
    entry = active.table.entries[name]
    if entry.stored.tp.topic_id not in active.topics:
        active.deletion.suspect([entry.stored.tp.topic_id])
    return active.reconciler.remove(name)


def on_broker(
    active: ActiveController, stored: StoredBroker, now_ms: int
) -> list[ControllerEffect]:
    """Take note of a Broker. A higher broker epoch ends the one before (KIP-380)."""
    before = active.brokers.entries.get(stored.broker_id)
    known = None if before is None or before.registration is None else before.registration
    ended = active.brokers.register(stored, now_ms)
    entry = active.brokers.entries[stored.broker_id]
    effects: list[ControllerEffect] = []
    if ended is not None:
        effects.append(
            BrokerDead(
                broker_id=stored.broker_id,
                broker_epoch=ended,
                reason="higher broker epoch registered",
                detect_ms=0,
            )
        )
        session_id = active.brokers.end_session(entry)
        active.shutdowns.cancel(stored.broker_id)
        effects.extend(active.close(session_id, ErrorCode.STALE_BROKER_EPOCH))
    if entry.registration is not None and (
        known is None or entry.registration.broker_epoch != known.broker_epoch
    ):
        active.queue_partitions_of(BrokerId(stored.broker_id), now_ms)
    return effects


def on_topic(active: ActiveController, topic: StoredTopic, now_ms: int) -> None:
    """Follow a topic's configuration: min ISR is a status write, the rest is sent."""
    if active.deletion.is_confirmed(topic.topic_id):
        return
    known = active.topics.get(topic.topic_id)
    active.topics[topic.topic_id] = topic
    if known is not None and known.settings != topic.settings:
        active.propagator.settings_changed(topic)
    for name in active.table.of_topic(topic.topic_id):
        active.reconciler.queue(name, now_ms)


def on_topic_deleted(active: ActiveController, topic_id: TopicId) -> None:
    """Ask for proof that a topic was deleted."""
    active.deletion.suspect([topic_id])


def on_topics_read(
    active: ActiveController, event: TopicsRead, now_ms: int
) -> list[ControllerEffect]:
    """Delete the logs of the topics that a quorum list proves deleted."""
    effects: list[ControllerEffect] = []
    confirmed = active.deletion.answered(event, now_ms)
    for topic in event.topics:
        on_topic(active, topic, now_ms)
    for topic_id in confirmed:
        effects.extend(_delete_topic(active, topic_id))
    return effects


def _delete_topic(active: ActiveController, topic_id: TopicId) -> list[ControllerEffect]:
    active.topics.pop(topic_id, None)
    effects: list[ControllerEffect] = []
    for name in active.table.of_topic(topic_id):
        effects.extend(active.reconciler.remove(name))
    sent = active.propagator.replicas_of_topic(topic_id)
    everything = set(sent)
    for entry in active.brokers.sessions():
        logs = {tp for tp, replicas in sent.items() if entry.broker_id in replicas}
        logs |= {tp for tp in entry.hosted if tp.topic_id == topic_id}
        everything |= logs
        for tp in logs:
            entry.hosted.pop(tp, None)
        effects.extend(active.propagator.stop_replicas(entry, sorted(logs)))
    for tp in sorted(everything):
        active.propagator.forget(tp)
    effects.append(TopicDeletionConfirmed(partitions=tuple(sorted(everything))))
    return effects
