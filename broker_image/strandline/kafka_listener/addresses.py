"""Where clients find brokers and leaders, as seen through one listener.

Called by `apis`. Every address belongs to the listener of the client's connection:
a client outside the cluster never sees a pod address.
"""

from __future__ import annotations

import uuid
from functools import lru_cache

from strandline.broker_interface import MetadataSnapshot, TopicMetadata
from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, TopicId

from .response import RequestContext
from .wire import Message

NO_TOPIC_ID = bytes(16)
TOPIC_IDS_KEPT = 4_096

MOVED_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors whose response may name the current leader (KIP-951)."""


@lru_cache(maxsize=TOPIC_IDS_KEPT)
def topic_id_bytes(topic_id: TopicId) -> bytes:
    """Return a topic id in its wire form: the 16 bytes of its UUID."""
    return uuid.UUID(topic_id).bytes


def broker_messages(snapshot: MetadataSnapshot) -> list[Message]:
    """Return all brokers with their addresses."""
    return [
        {"node_id": broker_id, "host": endpoint.host, "port": endpoint.port}
        for broker_id, endpoint in snapshot.brokers
    ]


class LeaderHints:
    """Present leaders of partitions that a client asked of the wrong broker.

    The first hint reads the metadata, once. Source: KIP-951.
    """

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._snapshot: MetadataSnapshot | None = None
        self._topics: dict[str, TopicMetadata] = {}
        self._named_leaders: set[int] = set()

    def of(self, topic_name: str, partition: int, error: ErrorCode) -> Message | None:
        """Return the leader and its epoch if the error calls for it and both are known."""
        if error not in MOVED_LEADER_ERRORS:
            return None
        if self._snapshot is None:
            self._snapshot = self._context.broker.metadata(self._context.listener_name)
            self._topics = {topic.name: topic for topic in self._snapshot.topics}
        topic = self._topics.get(topic_name)
        for known in topic.partitions if topic else ():
            if known.partition == partition and known.leader != NO_LEADER:
                self._named_leaders.add(known.leader)
                return {"leader_id": known.leader, "leader_epoch": known.leader_epoch}
        return None

    def endpoints(self) -> list[Message]:
        """Return the addresses of the leaders named so far."""
        known = broker_messages(self._snapshot) if self._snapshot else []
        return [broker for broker in known if broker["node_id"] in self._named_leaders]
