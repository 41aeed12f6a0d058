"""Bounds of a Partition whose values keep every other rule as they are."""

from __future__ import annotations

from typing import Any, Final

_BROKER_EPOCH_MAX: Final = (1 << 24) - 1
_INT31: Final = (1 << 31) - 1
_FROM_ZERO: Final = {"minimum": (0, -1), "maximum": (_INT31, _INT31 + 1)}
_BROKER_EPOCH: Final = {"minimum": (1, 0), "maximum": (_BROKER_EPOCH_MAX, _BROKER_EPOCH_MAX + 1)}
PARTITION_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "spec.replicas": {"minItems": ([1], []), "maxItems": (list(range(9)), list(range(10)))},
    "spec.replicas[]": {"minimum": (0, -1), "maximum": (99, 100)},
    "spec.electPreferredIn": _FROM_ZERO,
    "status.leaderEpoch": _FROM_ZERO,
    "status.partitionEpoch": _FROM_ZERO,
    "status.isrBrokerEpochs[]": _BROKER_EPOCH,
    "status.elrBrokerEpochs[]": _BROKER_EPOCH,
    "status.recovery": {"enum": ("Unclean", "Dirty")},
    "status.reason": {"maxLength": ("r" * 1024, "r" * 1025)},
}
