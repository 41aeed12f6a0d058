"""Settings of running brokers in the CRDs: complete ones, and every bound."""

from __future__ import annotations

from typing import Any, Final

DIGEST: Final = "0123456789abcdef"
_DIGEST_BOUND: Final = {"maxLength": ("d" * 64, "d" * 65)}

RUNNING_KEYS: Final[dict[str, Any]] = {
    "logTrashRetentionMs": 0,
    "logTrashRetentionBytes": 1 << 30,
    "leaderReplicationThrottledRate": 1 << 20,
    "followerReplicationThrottledRate": 1 << 21,
}
RUNNING_KEYS_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "spec.config.logTrashRetentionMs": {"minimum": (0, -1)},
    "spec.config.logTrashRetentionBytes": {"minimum": (-1, -2)},
    "spec.config.leaderReplicationThrottledRate": {"minimum": (65_536, 65_535)},
    "spec.config.followerReplicationThrottledRate": {"minimum": (65_536, 65_535)},
}
RUNNING_SETTINGS: Final[dict[str, Any]] = {"config": {"any": 0.8}, "removed": True}
TOLD_SETTINGS: Final[dict[str, Any]] = {"configDigest": DIGEST, "configRefused": "why not"}
RUNNING_SETTINGS_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "spec.config": {
        "maxProperties": ({f"k{n}": n for n in range(64)}, {f"k{n}": n for n in range(65)})
    },
    "status.configDigest": _DIGEST_BOUND,
    "status.configRefused": {"maxLength": ("r" * 1_024, "r" * 1_025)},
    "status.readingLogs": {"maxLength": ("i" * 128, "i" * 129)},
}
WANTED_DIGEST: Final[dict[str, Any]] = {"configDigest": DIGEST}
WANTED_DIGEST_BOUNDS: Final[dict[str, dict[str, tuple[Any, Any]]]] = {
    "status.configDigest": _DIGEST_BOUND,
    "status.brokers[].configDigest": _DIGEST_BOUND,
}
