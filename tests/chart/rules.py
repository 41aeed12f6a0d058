"""The table of CEL rules: for each a write that only this rule refuses, and an accepted one."""

from __future__ import annotations

from typing import Final

from tests.chart.cases import GONE, Rule
from tests.chart.listener_rules import LISTENER_RULES
from tests.chart.partition_rules import PARTITION_RULES
from tests.chart.pod_cases import POD_RULES
from tests.chart.version_rules import VERSION_RULES

_OTHER_HOLDER = "broker-2/uid/nonce"

_CLUSTER: Final = [
    Rule(
        kind="BrokerCluster",
        message="spec.config.logRetentionBytes must be -1 or at least logSegmentBytes (1073741824 "
        "if absent), because only whole segments are deleted",
        on="create",
        refused={"spec.config.logRetentionBytes": (1 << 20) - 1},
        accepted={"spec.config.logRetentionBytes": -1},
    ),
    *(
        Rule(
            kind="BrokerCluster",
            message="spec.config.logRetentionBytes must be -1 or at least logSegmentBytes "
            "(1073741824 if absent), because only whole segments are deleted",
            on="spec",
            refused={"spec.config.logRetentionBytes": (1 << 20) - 1},
            accepted=accepted,
        )
        for accepted in ({"spec.config": GONE}, {"spec.config.logDirFillMax": 0.5})
    ),
    Rule(
        kind="BrokerCluster",
        message="the name of a BrokerCluster has at most 40 characters, because pods, Services "
        "and Leases are named after it",
        on="create",
        refused={"metadata.name": "c" * 41},
        accepted={"metadata.name": "c" * 40},
    ),
    Rule(
        kind="BrokerCluster",
        message="the name of a BrokerCluster begins with a letter and holds only lower-case "
        "letters, digits and '-', because Services are named after it",
        on="create",
        refused={"metadata.name": "a.b"},
        accepted={"metadata.name": "a-1"},
    ),
    Rule(
        kind="BrokerCluster",
        message="spec.resources.limits.cpu must not be less than spec.resources.requests.cpu",
        on="spec",
        refused={"spec.resources.limits.cpu": "99m"},
        accepted={"spec.resources.limits.cpu": "0.1"},
    ),
    Rule(
        kind="BrokerCluster",
        message="spec.resources.limits.memory must not be less than spec.resources.requests.memory",
        on="spec",
        refused={"spec.resources.limits.memory": "127Mi"},
        accepted={"spec.resources.limits.memory": "128Mi"},
    ),
    *(
        Rule(
            kind="BrokerCluster",
            message="spec.storage.size must be at least what it was, or at least "
            "status.storage.size, because volumes never shrink",
            on="spec",
            refused={"spec.storage.size": "511Mi"},
            accepted={"spec.storage.size": accepted},
        )
        for accepted in ("1024Mi", "2Gi", "512Mi")
    ),
    Rule(
        kind="BrokerCluster",
        message="spec.storage.storageClassName cannot be changed, because volumes are not moved "
        "yet",
        on="spec",
        refused={"spec.storage.storageClassName": GONE},
        accepted={"spec.resources": GONE},
    ),
    Rule(
        kind="BrokerCluster",
        message="spec.storage.storageClassName cannot be changed, because volumes are not moved "
        "yet",
        on="spec",
        refused={"spec.storage.storageClassName": "fast"},
        accepted={"spec.storage.size": "1Ti"},
    ),
    Rule(
        kind="BrokerCluster",
        message="spec.timing cannot be changed, because running brokers do not take it over yet",
        on="spec",
        refused={"spec.timing": "safe"},
        accepted={"spec.timing": "demo"},
    ),
    Rule(
        kind="BrokerCluster",
        message="status.controller cannot be removed, because the controller epoch would start "
        "again",
        on="status",
        refused={"status.controller": GONE},
        accepted={"status.conditions": GONE},
    ),
    Rule(
        kind="BrokerCluster",
        message="status.controller cannot be removed, because the controller epoch would start "
        "again",
        on="status",
        refused={"status": GONE},
        accepted={"status.brokers": GONE},
    ),
    Rule(
        kind="BrokerCluster",
        message="the controller epoch rises, or stays equal with the same holderIdentity",
        on="status",
        refused={"status.controller.epoch": 4},
        accepted={
            "status.controller.epoch": 6,
            "status.controller.holderIdentity": _OTHER_HOLDER,
        },
    ),
    Rule(
        kind="BrokerCluster",
        message="the controller epoch rises, or stays equal with the same holderIdentity",
        on="status",
        refused={"status.controller.holderIdentity": _OTHER_HOLDER},
        accepted={"status.controller.epoch": 5},
    ),
]

