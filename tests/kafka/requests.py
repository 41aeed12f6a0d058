"""Requests for tests; an argument that a test does not give has a default."""

from __future__ import annotations

from strandline.kafka_listener.wire import Message


def produce(
    batch: bytes | None,
    *,
    topic: str = "orders",
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> Message:
    records = None if batch is None else [batch]
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 1000,
        "topics": [{"name": topic, "partitions": [{"index": partition, "records": records}]}],
    }


def fetch(
    offset: int,
    *,
    topic: str = "orders",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1_000_000,
    **others: object,
) -> Message:
    partition = {
        "index": 0,
        "fetch_offset": offset,
        "partition_max_bytes": partition_max_bytes,
        "last_fetched_epoch": others.pop("last_fetched_epoch", -1),
    }
    return {
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "topics": [{"name": topic, "partitions": [partition]}],
        "forgotten_topics": [],
        **others,
    }


def delete_records(offset: int, *, topic: str = "orders", timeout_ms: int = 1000) -> Message:
    partitions = [{"index": 0, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": timeout_ms}


def list_offsets(timestamp: int, *, topic: str = "orders", leader_epoch: int = -1) -> Message:
    partition = {"index": 0, "timestamp": timestamp, "current_leader_epoch": leader_epoch}
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [partition]}],
    }


def only(message: Message) -> Message:
    """Return the only partition of a response; fail if there are more."""
    (topic,) = message["topics"]
    (partition,) = topic["partitions"]
    assert isinstance(partition, dict)
    return partition
