"""Metadata: brokers, controller, topics and their partitions.

Registered in `apis`. Responds at once from what the broker knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from strandline.broker_interface import MetadataSnapshot, PartitionMetadata, TopicMetadata
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import NO_TOPIC_ID, broker_messages, topic_id_bytes
from strandline.kafka_listener.response import RequestContext, Response, first_error
from strandline.kafka_listener.wire import Message
from strandline.model import NO_LEADER, BrokerId

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Legal topic names; `.` and `..` are excluded besides. Source: Kafka Topic.validate."""

FIRST_VERSION_WITH_NULL_NAME = 12


def metadata(context: RequestContext, version: int, request: Message) -> Response:
    """Return brokers, controller and the requested topics.

    Null topics mean all topics; an empty list means all in version 0 and none since. A request
    never creates a topic.
    """
    snapshot = context.broker.metadata(context.listener_name)
    requested = request["topics"]
    if requested is None or (version == 0 and not requested):
        topics = [_known_topic(topic, snapshot) for topic in snapshot.topics]
    else:
        topics = list(_requested_topics(requested, snapshot, version))
    body = {
        "brokers": broker_messages(snapshot),
        "cluster_id": snapshot.cluster_id,
        "controller_id": snapshot.controller,
        "topics": topics,
    }
    return Response(body=body, error=first_error(topic["error_code"] for topic in topics))


def _requested_topics(
    requested: list[Message], snapshot: MetadataSnapshot, version: int
) -> Iterable[Message]:
    """Yield each topic once, by name or, without a name, by id."""
    by_name = {topic.name: topic for topic in snapshot.topics}
    by_id = {topic_id_bytes(topic.topic_id): topic for topic in snapshot.topics}
    keys = dict.fromkeys((topic["name"], topic.get("topic_id", NO_TOPIC_ID)) for topic in requested)
    for name, topic_id in keys:
        found = by_id.get(topic_id) if name is None else by_name.get(name)
        if found is not None:
            yield _known_topic(found, snapshot)
        elif name is None:
            unnamed = None if version >= FIRST_VERSION_WITH_NULL_NAME else ""
            yield _absent_topic(ErrorCode.UNKNOWN_TOPIC_ID, unnamed, topic_id)
        elif TOPIC_NAME.fullmatch(name) and name not in {".", ".."}:
            yield _absent_topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        else:
            yield _absent_topic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)


def _absent_topic(error: ErrorCode, name: str | None, topic_id: bytes = NO_TOPIC_ID) -> Message:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": []}


def _known_topic(topic: TopicMetadata, snapshot: MetadataSnapshot) -> Message:
    reachable = {broker_id for broker_id, _ in snapshot.brokers}
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic_id_bytes(topic.topic_id),
        "partitions": [_partition(partition, reachable) for partition in topic.partitions],
    }


def _partition(partition: PartitionMetadata, reachable: set[BrokerId]) -> Message:
    """Return a partition; hide a leader without an address on this listener."""
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
