"""The status of clusters and topics: counts, conditions, effective settings.

Pure; called by `plan`. A condition's time moves only when its status does, so that an
unchanged situation gives an unchanged status and no write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from strandline.kube.api import Object
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    UNCLEAN_LAST_REPLICA,
    PartitionState,
    StoredPartition,
)

from . import external, growth, resources
from .analysis import analysis_status
from .broker_ends import broker_failed
from .broker_settings import wanted_digest
from .cluster_health import cluster_conditions
from .conditions import (
    BROKER_FAILED,
    CONFIG_APPLIED,
    READY,
    SCALING,
    STALLED,
    VOLUMES_TOO_SMALL,
    Readiness,
    condition,
    listed,
    min_isr_met,
    reconciled,
    without_leader,
)
from .disruption import restart_of
from .observed import DesiredCluster, DesiredTopic, FoundStatus, ObservedCluster, ObservedTopic
from .racks import RACKS_KNOWN, racks_known
from .scaling import ScalingStep
from .topic_settings import effective_config, topic_config_applied

CONFLICT: Final = "Conflict"
"""Reason of a topic whose name is taken, and type of the condition of every refused topic."""
TOPIC_ID_IN_USE: Final = "TopicIdInUse"
"""Reason of a topic that may not adopt the logs of its topic id."""
COPIED: Final = "PartitionsCopied"
"""Type of a condition: the topic's partitions have Partition objects without effect."""

VOLUMES_FULL: Final = "VolumesFull"
"""Type of a condition and reason of an Event: brokers refuse records for want of space."""
VOLUMES_HAVE_ROOM: Final = "VolumesHaveRoom"
EXTERNAL_LISTENER: Final = "ExternalListener"
"""Type of the condition that tells whether clients outside can reach every broker."""


def cluster_status(
    cluster: DesiredCluster,
    observed: ObservedCluster,
    obstacle: Readiness | None,
    rolling: Readiness,
    scaling: ScalingStep,
    *,
    now: str,
) -> Object:
    """Return the operator's part of a cluster's status.

    obstacle is what keeps the operator from writing the cluster's objects, None if they are;
    rolling is the condition of that name. cluster has the brokers of the step of scaling.
    """
    conditions = cluster_conditions(cluster, observed, obstacle, rolling)
    conditions[SCALING] = scaling.readiness
    known = racks_known(cluster, observed)
    if known is not None:
        conditions[RACKS_KNOWN] = known
    if observed.full_brokers:
        message = full_volumes_message(observed)
        full = Readiness(ready=True, reason="ClientsRefused", message=message)
        conditions[VOLUMES_FULL] = full
    failed = broker_failed(observed)
    if failed is not None:
        conditions[BROKER_FAILED] = failed
    small = growth.too_small(cluster, observed, obstacle)
    if small is not None:
        conditions[VOLUMES_TOO_SMALL] = small
    outside: Object = {}
    if cluster.external is not None:
        conditions[EXTERNAL_LISTENER] = external.advertised(cluster, observed)
        servers = external.bootstrap_servers(cluster, observed)
        outside = {"externalListener": {"bootstrapServers": servers}}
    return {
        **outside,
        **growth.storage_status(cluster, observed),
        **analysis_status(observed),
        "observedGeneration": cluster.generation,
        "readyBrokers": observed.ready_brokers,
        "replicas": scaling.brokers,
        "selector": resources.pod_selector_text(cluster),
        **({"spreadOver": scaling.spread_over} if scaling.spread_over else {}),
        "topics": observed.topic_count,
        "configDigest": wanted_digest(cluster),
        "brokers": _broker_rows(cluster, observed),
        "partitions": partition_counts(observed.partitions, len(observed.partitions)),
        "conditions": _stored(conditions, cluster.generation, observed.status, now),
    }


def full_volumes_message(observed: ObservedCluster) -> str:
    """Return what people must know of brokers whose volumes are full."""
    return (
        f"brokers {list(observed.full_brokers)} refuse records of clients: their volumes are "
        "fuller than log.dir.fill.max. Reads go on, and writes do once there is room: "
        "delete topics or records, shorten retention, or enlarge the volumes"
    )


def topic_status(
    topic: DesiredTopic,
    observed: ObservedTopic,
    readiness: Readiness,
    *,
    is_reconciled: bool,
    now: str,
) -> Object:
    """Return the operator's part of a topic's status.

    is_reconciled tells whether its Partitions are written; if not, readiness says why. The status
    always holds partitionsInitialised as last seen: after an apply without the field, the API
    server would remove it.
    """
    found = observed.status
    conditions = {READY: readiness, **reconciled(None if is_reconciled else readiness)}
    if readiness.refused:
        # A state of the partitions, too, may be one that only a person can end.
        conditions[STALLED] = replace(readiness, ready=True)
    is_taken = readiness.reason in {CONFLICT, TOPIC_ID_IN_USE}
    if is_taken:
        reason = "NameTaken" if readiness.reason == CONFLICT else TOPIC_ID_IN_USE
        taken = Readiness(ready=True, reason=reason, message=readiness.message)
        conditions[CONFLICT] = taken
    if observed.copies:
        copied = Readiness(ready=True, reason="WithoutEffect", message=copies_message(observed))
        conditions[COPIED] = copied
    whole: Object = {
        "observedGeneration": topic.generation,
        "topicId": topic.topic_id,
        "partitions": partition_counts(observed.partitions.values(), topic.partitions),
    }
    if observed.partitions_initialised is not None:
        whole["partitionsInitialised"] = observed.partitions_initialised
    if observed.cluster is not None and not (is_taken and topic.adopts):
        # Brokers know a topic by its id: they must not hear of a second one's settings.
        whole["effectiveConfig"] = effective_config(topic, observed.cluster)
        conditions[CONFIG_APPLIED] = topic_config_applied(whole["effectiveConfig"], observed)
    elif observed.effective_config is not None:
        whole["effectiveConfig"] = dict(observed.effective_config)
    whole["conditions"] = _stored(conditions, topic.generation, found, now)
    return whole


