"""The number of brokers in the CRDs: complete statuses, and every bound."""

from __future__ import annotations

from typing import Any, Final

SCALE_STATUS: Final[dict[str, Any]] = {
    "readyBrokers": 3,
    "replicas": 3,
    "selector": "a=b",
    "spreadOver": 3,
}
SCALE_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "status.readyBrokers": {"minimum": (0, -1), "maximum": (100, 101)},
    "status.replicas": {"minimum": (0, -1), "maximum": (100, 101)},
    "status.selector": {"maxLength": ("s" * 200, "s" * 201)},
    "status.spreadOver": {"minimum": (1, 0), "maximum": (100, 101)},
}
