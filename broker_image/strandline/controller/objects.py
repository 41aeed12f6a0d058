"""Handlers of stored objects during a term: lists, reads and watch events.

Watch events are hints: they are taken over when they are not older than what is known, and
whatever follows from them is checked by the compare-and-swap of a write.
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

from .brokers import Standing
from .effects import Effect
from .notices import BrokerDead, TopicGone
from .partition_work import Finished
from .reports import report
from .store_events import (
    ClusterLoaded,
    PartitionAnswered,
    PartitionDeleted,
    PartitionObserved,
    TopicsRead,
)
from .term import Term


def on_loaded(term: Term, event: ClusterLoaded, now_ms: int) -> list[Effect]:
    """Take over the quorum lists, the first ones of a term or those after a lost watch.

    Every registered broker counts as live, and is probed, until it opens a session.
    """
    effects: list[Effect] = []
    for topic in event.topics:
        on_topic(term, topic, now_ms)
    term.deletion.suspect(set(term.topics) - {topic.topic_id for topic in event.topics})
    for broker in event.brokers:
        effects.extend(on_broker(term, broker, now_ms))
        entry = term.brokers.entries[broker.broker_id]
        if entry.standing is Standing.AWAITED and entry.probe is None:
            term.liveness.suspect(entry, now_ms)
    for name in sorted(set(term.table.slots) - {found.name for found in event.partitions}):
        effects.extend(_forget_partition(term, name))
    for partition in sorted(event.partitions, key=lambda found: found.tp):
        effects.extend(on_partition(term, PartitionObserved(partition=partition), now_ms))
    return effects


def on_partition(term: Term, event: PartitionObserved, now_ms: int) -> list[Effect]:
    """Take note of a Partition; it may be our own write, seen before its answer."""
    partition = event.partition
    if term.deletion.is_gone(partition.tp.topic_id) or not term.table.adopt(partition, now_ms):
        return []
    slot = term.table.slots[partition.name]
    kind: ElectionKind | None = None
    if slot.writing is not None and slot.writing.after == partition.state:
        kind = slot.writing.kind
    return term.take_over(partition, slot, now_ms, kind=kind)


def on_partition_answer(term: Term, event: PartitionAnswered, now_ms: int) -> list[Effect]:
    """Take the answer of a read or a write of ours."""
    finished, effects = term.work.answered(event, now_ms)
    if finished is None:
        return effects
    if finished.partition is None:
        return effects + _forget_partition(term, finished.slot.stored.name)
    return effects + _on_finished(term, finished, finished.partition, now_ms)


def _on_finished(
    term: Term, finished: Finished, partition: StoredPartition, now_ms: int
) -> list[Effect]:
    effects: list[Effect] = []
    written = finished.written
    if written is not None:
        former = None if written.before is None else term.brokers.entries.get(written.before.leader)
        dead = former is not None and former.standing is Standing.DEAD
        detect_ms = former.dead_ms - former.suspected_ms if former is not None and dead else 0
        effects.extend(report(written, partition, now_ms=now_ms, detect_ms=detect_ms))
    same = finished.slot.stored.tp == partition.tp
    if same and partition.state is None and finished.slot.stored.state is not None:
        term.table.lost_status(partition, now_ms)
        return effects
    if term.table.adopt(partition, now_ms):
        slot = term.table.slots[partition.name]
        kind = None if written is None else written.kind
        effects.extend(term.take_over(partition, slot, now_ms, kind=kind))
    return effects


def on_partition_deleted(term: Term, event: PartitionDeleted) -> list[Effect]:
    """Forget a Partition object. Its data stays unless its topic is gone, too."""
    slot = term.table.slots.get(event.name)
    if slot is None or slot.stored.tp != event.tp:
        return []
    effects = _forget_partition(term, event.name)
    if event.tp.topic_id not in term.topics:
        term.deletion.suspect([event.tp.topic_id])
    return effects


def _forget_partition(term: Term, name: str) -> list[Effect]:
    slot = term.table.slots[name]
    if slot.stored.tp.topic_id not in term.topics:
        term.deletion.suspect([slot.stored.tp.topic_id])
    return term.work.remove(name)


def on_broker(term: Term, stored: StoredBroker, now_ms: int) -> list[Effect]:
    """Take note of a Broker. A higher broker epoch ends the one before (KIP-380)."""
    before = term.brokers.entries.get(stored.broker_id)
    known = None if before is None or before.registration is None else before.registration
    ended = term.brokers.register(stored, now_ms)
    entry = term.brokers.entries[stored.broker_id]
    effects: list[Effect] = []
    if ended is not None:
        effects.append(
            BrokerDead(
                broker_id=stored.broker_id,
                broker_epoch=ended,
                reason="higher broker epoch registered",
                detect_ms=0,
            )
        )
        session_id = term.brokers.end_session(entry)
        term.shutdowns.cancel(stored.broker_id)
        effects.extend(term.close(session_id, ErrorCode.STALE_BROKER_EPOCH))
    if entry.registration is not None and (
        known is None or entry.registration.broker_epoch != known.broker_epoch
    ):
        term.queue_partitions_of(BrokerId(stored.broker_id), now_ms)
    return effects


def on_topic(term: Term, topic: StoredTopic, now_ms: int) -> None:
    """Follow a topic's configuration: min ISR is a status write, the rest is sent."""
    if term.deletion.is_gone(topic.topic_id):
        return
    known = term.topics.get(topic.topic_id)
    term.topics[topic.topic_id] = topic
    if known is not None and known.settings != topic.settings:
        term.announcements.settings_changed(topic)
    for name in term.table.of_topic(topic.topic_id):
        term.work.queue(name, now_ms)


def on_topic_deleted(term: Term, topic_id: TopicId) -> None:
    """Ask for proof that a topic is gone."""
    term.deletion.suspect([topic_id])


def on_topics_read(term: Term, event: TopicsRead, now_ms: int) -> list[Effect]:
    """Delete the logs of the topics that a quorum list proves to be gone."""
    effects: list[Effect] = []
    gone = term.deletion.answered(event, now_ms)
    for topic in event.topics:
        on_topic(term, topic, now_ms)
    for topic_id in gone:
        effects.extend(_delete_topic(term, topic_id))
    return effects


def _delete_topic(term: Term, topic_id: TopicId) -> list[Effect]:
    term.topics.pop(topic_id, None)
    effects: list[Effect] = []
    for name in term.table.of_topic(topic_id):
        effects.extend(term.work.remove(name))
    told = term.announcements.replicas_of_topic(topic_id)
    everything = set(told)
    for entry in term.brokers.sessions():
        logs = {tp for tp, replicas in told.items() if entry.broker_id in replicas}
        logs |= {tp for tp in entry.hosted if tp.topic_id == topic_id}
        everything |= logs
        for tp in logs:
            entry.hosted.pop(tp, None)
        effects.extend(term.announcements.stop_replicas(entry, sorted(logs)))
    for tp in sorted(everything):
        term.announcements.forget(tp)
    effects.append(TopicGone(partitions=tuple(sorted(everything))))
    return effects
