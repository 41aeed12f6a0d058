"""The settings of a topic's partitions: its own, else its cluster's, else the defaults.

Pure. `status` writes them into a topic's status, where the controller finds them and sends them
to running brokers; `observe` knows by them whose status is behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.config.topic import TopicDefaults, effective_min_insync_replicas
from strandline.kube.objects import effective_digest

from .conditions import Readiness, listed
from .observed import DesiredCluster, DesiredTopic, ObservedTopic

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


def topic_config_applied(effective: Mapping[str, int], observed: ObservedTopic) -> Readiness:
    """Judge whether every replica of a topic works with its settings, as the controller told."""
    states = [each.state for each in observed.partitions.values() if each.state is not None]
    replicas = {broker_id for state in states for broker_id in state.replicas}
    if not replicas:
        message = "no partition has replicas yet"
        return Readiness(ready=None, reason="NoReplicas", message=message)
    wanted, told = effective_digest(dict(effective)), observed.applied
    if not told.digest:
        message = "no controller has told yet which brokers work with the settings"
        return Readiness(ready=None, reason="NotTold", message=message)
    applied = set(told.brokers) if told.digest == wanted else set()
    if behind := replicas - applied:
        message = (
            "brokers have not said that they work with the present settings: "
            f"{listed(f'broker {each}' for each in behind)}; brokers that are away get them when "
            "they are back"
        )
        return Readiness(reason="NotApplied", message=message)
    message = f"all {len(replicas)} brokers of the topic work with its settings"
    return Readiness(ready=True, reason="Applied", message=message)
