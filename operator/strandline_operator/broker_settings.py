"""How spec.config of a BrokerCluster reaches its brokers, and whether it has (ADR 0056).

Pure. `resources` writes what needs a restart into the file that pods mount, and what running
brokers take over into their Broker objects; `topic_settings` has what topics take. `cluster_health`
compares the digests that brokers report.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import yaml

from strandline.config.broker import KEYS_SINCE, SETTINGS, SINCE, TIMING_PROFILE
from strandline.config.declaration import Applies
from strandline.config.running import settings_digest

from .conditions import Readiness, listed
from .observed import DesiredCluster, ObservedCluster

BROKER_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "replicaLagTimeMaxMs": "replica.lag.time.max.ms",
        "logSegmentBytes": "log.segment.bytes",
        "logFlushIntervalMessages": "log.flush.interval.messages",
        "messageMaxBytes": "message.max.bytes",
        "logRetentionMs": "log.retention.ms",
        "logRetentionBytes": "log.retention.bytes",
        "logRollMs": "log.roll.ms",
        "logRetentionCheckIntervalMs": "log.retention.check.interval.ms",
        "logDirFillMax": "log.dir.fill.max",
        "logTrashRetentionMs": "log.trash.retention.ms",
        "logTrashRetentionBytes": "log.trash.retention.bytes",
        "leaderReplicationThrottledRate": "leader.replication.throttled.rate",
        "followerReplicationThrottledRate": "follower.replication.throttled.rate",
    }
)
"""Field of BrokerCluster.spec.config to Kafka's key."""


def running_settings(cluster: DesiredCluster) -> dict[str, int | float]:
    """Return the settings that running brokers take over, by key."""
    return _given(cluster, Applies.RUNNING)


def file_of(cluster: DesiredCluster) -> str:
    """Return the configuration file of the brokers: another file needs a restart."""
    return file_text({TIMING_PROFILE.key: cluster.timing, **_given(cluster, Applies.RESTART)})


def file_text(settings: Mapping[str, object]) -> str:
    """Return a configuration file, with the version of each key that came later (ADR 0039)."""
    marks = {key: SINCE[key] for key in settings if SINCE[key] > 1}
    marked = {KEYS_SINCE.key: marks} if marks else {}
    return yaml.safe_dump({**settings, **marked}, sort_keys=True)


def wanted_digest(cluster: DesiredCluster) -> str:
    """Return the digest that each broker reports once it works with the cluster's settings."""
    given = _given(cluster, Applies.RESTART) | _given(cluster, Applies.RUNNING)
    return settings_digest({TIMING_PROFILE.key: cluster.timing, **given})


def _given(cluster: DesiredCluster, applies: Applies) -> dict[str, int | float]:
    given = {
        key: cluster.config[field] for field, key in BROKER_KEYS.items() if field in cluster.config
    }
    return {key: value for key, value in given.items() if SETTINGS[key].applies is applies}


def config_applied(
    cluster: DesiredCluster, observed: ObservedCluster, config_map: str
) -> Readiness:
    """Judge whether every broker works with the settings of the cluster.

    config_map is the one of the present configuration, which pods mount.
    """
    if not observed.pods:
        return Readiness(ready=None, reason="NoPods", message="there are no pods to judge yet")
    found = observed.registrations
    refused = [
        f"broker {each.broker_id}: {each.config_refused}"
        for each in found.values()
        if each.config_refused
    ]
    if refused:
        message = f"brokers refuse settings, and keep those from before: {listed(refused)}"
        return Readiness(reason="SettingsRefused", message=message)
    old = [pod.name for pod in observed.pods if config_map not in pod.config_maps]
    if old:
        message = (
            f"pods were started before ConfigMap {config_map}, and take it when they are replaced; "
            f"the condition Rolling tells what that waits for: {listed(old)}"
        )
        return Readiness(reason="OldConfiguration", message=message)
    wanted = wanted_digest(cluster)
    silent = [f"broker {each}" for each in cluster.broker_ids if each not in found]
    if silent:
        message = f"brokers have not registered yet: {listed(silent)}"
        return Readiness(ready=None, reason="NotRegistered", message=message)
    behind = [
        f"broker {each} ({found[each].config_digest or 'none told'})"
        for each in cluster.broker_ids
        if found[each].config_digest != wanted
    ]
    if behind:
        message = (
            f"brokers work with other settings than those of digest {wanted}: {listed(behind)}"
        )
        return Readiness(reason="NotApplied", message=message)
    message = f"all {cluster.replicas} brokers work with the settings of digest {wanted}"
    return Readiness(ready=True, reason="Applied", message=message)
