"""What the controller tells in BrokerCluster.status: values that are complete, and their bounds."""

from __future__ import annotations

from typing import Any, Final

_TIME = "2026-11-22T10:00:00.000000Z"
DELETED = {"topicId": "uid", "topicName": "orders", "deletedAt": _TIME}
REPLICAS = {"partition": 0, "brokers": [0, 1]}
STRAY = {
    "topicId": "uid",
    "topicName": "orders",
    "partitions": 1,
    "inTrash": True,
    "deletedAt": _TIME,
    "replicas": [REPLICAS],
}
CLUSTER_LISTS: Final[dict[str, Any]] = {
    "topicRevision": 4,
    "deletedTopics": [DELETED],
    "strays": [STRAY],
    "straysTotal": 1,
}
CLUSTER_LISTS_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "status.controller.holderIdentity": {
        "minLength": ("h", ""),
        "maxLength": ("h" * 200, "h" * 201),
    },
    "status.controller.brokerId": {"minimum": (0, -1), "maximum": (99, 100)},
    "status.controller.epoch": {"minimum": (1, 0), "maximum": ((1 << 31) - 1, 1 << 31)},
    "status.topicRevision": {"minimum": (0, -1)},
    "status.straysTotal": {"minimum": (0, -1)},
    "status.deletedTopics": {"maxItems": ([DELETED] * 500, [DELETED] * 501)},
    "status.strays": {"maxItems": ([STRAY] * 100, [STRAY] * 101)},
    **{
        f"status.{listed}[].{field}": bounds
        for listed in ("deletedTopics", "strays")
        for field, bounds in {
            "topicId": {"minLength": ("i", ""), "maxLength": ("i" * 63, "i" * 64)},
            "topicName": {"maxLength": ("t" * 249, "t" * 250)},
        }.items()
    },
    "status.strays[].partitions": {"minimum": (1, 0), "maximum": (1000, 1001)},
    "status.strays[].replicas": {"maxItems": ([REPLICAS] * 1000, [REPLICAS] * 1001)},
    "status.strays[].replicas[].partition": {"minimum": (0, -1), "maximum": (999, 1000)},
    "status.strays[].replicas[].brokers": {"maxItems": ([0] * 100, [0] * 101)},
    "status.strays[].replicas[].brokers[]": {"minimum": (0, -1), "maximum": (99, 100)},
}
