"""The fields that each CRD requires, as paths in the kind's complete object."""

from __future__ import annotations

from typing import Final

from .pod_cases import POD_REQUIRED
from .topic_status_cases import APPLIED_CONFIG_REQUIRED

_CONDITION_REQUIRED = [
    f"status.conditions[].{name}"
    for name in ("type", "status", "lastTransitionTime", "reason", "message")
]
_CONFIG_REQUIRED = [
    f"status.effectiveConfig.{name}"
    for name in ("minInsyncReplicas", "segmentBytes", "maxMessageBytes", "flushMessages")
]
REQUIRED: Final[dict[str, list[str]]] = {
    "BrokerCluster": [
        "spec",
        "spec.externalListener.type",
        "spec.externalListener.brokers[].broker",
        "status.brokers[].id",
        "status.brokers[].volume.wantedBytes",
        "status.storage.size",
        "status.controller.holderIdentity",
        "status.controller.brokerId",
        "status.controller.epoch",
        *(f"status.deletedTopics[].{name}" for name in ("topicId", "topicName", "deletedAt")),
        *(
            f"status.strays[].{name}"
            for name in ("topicId", "topicName", "partitions", "inTrash", "replicas")
        ),
        "status.strays[].replicas[].partition",
        "status.strays[].replicas[].brokers",
        *(f"status.analysis.{name}" for name in ("endedAt", "windowStart", "windowEnd")),
        *(f"status.analysis.topIncidents[].{name}" for name in ("startedAt", "sentence")),
        *POD_REQUIRED,
        *_CONDITION_REQUIRED,
    ],
    "ReplicatedTopic": [
        "spec",
        *_CONFIG_REQUIRED,
        *APPLIED_CONFIG_REQUIRED,
        *_CONDITION_REQUIRED,
    ],
    "Broker": [
        "spec",
        "spec.brokerId",
        "spec.external.port",
        *(
            f"status.{name}"
            for name in (
                "brokerEpoch",
                "cleanSinceEpoch",
                "incarnation",
                "listeners",
                "logDirId",
                "protocolVersion",
            )
        ),
        *(f"status.listeners[].{name}" for name in ("name", "host", "port")),
    ],
    "Partition": [
        "spec",
        *(f"spec.{name}" for name in ("topicId", "topicName", "partition", "replicas")),
        *(
            f"status.{name}"
            for name in (
                "replicas",
                "leader",
                "leaderEpoch",
                "partitionEpoch",
                "isr",
                "isrBrokerEpochs",
                "minInsyncReplicas",
                "controllerEpoch",
                "recovery",
            )
        ),
    ],
}
