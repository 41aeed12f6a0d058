"""The stray topics of the cluster: logs that no ReplicatedTopic stands behind (ADR 0037).

Pure functions over what brokers reported; `cluster_status` writes what they find.
A topic is listed until each partition that has a log has a Partition, so that its placement can
still be read here while it is adopted. What a broker without a session had stays listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from strandline.model import BrokerId, StrayReplicas, StrayTopic, TopicId, TrashedReplica

from .broker_entry import InSession
from .context import ControllerContext
from .events import HostedReplica


@dataclass(slots=True)
class _Found:
    """What is known of the logs of one topic id."""

    topic_name: str
    on_disk: bool = False
    deleted_at_ms: int = 0
    brokers: dict[int, set[BrokerId]] = field(default_factory=dict)

    def add(self, partition: int, broker_ids: Iterable[BrokerId]) -> None:
        """Count brokers that have a log of a partition."""
        self.brokers.setdefault(partition, set()).update(broker_ids)

    def add_hosted(self, replica: HostedReplica, session: InSession) -> None:
        """Count a log on disk."""
        self.on_disk = True
        self.add(replica.tp.partition, [session.broker_id])

    def add_trashed(self, replica: TrashedReplica, session: InSession) -> None:
        """Count a log in the trash."""
        self.deleted_at_ms = max(self.deleted_at_ms, replica.deleted_at_ms)
        self.add(replica.tp.partition, [session.broker_id])

    def add_stored(self, stray: StrayTopic, partition: int, brokers: Iterable[BrokerId]) -> None:
        """Count a log that brokers had, which are not in session now."""
        self.on_disk |= not stray.in_trash
        self.deleted_at_ms = max(self.deleted_at_ms, stray.deleted_at_ms)
        self.add(partition, brokers)

    def topic(self, topic_id: TopicId) -> StrayTopic:
        """Return the value."""
        return StrayTopic(
            topic_id=topic_id,
            topic_name=self.topic_name,
            partition_count=max(self.brokers) + 1,
            in_trash=not self.on_disk,
            deleted_at_ms=self.deleted_at_ms,
            replicas=tuple(
                StrayReplicas(partition=partition, brokers=tuple(sorted(broker_ids)))
                for partition, broker_ids in sorted(self.brokers.items())
            ),
        )


def find_strays(context: ControllerContext, stored: Sequence[StrayTopic]) -> list[StrayTopic]:
    """Return all strays: those on disk first, then those deleted last.

    Shape:   stored is what the BrokerCluster lists now
    """
    listed = context.topics.missing.union(stray.topic_id for stray in stored)
    known, covered = context.topics.known, _numbers_of_partitions(context)
    found: dict[TopicId, _Found] = {}

    def is_stray(topic_id: TopicId, partition: int) -> bool:
        if topic_id in known:
            return partition not in covered.get(topic_id, ())
        return topic_id in listed

    sessions = context.brokers.sessions()
    for session in sessions:
        for hosted in session.hosted.values():
            if is_stray(hosted.tp.topic_id, hosted.tp.partition):
                _of(found, hosted.tp.topic_id, hosted.topic_name).add_hosted(hosted, session)
        for trashed in session.trashed.values():
            if is_stray(trashed.tp.topic_id, trashed.tp.partition):
                _of(found, trashed.tp.topic_id, trashed.topic_name).add_trashed(trashed, session)
    present = {session.broker_id for session in sessions}
    absent = context.brokers.registered() - present
    for stray in stored:
        for each in stray.replicas:
            kept = absent.intersection(each.brokers)
            if kept and is_stray(stray.topic_id, each.partition):
                _of(found, stray.topic_id, stray.topic_name).add_stored(stray, each.partition, kept)
    strays = [each.topic(topic_id) for topic_id, each in found.items()]
    return sorted(strays, key=lambda each: (each.in_trash, -each.deleted_at_ms, each.topic_id))


def shorten(strays: Sequence[StrayTopic], *, topics_max: int, rows_max: int) -> list[StrayTopic]:
    """Return the first strays that have room in the BrokerCluster.

    Shape:   rows_max bounds the partitions of all of them together; the first always has room
    """
    kept: list[StrayTopic] = []
    for stray in strays[:topics_max]:
        rows_max -= len(stray.replicas)
        if rows_max < 0 and kept:
            break
        kept.append(stray)
    return kept


def _of(found: dict[TopicId, _Found], topic_id: TopicId, topic_name: str) -> _Found:
    return found.setdefault(topic_id, _Found(topic_name))


def _numbers_of_partitions(context: ControllerContext) -> dict[TopicId, set[int]]:
    numbers: dict[TopicId, set[int]] = {}
    for entry in context.table.entries.values():
        tp = entry.stored.tp
        numbers.setdefault(tp.topic_id, set()).add(tp.partition)
    return numbers
