"""What the controller writes into BrokerCluster.status beside its own record (ADR 0037).

Strict like `objects`, whose typed access it uses; a list that is absent is empty.
"""

from __future__ import annotations

from datetime import datetime

from strandline.errors import ObjectMalformed
from strandline.model import (
    BrokerId,
    ClusterRecord,
    DeletedTopic,
    StrayReplicas,
    StrayTopic,
    TopicId,
)

from .objects import Fields, Object, controller_record_from_object, format_micro_time, opened


def cluster_record_from_object(value: Object) -> ClusterRecord:
    """Read what the controller has written into a BrokerCluster."""
    root, metadata = opened(value, "BrokerCluster")
    status = root.status() or Fields({}, "BrokerCluster.status")
    return ClusterRecord(
        resource_version=metadata.text("resourceVersion"),
        uid=metadata.text("uid"),
        is_deleting=metadata.has("deletionTimestamp"),
        controller_epoch=controller_record_from_object(value).controller_epoch,
        topic_revision=status.integer_or("topicRevision", 0, minimum=0),
        deleted_topics=tuple(
            DeletedTopic(
                topic_id=TopicId(each.text("topicId")),
                topic_name=each.optional_text("topicName"),
                deleted_at=each.text("deletedAt"),
            )
            for each in status.items_or_none("deletedTopics")
        ),
        strays=tuple(_stray(each) for each in status.items_or_none("strays")),
        strays_total=status.integer_or("straysTotal", 0, minimum=0),
    )


def _stray(found: Fields) -> StrayTopic:
    deleted_at = found.optional_text("deletedAt")
    return StrayTopic(
        topic_id=TopicId(found.text("topicId")),
        topic_name=found.optional_text("topicName"),
        partition_count=found.integer("partitions", minimum=1),
        in_trash=found.flag("inTrash"),
        deleted_at_ms=_milliseconds(deleted_at) if deleted_at else 0,
        replicas=tuple(
            StrayReplicas(
                partition=each.integer("partition"),
                brokers=tuple(BrokerId(broker_id) for broker_id in each.integers("brokers")),
            )
            for each in found.items("replicas")
        ),
    )


def _milliseconds(time: str) -> int:
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError as error:
        raise ObjectMalformed(f"BrokerCluster.status: {time!r} is no RFC 3339 time") from error


def cluster_record_status(record: ClusterRecord, *, now: str) -> Object:
    """Return the controller's lists of BrokerCluster.status; now is an RFC 3339 time."""
    return {
        "topicRevision": record.topic_revision,
        "deletedTopics": [
            {
                "topicId": each.topic_id,
                "topicName": each.topic_name,
                "deletedAt": each.deleted_at or now,
            }
            for each in record.deleted_topics
        ],
        "strays": [
            {
                "topicId": stray.topic_id,
                "topicName": stray.topic_name,
                "partitions": stray.partition_count,
                "inTrash": stray.in_trash,
                "replicas": [
                    {"partition": each.partition, "brokers": list(each.brokers)}
                    for each in stray.replicas
                ],
            }
            | (
                {"deletedAt": format_micro_time(stray.deleted_at_ms * 1000)}
                if stray.deleted_at_ms
                else {}
            )
            for stray in record.strays
        ],
        "straysTotal": record.strays_total,
    }