def copies_message(observed: ObservedTopic) -> str:
    """Return what people must know of the Partitions that have no effect."""
    return (
        f"Partitions {list(observed.copies)} have this topic's id under names of their own; they "
        "have no effect: delete them, annotated with strandline.dev/deletion=allowed"
    )


def partition_counts(partitions: Iterable[StoredPartition], total: int) -> dict[str, int]:
    """Count partitions; one without a leader, a status or an object is offline."""
    found = list(partitions)
    states = _states(found)
    online = sum(map(_has_leader, states))
    return {
        "total": total,
        "online": online,
        "offline": total - online,
        "underReplicated": sum(len(state.isr) < len(state.original_replicas) for state in states),
        "underMinIsr": sum(len(state.isr) < state.min_insync_replicas for state in states),
        "atMinIsr": sum(len(state.isr) == state.min_insync_replicas for state in states),
        "moving": sum(each.state is not None and _moves(each, each.state) for each in found),
    }


def _has_leader(state: PartitionState) -> bool:
    return state.leader != NO_LEADER


def _moves(partition: StoredPartition, state: PartitionState) -> bool:
    """Tell whether a partition is not where its spec says, or about to be."""
    is_moving = bool(state.adding_replicas or state.removing_replicas)
    return is_moving or set(state.replicas) != set(partition.assigned)


def topic_readiness(
    topic: DesiredTopic, counts: dict[str, int], partitions: Mapping[int, StoredPartition]
) -> Readiness:
    """Judge a topic whose Partitions are all created."""
    total, online = counts["total"], counts["online"]
    waiting = [n for n, each in partitions.items() if each.recover and each.state is None]
    if waiting:
        message = (
            f"partitions {sorted(waiting)} may have records and wait until each of their "
            "brokers is up and has said what it has"
        )
        return Readiness(reason="WaitingForBrokers", message=message)
    if online < total:
        return _offline(topic, f"{online} of {total} partitions have a leader", partitions)
    enough = min_isr_met(partitions.values())
    if not enough.ready:
        return enough
    message = f"all {total} partitions have a leader"
    return Readiness(ready=True, reason="AllPartitionsOnline", message=message)


def _offline(
    topic: DesiredTopic, message: str, partitions: Mapping[int, StoredPartition]
) -> Readiness:
    """Judge a topic some of whose partitions have no leader; name the command that helps."""
    states = {number: each.state for number, each in sorted(partitions.items())}
    reasons = {number: state.reason for number, state in states.items() if state is not None}
    unclean = [n for n, reason in reasons.items() if reason == UNCLEAN_LAST_REPLICA]
    lost = [n for n, reason in reasons.items() if reason == STATE_LOST]
    if unclean and not topic.unclean_leader_election:
        message += (
            "; each broker in sync with the others may have lost records, in a reboot for example. "
            "This lets the most complete replica lead, and what it lacks is lost: "
            f"{unclean_command(topic.ref.name)}"
        )
        return Readiness(reason=UNCLEAN_LAST_REPLICA, message=message, refused=True)
    if lost:
        message += (
            f"; the state of {len(lost)} was lost, and the logs of all their brokers are waited "
            "for, or the last leader lost data and the logs differ. Without brokers that are gone "
            "for good, or whose logs are given up: strandline recover "
            f"{topic.ref.name}-{lost[0]} --without IDS"
        )
        return Readiness(reason=STATE_LOST, message=message)
    waiting = [each for each in partitions.values() if each.state and not _has_leader(each.state)]
    if waiting:
        message += f"; without one: {listed(map(without_leader, waiting))}"
    return Readiness(reason="PartitionsOffline", message=message)


def unclean_command(topic: str) -> str:
    """Return the command that allows unclean elections of a topic."""
    patch = '{"spec":{"uncleanLeaderElection":true}}'
    return f"kubectl patch replicatedtopic {topic} --type=merge -p '{patch}'"


def _stored(
    conditions: Mapping[str, Readiness], generation: int, found: FoundStatus, now: str
) -> list[Object]:
    """Return conditions as they are stored."""
    return [
        condition(kind, each, generation=generation, found=found, now=now)
        for kind, each in conditions.items()
    ]


def _broker_rows(cluster: DesiredCluster, observed: ObservedCluster) -> list[Object]:
    """Return a row for each broker: leaders, replicas, whether it may restart, volume, version."""
    states = _states(observed.partitions)
    leaders = Counter(state.leader for state in states)
    replicas = Counter(broker_id for state in states for broker_id in state.replicas)
    volumes = growth.volumes(cluster, observed)
    rows: list[Object] = []
    for broker_id in cluster.broker_ids:
        restart = restart_of(broker_id, observed.partitions)
        row: Object = {
            "id": broker_id,
            "leaders": leaders[broker_id],
            "replicas": replicas[broker_id],
            "safeToRestart": restart.is_safe,
            "because": restart.because,
        }
        if (registered := observed.registrations.get(broker_id)) is not None:
            row["epoch"] = registered.broker_epoch
            told = {
                "configDigest": registered.config_digest,
                "version": registered.software_version,
            }
            row |= {field: value for field, value in told.items() if value}
        if broker_id in volumes:
            row["volume"] = volumes[broker_id]
        rows.append(row)
    return rows


def _states(partitions: Iterable[StoredPartition]) -> list[PartitionState]:
    """Return the states of those partitions that have one."""
    return [partition.state for partition in partitions if partition.state is not None]