_TOPIC: Final = [
    Rule(
        kind="ReplicatedTopic",
        message="the name of a ReplicatedTopic has at most 249 characters, as a topic's name in "
        "Kafka",
        on="create",
        refused={"metadata.name": "t" * 250},
        accepted={"metadata.name": "t" * 249},
    ),
    *(
        Rule(
            kind="ReplicatedTopic",
            message="status.topicId cannot be changed or removed",
            on="status",
            refused={"status.topicId": changed},
            accepted={"status.conditions": GONE},
        )
        for changed in ("other", GONE)
    ),
    Rule(
        kind="ReplicatedTopic",
        message="status.partitionsInitialised cannot be removed, because a lost partition would "
        "look like a new one",
        on="status",
        refused={"status.partitionsInitialised": GONE},
        accepted={"status.effectiveConfig": GONE},
    ),
    Rule(
        kind="ReplicatedTopic",
        message="status.partitionsInitialised only rises, because a lost partition would look "
        "like a new one",
        on="status",
        refused={"status.partitionsInitialised": 5},
        accepted={"status.partitionsInitialised": 7},
    ),
    *(
        Rule(
            kind="ReplicatedTopic",
            message="spec.topicName cannot be changed, added or removed",
            on="spec",
            refused={"spec.topicName": changed},
            accepted={"spec.topicName": "Orders"},
        )
        for changed in ("orders", GONE)
    ),
    *(
        Rule(
            kind="ReplicatedTopic",
            message="spec.topicId cannot be changed, added or removed",
            on="spec",
            refused={"spec.topicId": changed},
            accepted={"spec.uncleanLeaderElection": GONE},
        )
        for changed in ("1d9c2f4e-8a7b-4c3d-9e1f-2b6a5c4d3e2f", GONE)
    ),
    Rule(
        kind="ReplicatedTopic",
        message="spec.config.minInsyncReplicas must not exceed spec.replicationFactor, or no "
        "acks=all record could ever be taken",
        on="create",
        refused={"spec.config.minInsyncReplicas": 4},
        accepted={"spec.config.minInsyncReplicas": 3},
    ),
    Rule(
        kind="ReplicatedTopic",
        message="spec.config.retentionBytes must be -1 or at least segmentBytes (1073741824 if "
        "absent), because only whole segments are deleted",
        on="create",
        refused={"spec.config.retentionBytes": (1 << 20) - 1},
        accepted={"spec.config.retentionBytes": 1 << 20},
    ),
    *(
        Rule(
            kind="ReplicatedTopic",
            message="spec.config.retentionBytes must be -1 or at least segmentBytes (1073741824 if "
            "absent), because only whole segments are deleted",
            on="spec",
            refused={"spec.config.retentionBytes": (1 << 20) - 1},
            accepted=accepted,
        )
        for accepted in ({"spec.config.flushMessages": GONE}, {"spec.config.minInsyncReplicas": 1})
    ),
    Rule(
        kind="ReplicatedTopic",
        message="spec.clusterRef cannot be changed, because a topic cannot move to another cluster",
        on="spec",
        refused={"spec.clusterRef": GONE},
        accepted={"spec.clusterRef": "demo"},
    ),
    *(
        Rule(
            kind="ReplicatedTopic",
            message="a topic cannot be called '.' or '..'",
            on="create",
            refused={"spec.topicName": dots},
            accepted={"spec.topicName": "..."},
        )
        for dots in (".", "..")
    ),
    Rule(
        kind="ReplicatedTopic",
        message="spec.partitions can only grow, because removing a partition would lose its "
        "records",
        on="spec",
        refused={"spec.partitions": 5},
        accepted={"spec.partitions": 7},
    ),
]

_BROKER: Final = [
    Rule(
        kind="Broker",
        message="the status of a Broker cannot be removed, because its epochs would start again",
        on="status",
        refused={"status": GONE},
        accepted={"status.bootId": GONE},
    ),
    Rule(
        kind="Broker",
        message="status.brokerEpoch never falls",
        on="status",
        refused={"status.brokerEpoch": 4},
        accepted={"status.brokerEpoch": 6},
    ),
    Rule(
        kind="Broker",
        message="status.cleanSinceEpoch never falls, because lost records do not come back",
        on="status",
        refused={"status.cleanSinceEpoch": 2},
        accepted={"status.cleanSinceEpoch": 5},
    ),
    Rule(
        kind="Broker",
        message="another incarnation needs a higher status.brokerEpoch",
        on="status",
        refused={"status.incarnation": "uid/other"},
        accepted={"status.incarnation": "uid/other", "status.brokerEpoch": 6},
    ),
    *(
        Rule(
            kind="Broker",
            message="the name of a Broker ends in '-' and spec.brokerId",
            on=on,
            refused=refused,
            accepted={"metadata.labels": {"a": "b"}},
        )
        for on, refused in (
            ("create", {"metadata.name": "demo-2"}),
            ("create", {"metadata.name": "demo1"}),
            ("create", {"metadata.name": "demo-11"}),
            ("spec", {"spec.brokerId": 2}),
        )
    ),
    Rule(
        kind="Broker",
        message="status.brokerEpoch rises by at most 100000 at a time",
        on="status",
        refused={"status.brokerEpoch": 100_006},
        accepted={"status.brokerEpoch": 100_005},
    ),
    Rule(
        kind="Broker",
        message="status.cleanSinceEpoch must not exceed status.brokerEpoch",
        on="status",
        refused={"status.cleanSinceEpoch": 6},
        accepted={"status.cleanSinceEpoch": 5},
    ),
]

_POD: Final = [
    Rule(kind="BrokerCluster", message=message, on="spec", refused=refused, accepted=accepted)
    for message, refused, accepted in POD_RULES
]

RULES: Final = [
    *(*_CLUSTER, *_POD, *LISTENER_RULES, *VERSION_RULES),
    *(*_TOPIC, *_BROKER, *PARTITION_RULES),
]
