"""Defaults of a topic's settings."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import TopicSettings

from .declaration import INT64_MAX, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Defaults of a cluster for its topics; a ReplicatedTopic may override each."""

    segment_bytes: int = integer("log.segment.bytes", 1 << 30, (14, (1 << 31) - 1))
    """Size at which a log starts its next segment. Kafka's key and default."""

    message_max_bytes: int = integer("message.max.bytes", 1_048_588, (0, (1 << 31) - 1))
    """Largest record batch. Kafka's key and default (1 MiB and the batch overhead)."""

    flush_interval_messages: int = integer("log.flush.interval.messages", INT64_MAX, (1, INT64_MAX))
    """Records after which a log is fsynced; 1 means before each acknowledgement. Kafka's key
    and default: durability comes from replicas."""

    def settings(self) -> TopicSettings:
        """Return the defaults in the form that travels with LeaderAndIsr."""
        return TopicSettings(
            max_message_bytes=self.message_max_bytes,
            segment_bytes=self.segment_bytes,
            flush_messages=self.flush_interval_messages,
        )


def effective_min_insync_replicas(configured: int | None, *, replicas: int) -> int:
    """Return a partition's min ISR: the configured one, at most the number of its replicas.

    Without a configured one it is one less than the replicas, and at least 1.
    """
    if configured is None:
        return max(1, replicas - 1)
    return min(configured, replicas)
