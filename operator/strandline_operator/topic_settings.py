"""The settings of a topic's partitions: its own, else its cluster's, else the defaults.

Pure. `status` writes them into a topic's status, where the controller finds them and sends them
to running brokers; `observe` knows by them whose status is behind.
"""

from __future__ import annotations

from typing import Final

from strandline.config.topic import TopicDefaults, effective_min_insync_replicas

from .observed import DesiredCluster, DesiredTopic

_DEFAULTS: Final = TopicDefaults().settings()


def effective_config(topic: DesiredTopic, cluster: DesiredCluster) -> dict[str, int]:
    """Return the settings of a topic's partitions: its own, else the cluster's, else Kafka's.

    Source:  Kafka LogConfig: topic-level overrides of broker settings.
    """
    own, defaults = topic.config, _DEFAULTS
    # The settings of topics are integers; those of brokers alone need not be.
    shared = {field: value for field, value in cluster.config.items() if isinstance(value, int)}
    return {
        "minInsyncReplicas": effective_min_insync_replicas(
            own.get("minInsyncReplicas"), replicas=topic.replication_factor
        ),
        "segmentBytes": own.get("segmentBytes")
        or shared.get("logSegmentBytes", defaults.segment_bytes),
        "maxMessageBytes": own.get("maxMessageBytes")
        or shared.get("messageMaxBytes", defaults.max_message_bytes),
        "flushMessages": own.get("flushMessages")
        or shared.get("logFlushIntervalMessages", defaults.flush_messages),
        "retentionMs": own.get("retentionMs", shared.get("logRetentionMs", defaults.retention_ms)),
        "retentionBytes": own.get(
            "retentionBytes", shared.get("logRetentionBytes", defaults.retention_bytes)
        ),
        "segmentMs": own.get("segmentMs", shared.get("logRollMs", defaults.segment_ms)),
        "fileDeleteDelayMs": own.get("fileDeleteDelayMs", defaults.file_delete_delay_ms),
        # For the policy on deletions, which sees no other object than the topic.
        "deleteTopicEnable": cluster.delete_topic_enable,
    }
