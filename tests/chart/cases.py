"""Tables: for every bound and rule of the CRDs one write that is refused and one accepted.

A value replaces the value at its path in the kind's complete object. `Also` changes further
paths, so that a value at the edge of its bound keeps all other rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from .analysis_cases import ANALYSIS_BOUNDS, ANALYSIS_STATUS
from .broker_row_cases import BROKER_ROW, BROKER_ROW_BOUNDS, STORAGE_STATUS
from .cluster_lists import CLUSTER_LISTS, CLUSTER_LISTS_BOUNDS
from .listener_cases import BROKER_SPEC, EXTERNAL_LISTENER, LISTENER_BOUNDS, REGISTRATION_BOUNDS
from .partition_cases import PARTITION_BOUNDS
from .pod_cases import POD_BOUNDS, POD_SPEC, SPREAD_STATUS
from .scale_cases import SCALE_BOUNDS, SCALE_STATUS
from .settings_cases import (
    RUNNING_KEYS,
    RUNNING_KEYS_BOUNDS,
    RUNNING_SETTINGS,
    RUNNING_SETTINGS_BOUNDS,
    TOLD_SETTINGS,
    WANTED_DIGEST,
    WANTED_DIGEST_BOUNDS,
)
from .topic_status_cases import TOPIC_STATUS, TOPIC_STATUS_BOUNDS

Manifest = dict[str, Any]


class _Gone:
    """Marks a path that the write removes."""

    def __repr__(self) -> str:
        return "GONE"


GONE: Final = _Gone()
NOW: Final = "2026-01-01T00:00:00Z"
TOPIC_ID: Final = "6f0e8b7a-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
OTHER_TOPIC_ID: Final = "01234567-89ab-cdef-0123-456789abcdef"


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """A value together with further changes."""

    value: Any
    others: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A CEL rule, named by its message; `on` is the kind of write: create, spec or status."""

    kind: str
    message: str
    on: str
    refused: Manifest
    accepted: Manifest = field(default_factory=dict)


def _condition(**changes: Any) -> Manifest:
    whole = {
        "type": "Ready",
        "status": "True",
        "reason": "Because",
        "message": "it is so",
        "observedGeneration": 1,
        "lastTransitionTime": NOW,
    }
    return {**whole, **changes}


_COUNTS = ("total", "online", "offline", "underReplicated", "underMinIsr", "atMinIsr", "moving")


def _manifest(kind: str, name: str, spec: Manifest, status: Manifest) -> Manifest:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        "status": status,
    }


