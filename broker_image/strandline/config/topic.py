"""Defaults of a topic's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.errors import ConfigError
from strandline.model import UNLIMITED, TopicSettings

from .declaration import INT64_MAX, Applies, integer

DAYS_7_MS: Final = 604_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Defaults of a cluster for its topics; a ReplicatedTopic may override each."""

    segment_bytes: int = integer(
        "log.segment.bytes", 1 << 30, (14, (1 << 31) - 1), applies=Applies.TOPIC
    )
    """Size at which a log starts its next segment. Kafka's key and default."""

    message_max_bytes: int = integer(
        "message.max.bytes", 1_048_588, (0, (1 << 31) - 1), applies=Applies.TOPIC
    )
    """Largest record batch. Kafka's key and default (1 MiB and the batch overhead)."""

    flush_interval_messages: int = integer(
        "log.flush.interval.messages", INT64_MAX, (1, INT64_MAX), applies=Applies.TOPIC
    )
    """Records after which a log is fsynced; 1 means before each acknowledgement. Kafka's key
    and default: durability comes from replicas."""

    retention_ms: int = integer(
        "log.retention.ms", DAYS_7_MS, (UNLIMITED, INT64_MAX), since=2, applies=Applies.TOPIC
    )
    """Age at which a sealed segment is deleted; -1 for never. Kafka's key and default."""

    retention_bytes: int = integer(
        "log.retention.bytes", UNLIMITED, (UNLIMITED, INT64_MAX), since=2, applies=Applies.TOPIC
    )
    """Size of a partition's log beyond which its oldest segments are deleted; -1 for any size.
    Kafka's key and default. Below the segment's size it is refused: the newest segment alone is
    larger, so the setting would not keep what it promises."""

    roll_ms: int = integer("log.roll.ms", DAYS_7_MS, (1, INT64_MAX), since=2, applies=Applies.TOPIC)
    """Age of its first record at which a segment is closed, so that an idle topic's records come
    of age too. Kafka's key and default."""

    file_delete_delay_ms: int = integer(
        "log.segment.delete.delay.ms", 60_000, (0, DAYS_7_MS), since=2, applies=Applies.TOPIC
    )
    """How long the file of a deleted segment stays, so that reads in progress end well. Kafka's
    key and default."""

    def check(self) -> None:
        """Refuse a retention that cannot be kept; the ConfigError names both keys."""
        if self.retention_bytes != UNLIMITED and self.retention_bytes < self.segment_bytes:
            raise ConfigError(
                f"log.retention.bytes ({self.retention_bytes}) must be {UNLIMITED}, or at least "
                f"log.segment.bytes ({self.segment_bytes})"
            )

    def settings(self) -> TopicSettings:
        """Return the defaults in the form that travels with LeaderAndIsr."""
        return TopicSettings(
            max_message_bytes=self.message_max_bytes,
            segment_bytes=self.segment_bytes,
            flush_messages=self.flush_interval_messages,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            segment_ms=self.roll_ms,
            file_delete_delay_ms=self.file_delete_delay_ms,
        )


def effective_min_insync_replicas(configured: int | None, *, replicas: int) -> int:
    """Return a partition's min ISR: the configured one, at most the number of its replicas.

    Without a configured one it is one less than the replicas, and at least 1.
    """
    if configured is None:
        return max(1, replicas - 1)
    return min(configured, replicas)
