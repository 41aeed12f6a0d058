"""A broker's row of BrokerCluster.status, the volumes' size, the version: complete, with bounds."""

from __future__ import annotations

from typing import Any, Final

from .settings_cases import DIGEST

_EPOCH_MAX = (1 << 24) - 1
BROKER_ROW: Final[dict[str, Any]] = {
    "id": 0,
    "epoch": 4,
    "leaders": 2,
    "replicas": 6,
    "configDigest": DIGEST,
    "safeToRestart": True,
    "because": "it has no replica of a partition",
    "version": "0.1.0",
    "volume": {"wantedBytes": 1 << 31, "bytes": 1 << 30},
}
STORAGE_STATUS: Final[dict[str, Any]] = {
    "storage": {"size": "512Mi"},
    "version": "0.1.0",
    "image": "example.com/broker:0.1.0",
}
BROKER_ROW_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "status.brokers": {
        "maxItems": ([{"id": n} for n in range(100)], [{"id": n} for n in range(101)]),
        "unique": ([{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 1}]),
    },
    "status.brokers[].id": {"minimum": (0, -1)},
    "status.brokers[].epoch": {"minimum": (1, 0), "maximum": (_EPOCH_MAX, _EPOCH_MAX + 1)},
    "status.brokers[].leaders": {"minimum": (0, -1)},
    "status.brokers[].replicas": {"minimum": (0, -1)},
    "status.brokers[].because": {"maxLength": ("b" * 512, "b" * 513)},
    "status.brokers[].volume.bytes": {"minimum": (0, -1)},
    "status.brokers[].volume.wantedBytes": {"minimum": (0, -1)},
    "status.brokers[].version": {"maxLength": ("v" * 64, "v" * 65)},
    "spec.version": {
        "maxLength": ("0.1.0-" + "a" * 26, "0.1.0-" + "a" * 27),
        "pattern": ("1.20.3-rc1", ""),
    },
    "status.version": {"maxLength": ("v" * 64, "v" * 65)},
    "status.image": {"minLength": ("i", ""), "maxLength": ("i" * 512, "i" * 513)},
    "status.storage.size": {
        "maxLength": ("1" * 30 + "Gi", "1" * 31 + "Gi"),
        "pattern": ("1.5Pi", "1.5Bi"),
    },
}