COMPLETE: Final[dict[str, Manifest]] = {
    "BrokerCluster": _manifest(
        "BrokerCluster",
        "demo",
        {
            "replicas": 3,
            "timing": "demo",
            "version": "0.1.0",
            "storage": {"size": "1Gi", "storageClassName": "standard"},
            "config": {
                "replicaLagTimeMaxMs": 10_000,
                "logSegmentBytes": 1 << 20,
                "logFlushIntervalMessages": 1,
                "messageMaxBytes": 1 << 20,
                "logRetentionMs": -1,
                "logRetentionBytes": 1 << 31,
                "logRollMs": 3_600_000,
                "logRetentionCheckIntervalMs": 1_000,
                "logDirFillMax": 0.5,
                **RUNNING_KEYS,
            },
            "deleteTopicEnable": False,
            **POD_SPEC,
            "externalListener": EXTERNAL_LISTENER,
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"cpu": "0.5", "memory": "1Gi"},
            },
        },
        {
            "observedGeneration": 1,
            **SCALE_STATUS,
            "topics": 1,
            "brokers": [BROKER_ROW],
            "partitions": dict.fromkeys(_COUNTS, 1),
            "controller": {"holderIdentity": "broker-1/uid/nonce", "brokerId": 1, "epoch": 5},
            **CLUSTER_LISTS,
            **SPREAD_STATUS,
            **STORAGE_STATUS,
            **ANALYSIS_STATUS,
            **WANTED_DIGEST,
            "externalListener": {"bootstrapServers": ["192.0.2.1:30092"]},
            "conditions": [_condition()],
        },
    ),
    "ReplicatedTopic": _manifest(
        "ReplicatedTopic",
        "orders",
        {
            "clusterRef": "demo",
            "topicName": "Orders",
            "topicId": TOPIC_ID,
            "partitions": 6,
            "replicationFactor": 3,
            "config": {
                "minInsyncReplicas": 2,
                "segmentBytes": 1 << 20,
                "maxMessageBytes": 1 << 20,
                "flushMessages": 1,
                "retentionMs": 3_600_000,
                "retentionBytes": 1 << 31,
                "segmentMs": 60_000,
                "fileDeleteDelayMs": 1_000,
            },
            "deletionProtection": True,
            "uncleanLeaderElection": True,
        },
        {
            "observedGeneration": 1,
            **TOPIC_STATUS,
            "effectiveConfig": {
                "minInsyncReplicas": 2,
                "segmentBytes": 1 << 20,
                "maxMessageBytes": 1 << 20,
                "flushMessages": 1,
                "retentionMs": 3_600_000,
                "retentionBytes": 1 << 31,
                "segmentMs": 60_000,
                "fileDeleteDelayMs": 1_000,
                "deleteTopicEnable": True,
            },
            "partitions": dict.fromkeys(_COUNTS, 1),
            "conditions": [_condition()],
        },
    ),
    "Broker": _manifest(
        "Broker",
        "demo-1",
        {**BROKER_SPEC, **RUNNING_SETTINGS},
        {
            "brokerEpoch": 5,
            "cleanSinceEpoch": 3,
            "incarnation": "uid/nonce",
            "listeners": [{"name": "INTERNAL", "host": "10.0.0.1", "port": 9092}],
            "logDirId": "dir",
            "bootId": "boot",
            "rack": "a",
            "softwareVersion": "0.1.0",
            "protocolVersion": 1,
            "volumeFull": True,
            "readingLogs": "uid/next",
            **TOLD_SETTINGS,
        },
    ),
    "Partition": _manifest(
        "Partition",
        "orders-0",
        {
            "topicId": TOPIC_ID,
            "topicName": "Orders",
            "partition": 0,
            "replicas": [0, 1, 2],
            "recover": False,
            "rebuildWithout": [],
            "electPreferredIn": 4,
        },
        {
            "replicas": [0, 1, 2],
            "addingReplicas": [2],
            "removingReplicas": [1],
            "leader": 0,
            "leaderEpoch": 4,
            "partitionEpoch": 7,
            "isr": [0, 2],
            "isrBrokerEpochs": [5, 6],
            "elr": [1],
            "elrBrokerEpochs": [3],
            "minInsyncReplicas": 3,
            "controllerEpoch": 5,
            "recovery": "Clean",
            "reason": "Because",
            "changedAt": NOW,
        },
    ),
}


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values; a list of values has one path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path


Bounds = dict[str, dict[str, tuple[Any, Any]]]
"""(accepted, refused) values by path and keyword."""

_LONG_CPU = "1" * 20
_LONG_MEMORY = "1" * 18 + "Mi"
_RESOURCE: Final[Bounds] = {
    "cpu": {"maxLength": (_LONG_CPU, _LONG_CPU + "1"), "pattern": ("0.25", "-1")},
    "memory": {"maxLength": (_LONG_MEMORY, "1" + _LONG_MEMORY), "pattern": ("64Mi", "64mb")},
}
_CONDITION_BOUNDS: Final[Bounds] = {
    "status.observedGeneration": {"minimum": (-1, -2)},
    "status.conditions": {
        "maxItems": (
            [_condition(type=f"Type{chr(65 + n)}") for n in range(16)],
            [_condition(type=f"Type{chr(65 + n)}") for n in range(17)],
        ),
        "unique": (
            [_condition(), _condition(type="Other")],
            [_condition(), _condition(status="False")],
        ),
    },
    "status.conditions[].type": {"maxLength": ("T" * 64, "T" * 65), "pattern": ("T", "not")},
    "status.conditions[].status": {"enum": ("Unknown", "Maybe")},
    "status.conditions[].observedGeneration": {"minimum": (0, -1)},
    "status.conditions[].reason": {"maxLength": ("R" * 64, "R" * 65), "pattern": ("R", "a b")},
    "status.conditions[].message": {"maxLength": ("m" * 1024, "m" * 1025)},
    **{f"status.partitions.{count}": {"minimum": (0, -1)} for count in _COUNTS},
}
_SEGMENT = {"minimum": (16_384, 16_383), "maximum": ((1 << 31) - 1, 1 << 31)}
_MESSAGE = {"minimum": (1024, 1023), "maximum": (3_145_728, 3_145_729)}
_INT31 = (1 << 31) - 1
_UP_TO_INT31: Final = {"minimum": (1, 0), "maximum": (_INT31, _INT31 + 1)}


def _retention(path: str) -> dict[str, dict[str, tuple[Any, Any]]]:
    return {
        f"{path}.retentionMs": {"minimum": (-1, -2)},
        f"{path}.retentionBytes": {"minimum": (-1, -2)},
        f"{path}.segmentMs": {"minimum": (1, 0)},
        f"{path}.fileDeleteDelayMs": {
            "minimum": (0, -1),
            "maximum": (604_800_000, 604_800_001),
        },
    }


