"""Where clients find brokers and leaders, as seen through one listener.

Called by `apis`. A view is made once per change of the metadata, not per request. Every address
belongs to the listener of the client's connection: a client outside the cluster never sees a pod
address.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import lru_cache

from strandline.broker_interface import MetadataSnapshot, PartitionMetadata, TopicMetadata
from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, BrokerId, TopicId

from .wire import Message

NO_TOPIC_ID = bytes(16)
TOPIC_IDS_KEPT = 4_096

MOVED_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors whose response may name the current leader (KIP-951)."""


@lru_cache(maxsize=TOPIC_IDS_KEPT)
def topic_id_bytes(topic_id: TopicId) -> bytes:
    """Return a topic id in its wire form: the 16 bytes of its UUID."""
    return uuid.UUID(topic_id).bytes


class MetadataView:
    """The messages of one snapshot, made once however many requests ask for them.

    topics are in the order of the snapshot. leaders has an entry for each
    partition with a leader that is live and has an address on this listener.
    """

    def __init__(self, snapshot: MetadataSnapshot) -> None:
        self.snapshot = snapshot
        self.brokers: list[Message] = [
            {
                "node_id": each.broker_id,
                "host": each.endpoint.host,
                "port": each.endpoint.port,
                "rack": each.rack or None,
            }
            for each in snapshot.brokers
        ]
        reachable = {each.broker_id for each in snapshot.brokers if each.is_live}
        self.topics = [_topic(topic, reachable) for topic in snapshot.topics]
        self.topics_by_name = {topic["name"]: topic for topic in self.topics}
        self.topics_by_id = {topic["topic_id"]: topic for topic in self.topics}
        self.leaders: dict[tuple[str, int], Message] = {
            (topic.name, each.partition): {
                "leader_id": each.leader,
                "leader_epoch": each.leader_epoch,
            }
            for topic in snapshot.topics
            for each in topic.partitions
            if each.leader in reachable
        }


def _topic(topic: TopicMetadata, reachable: set[BrokerId]) -> Message:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic_id_bytes(topic.topic_id),
        "partitions": [_partition(partition, reachable) for partition in topic.partitions],
    }


def _partition(partition: PartitionMetadata, reachable: set[BrokerId]) -> Message:
    """Return a partition; hide a leader that is dead or has no address on this listener."""
    leader = partition.leader if partition.leader in reachable else NO_LEADER
    return {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        "index": partition.partition,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": partition.offline,
    }


class MetadataViews:
    """The view of the newest snapshot that a listener's clients were shown."""

    def __init__(self) -> None:
        self._newest: MetadataView | None = None

    def of(self, snapshot: MetadataSnapshot) -> MetadataView:
        """Return the view of a snapshot; it is made again only for another one."""
        if self._newest is None or self._newest.snapshot is not snapshot:
            self._newest = MetadataView(snapshot)
        return self._newest


class LeaderHints:
    """Present leaders of partitions that a client asked of the wrong broker.

    The first hint reads the metadata, once. Source: KIP-951.
    """

    def __init__(self, read_metadata: Callable[[], MetadataView]) -> None:
        self._read_metadata = read_metadata
        self._view: MetadataView | None = None
        self._named_leaders: set[int] = set()

    def of(self, topic_name: str, partition: int, error: ErrorCode) -> Message | None:
        """Return the leader and its epoch if the error calls for it and both are known."""
        if error not in MOVED_LEADER_ERRORS:
            return None
        if self._view is None:
            self._view = self._read_metadata()
        leader = self._view.leaders.get((topic_name, partition))
        if leader is not None:
            self._named_leaders.add(leader["leader_id"])
        return leader

    def endpoints(self) -> list[Message]:
        """Return the addresses of the leaders named so far."""
        known = self._view.brokers if self._view else []
        return [broker for broker in known if broker["node_id"] in self._named_leaders]
