"""A topic's setting comes from the topic, else from the cluster, else from Kafka's default."""

from __future__ import annotations

import pytest

from strandline_operator.reading import read_cluster, read_topic
from strandline_operator.topic_settings import effective_config

from .samples import cluster, topic


@pytest.mark.parametrize(
    ("factor", "own", "expected"), [(3, {}, 2), (1, {}, 1), (2, {}, 1), (3, {"x": 3}, 3)]
)
def test_min_isr_is_one_less_than_the_replicas_unless_given(
    factor: int, own: dict[str, int], expected: int
) -> None:
    config = {"minInsyncReplicas": own["x"]} if own else {}
    given = topic(replicationFactor=factor, config=config)
    assert (
        effective_config(read_topic(given), read_cluster(cluster()))["minInsyncReplicas"]
        == expected
    )


def test_a_topics_own_setting_precedes_the_clusters_and_that_kafkas() -> None:
    shared = cluster(
        config={
            "logSegmentBytes": 2_000_000,
            "logFlushIntervalMessages": 5,
            "logRetentionMs": -1,
            "logRollMs": 60_000,
        }
    )
    own = effective_config(
        read_topic(topic(config={"segmentBytes": 1_000_000, "segmentMs": 50})),
        read_cluster(shared),
    )
    assert own == {
        "minInsyncReplicas": 2,
        "segmentBytes": 1_000_000,
        "maxMessageBytes": 1_048_588,
        "flushMessages": 5,
        "retentionMs": -1,
        "retentionBytes": -1,
        "segmentMs": 50,
        "fileDeleteDelayMs": 60_000,
        "deleteTopicEnable": True,
    }