_BROKER_EPOCH_MAX = (1 << 24) - 1
_NINE, _TEN = list(range(9)), list(range(10))
_MOST, _OVER = list(range(18)), list(range(19))
_NONE_ELIGIBLE: Final[Manifest] = {"status.elr": [], "status.elrBrokerEpochs": []}
_NOT_MOVING = {**_NONE_ELIGIBLE, "status.addingReplicas": GONE, "status.removingReplicas": GONE}
_LED_BY_TWO: Final = {
    "status.isr": [2],
    "status.isrBrokerEpochs": [6],
    "status.leader": 2,
    **_NONE_ELIGIBLE,
}
_MOST_ELIGIBLE: Final = {
    "status.replicas": _MOST,
    "status.isr": [],
    "status.isrBrokerEpochs": [],
    "status.leader": -1,
}


def _without_listener(replicas: int) -> Also:
    return Also(value=replicas, others={"spec.externalListener": GONE})


BOUNDS: Final[dict[str, Bounds]] = {
    "BrokerCluster": {
        **_CONDITION_BOUNDS,
        "spec.replicas": {
            "minimum": (_without_listener(1), _without_listener(0)),
            "maximum": (_without_listener(100), _without_listener(101)),
        },
        "spec.timing": {"enum": ("safe", "quick")},
        "spec.storage.size": {
            "maxLength": ("1" * 18 + "Gi", "1" * 19 + "Gi"),
            "pattern": ("10Gi", "0Gi"),
        },
        "spec.storage.storageClassName": {
            "minLength": ("s", ""),
            "maxLength": ("s" * 253, "s" * 254),
        },
        "spec.config.replicaLagTimeMaxMs": {
            "minimum": (1000, 999),
            "maximum": (86_400_000, 86_400_001),
        },
        "spec.config.logSegmentBytes": _SEGMENT,
        "spec.config.logFlushIntervalMessages": {"minimum": (1, 0)},
        "spec.config.messageMaxBytes": _MESSAGE,
        "spec.config.logRetentionMs": {"minimum": (-1, -2)},
        "spec.config.logRetentionBytes": {"minimum": (-1, -2)},
        "spec.config.logRollMs": {"minimum": (1, 0)},
        "spec.config.logRetentionCheckIntervalMs": {
            "minimum": (100, 99),
            "maximum": (86_400_000, 86_400_001),
        },
        "spec.config.logDirFillMax": {"minimum": (0.1, 0.09), "maximum": (1, 1.1)},
        **RUNNING_KEYS_BOUNDS,
        **{
            f"spec.resources.{group}.{name}": {
                keyword: (
                    Also(value=good, others={f"spec.resources.{other}": GONE}),
                    Also(value=bad, others={f"spec.resources.{other}": GONE}),
                )
                for keyword, (good, bad) in bounds.items()
            }
            for group, other in (("requests", "limits"), ("limits", "requests"))
            for name, bounds in _RESOURCE.items()
        },
        "status.topics": {"minimum": (0, -1)},
        **SCALE_BOUNDS,
        **BROKER_ROW_BOUNDS,
        **WANTED_DIGEST_BOUNDS,
        **ANALYSIS_BOUNDS,
        **CLUSTER_LISTS_BOUNDS,
        **POD_BOUNDS,
        **LISTENER_BOUNDS,
    },
    "ReplicatedTopic": {
        **_CONDITION_BOUNDS,
        "spec.clusterRef": {"minLength": ("c", ""), "maxLength": ("c" * 40, "c" * 41)},
        "spec.topicName": {"maxLength": ("T" * 249, "T" * 250), "pattern": ("a._-Z9", "a/b")},
        "spec.topicId": {
            "maxLength": (TOPIC_ID, TOPIC_ID + "0"),
            "pattern": (OTHER_TOPIC_ID, TOPIC_ID.upper()),
        },
        "spec.partitions": {"minimum": (1, 0), "maximum": (1000, 1001)},
        "spec.replicationFactor": {
            "minimum": (
                Also(value=1, others={"spec.config.minInsyncReplicas": 1}),
                Also(value=0, others={"spec.config.minInsyncReplicas": GONE}),
            ),
            "maximum": (9, 10),
        },
        "spec.config.minInsyncReplicas": {"minimum": (1, 0)},
        "spec.config.segmentBytes": _SEGMENT,
        "spec.config.maxMessageBytes": _MESSAGE,
        "spec.config.flushMessages": {"minimum": (1, 0)},
        **_retention("spec.config"),
        **TOPIC_STATUS_BOUNDS,
        "status.effectiveConfig.minInsyncReplicas": {"minimum": (1, 0), "maximum": (9, 10)},
        "status.effectiveConfig.segmentBytes": _UP_TO_INT31,
        "status.effectiveConfig.maxMessageBytes": _UP_TO_INT31,
        "status.effectiveConfig.flushMessages": {"minimum": (1, 0)},
        **_retention("status.effectiveConfig"),
    },
    "Broker": {
        "spec.brokerId": {
            "minimum": (Also(value=0, others={"metadata.name": "more-0"}), -1),
            "maximum": (
                Also(value=99, others={"metadata.name": "more-99"}),
                Also(value=100, others={"metadata.name": "more-100"}),
            ),
        },
        "status.brokerEpoch": {"maximum": (_BROKER_EPOCH_MAX, _BROKER_EPOCH_MAX + 1)},
        "status.cleanSinceEpoch": {"minimum": (1, 0)},
        "status.incarnation": {"minLength": ("i", ""), "maxLength": ("i" * 128, "i" * 129)},
        **REGISTRATION_BOUNDS,
        **RUNNING_SETTINGS_BOUNDS,
    },
    "Partition": {
        **PARTITION_BOUNDS,
        "spec.topicId": {
            "maxLength": (TOPIC_ID, TOPIC_ID + "0"),
            "pattern": (OTHER_TOPIC_ID, TOPIC_ID.replace("-", "_")),
        },
        "spec.topicName": {"maxLength": ("n" * 249, "n" * 250), "pattern": ("a._-Z9", "a/b")},
        "spec.partition": {
            "minimum": (0, -1),
            "maximum": (
                Also(value=999, others={"metadata.name": "orders-999"}),
                Also(value=1000, others={"metadata.name": "orders-1000"}),
            ),
        },
        "spec.rebuildWithout": {
            "maxItems": (
                Also(value=_NINE[1:], others={"spec.replicas": _NINE}),
                Also(value=_NINE, others={"spec.replicas": _NINE}),
            )
        },
        "status.replicas": {
            "minItems": (
                Also(
                    value=[0],
                    others={**_NOT_MOVING, "status.isr": [0], "status.isrBrokerEpochs": [5]},
                ),
                Also(
                    value=[],
                    others={
                        "status.isr": [],
                        "status.isrBrokerEpochs": [],
                        "status.leader": -1,
                        **_NOT_MOVING,
                    },
                ),
            ),
            "maxItems": (_MOST, _OVER),
        },
        **{
            f"status.{field}": {
                "maxItems": (
                    Also(value=_MOST[1:], others={"status.replicas": _MOST}),
                    Also(value=_MOST, others={"status.replicas": _MOST}),
                )
            }
            for field in ("addingReplicas", "removingReplicas")
        },
        "status.replicas[]": {
            "minimum": (Also(value=0, others=_LED_BY_TWO), Also(value=-1, others=_LED_BY_TWO)),
            "maximum": (Also(value=99, others=_LED_BY_TWO), Also(value=100, others=_LED_BY_TWO)),
        },
        "status.isr": {
            "maxItems": (
                Also(
                    value=_MOST,
                    others={
                        "status.replicas": _MOST,
                        "status.isrBrokerEpochs": [1] * 18,
                        **_NONE_ELIGIBLE,
                    },
                ),
                _OVER,
            )
        },
        "status.isrBrokerEpochs": {
            "maxItems": (
                Also(
                    value=[1] * 18,
                    others={"status.replicas": _MOST, "status.isr": _MOST, **_NONE_ELIGIBLE},
                ),
                [1] * 19,
            )
        },
        "status.elr": {
            "maxItems": (
                Also(value=_MOST, others={**_MOST_ELIGIBLE, "status.elrBrokerEpochs": [1] * 18}),
                _OVER,
            )
        },
        "status.elrBrokerEpochs": {
            "maxItems": (
                Also(value=[1] * 18, others={**_MOST_ELIGIBLE, "status.elr": _MOST}),
                [1] * 19,
            )
        },
        "status.minInsyncReplicas": {
            "minimum": (
                Also(value=1, others=_NONE_ELIGIBLE),
                Also(value=0, others=_NONE_ELIGIBLE),
            ),
            "maximum": (9, 10),
        },
        "status.controllerEpoch": {"minimum": (1, 0), "maximum": (_INT31, _INT31 + 1)},
    },
}
