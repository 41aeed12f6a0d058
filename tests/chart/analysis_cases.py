"""What the analysis tells in BrokerCluster.status: values that are complete, and their bounds."""

from __future__ import annotations

from typing import Any, Final

INCIDENT: Final = {
    "startedAt": "2026-11-25T14:14:35Z",
    "rootBroker": 1,
    "sentence": "broker 1 is at the root",
}
ANALYSIS_STATUS: Final[dict[str, Any]] = {
    "analysis": {
        "endedAt": "2026-11-25T15:00:07Z",
        "windowStart": "2026-11-25T14:00:00Z",
        "windowEnd": "2026-11-25T15:00:00Z",
        "coveragePercent": 99,
        "incidents": 1,
        "elections": 3,
        "isrShrinks": 4,
        "leaderlessLowMs": 800,
        "leaderlessHighMs": 1800,
        "recordsAtRisk": 500,
        "recordsLost": 0,
        "topIncidents": [INCIDENT],
    }
}
_COUNTS = (
    *("incidents", "elections", "isrShrinks", "leaderlessLowMs", "leaderlessHighMs"),
    *("recordsAtRisk", "recordsLost"),
)
ANALYSIS_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "status.analysis.coveragePercent": {"minimum": (0, -1), "maximum": (100, 101)},
    **{f"status.analysis.{name}": {"minimum": (0, -1)} for name in _COUNTS},
    "status.analysis.topIncidents": {"maxItems": ([INCIDENT] * 5, [INCIDENT] * 6)},
    "status.analysis.topIncidents[].rootBroker": {"minimum": (0, -1), "maximum": (99, 100)},
    "status.analysis.topIncidents[].sentence": {
        "minLength": ("s", ""),
        "maxLength": ("s" * 300, "s" * 301),
    },
}
