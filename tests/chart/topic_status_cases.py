"""ReplicatedTopic.status in the CRD beside its settings: appliedConfig, and bounds."""

from __future__ import annotations

from typing import Any, Final

from .settings_cases import DIGEST

TOPIC_STATUS: Final[dict[str, Any]] = {
    "topicId": "uid",
    "partitionsInitialised": 6,
    "appliedConfig": {"digest": DIGEST, "brokers": [0, 1]},
}
TOPIC_STATUS_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "status.topicId": {"minLength": ("i", ""), "maxLength": ("i" * 63, "i" * 64)},
    "status.partitionsInitialised": {"minimum": (0, -1), "maximum": (1000, 1001)},
    "status.appliedConfig.digest": {"minLength": ("d", ""), "maxLength": ("d" * 64, "d" * 65)},
    "status.appliedConfig.brokers": {"maxItems": (list(range(100)), list(range(101)))},
    "status.appliedConfig.brokers[]": {"minimum": (0, -1)},
}
APPLIED_CONFIG_REQUIRED: Final = ["status.appliedConfig.digest", "status.appliedConfig.brokers"]
