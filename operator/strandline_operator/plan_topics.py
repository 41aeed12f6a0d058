"""From a desired and an observed topic to a list of actions: its cluster, Partitions and status.

Pure, and level-triggered, as `plan` is of clusters.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from strandline.kube.api import Object
from strandline.kube.objects import DEFAULT_CLUSTER

from . import resources
from .actions import (
    Action,
    CreateCluster,
    InitialisePartitions,
    MovePartition,
    PostEvent,
    RecreatePartitions,
)
from .conditions import Readiness
from .observed import DesiredCluster, DesiredTopic, ObservedTopic
from .operator_config import OperatorConfig
from .placement import on_logs, place_topic, resized
from .status import (
    CONFLICT,
    COPIED,
    TOPIC_ID_IN_USE,
    copies_message,
    partition_counts,
    topic_readiness,
    topic_status,
)
from .status_actions import status_actions

MOVES_IN_A_PASS_MAX: Final = 100
"""Specs that one pass writes when the replication factor changes; the next pass goes on."""
RACKS_WAIT_MAX: Final = timedelta(seconds=60)
"""How old a topic is at most that waits until its brokers have racks."""


def plan_topic(
    desired: DesiredTopic,
    observed: ObservedTopic,
    config: OperatorConfig,
    *,
    now: str,
    refusal: Readiness | None = None,
) -> list[Action]:
    """Return the actions that give a topic its cluster and Partitions, and its status.

    refusal is a failed action of this pass: then the status alone, which tells of it.
    """
    if desired.is_terminating:
        return []
    obstacle = _obstacle(desired, observed) or refusal
    if obstacle is not None:
        actions = _topic_status_actions(desired, observed, obstacle, now, refusal=refusal)
    elif observed.cluster is None:
        actions = _plan_without_cluster(desired, observed, config, now)
    else:
        actions = _plan_partitions(desired, observed, observed.cluster, now)
    if observed.copies and COPIED not in observed.status.conditions:
        message, once = copies_message(observed), observed.status.resource_version
        # First, as in `status_actions`: the status takes its reason away.
        return [PostEvent(about=desired.ref, reason=COPIED, message=message, once=once), *actions]
    return actions


def _obstacle(desired: DesiredTopic, observed: ObservedTopic) -> Readiness | None:
    """Return why a topic must wait for a user or for a deletion, None if it need not."""
    taken = _taken(desired, observed)
    if taken is not None:
        return taken
    cluster, factor = observed.cluster, desired.replication_factor
    # Partitions that have their replicas need none: a cluster cannot lose brokers that hold them.
    placed = [each for each in observed.partitions.values() if len(each.assigned) == factor]
    if cluster is not None and len(placed) < desired.partitions and factor > cluster.replicas:
        message = (
            f"spec.replicationFactor is {factor}, but cluster {cluster.ref.name} "
            f"has {cluster.replicas} brokers"
        )
        return Readiness(reason="InvalidReplicationFactor", message=message, refused=True)
    crowded = [number for number, brokers in sorted(observed.logs.items()) if len(brokers) > factor]
    if crowded and not desired.is_initialised:
        brokers = sorted(observed.logs[crowded[0]])
        message = (
            f"spec.replicationFactor is {factor}, but brokers {brokers} have a log of partition "
            f"{crowded[0]}, and each may have records that the others lack; create the topic with "
            f"at least {max(map(len, observed.logs.values()))}"
        )
        return Readiness(reason="InvalidReplicationFactor", message=message, refused=True)
    if cluster is not None and observed.leftovers:
        name = min(found.stored.name for found in observed.leftovers)
        message = f"Partition {name} of a deleted topic is not gone yet"
        return Readiness(reason="WaitingForOldPartitions", message=message)
    return None


def _taken(desired: DesiredTopic, observed: ObservedTopic) -> Readiness | None:
    """Return who has the topic's name or the id that it adopts, None if it may have both."""
    name = (desired.cluster, desired.topic_name)
    named = [each for each in observed.topics if (each.cluster, each.topic_name) == name]
    first = _first(named)
    if first.ref.uid != desired.ref.uid:
        is_older = "is older and " if first.created_at < desired.created_at else ""
        message = f"{first.ref} {is_older}has the name {desired.topic_name} already"
        return Readiness(reason=CONFLICT, message=message, refused=True)
    first = _first([each for each in observed.topics if each.topic_id == desired.topic_id])
    if first.ref.uid != desired.ref.uid:
        message = f"{first.ref} has the topic id {desired.topic_id} already"
        return Readiness(reason=TOPIC_ID_IN_USE, message=message, refused=True)
    # The garbage collector deletes only what has an owner.
    for found in observed.leftovers:
        if found.stored.tp.topic_id == desired.topic_id and found.controller is None:
            message = (
                f"Partition {found.stored.name} of no topic has the topic id {desired.topic_id}; "
                "delete it first"
            )
            return Readiness(reason=TOPIC_ID_IN_USE, message=message, refused=True)
    return None


def _first(rivals: list[DesiredTopic]) -> DesiredTopic:
    """Return the topic that has what all of these want.

    The one that has Partitions keeps it; else the oldest gets it, of one second the one whose own
    uid is the id, then the lower uid.
    """
    return min(
        rivals,
        key=lambda each: (not each.is_initialised, each.created_at, each.adopts, each.ref.uid),
    )


def _plan_without_cluster(
    desired: DesiredTopic, observed: ObservedTopic, config: OperatorConfig, now: str
) -> list[Action]:
    name, actions = desired.cluster, list[Action]()
    if observed.led_partitions:
        message = (
            f"BrokerCluster {name} is gone, but brokers have its partitions, such as "
            f"{observed.led_partitions[0]}; create it again as it was"
        )
        readiness = Readiness(reason="ClusterLost", message=message, refused=True)
    elif name == DEFAULT_CLUSTER and config.default_cluster is not None:
        message = f"BrokerCluster {name} is being created"
        readiness = Readiness(reason="ClusterStarting", message=message)
        actions = [CreateCluster(body=resources.default_cluster(config.default_cluster))]
    else:
        message = f"there is no BrokerCluster {name}; create it, or a topic without spec.clusterRef"
        readiness = Readiness(reason="ClusterMissing", message=message, refused=True)
    return actions + _topic_status_actions(desired, observed, readiness, now)


def _plan_partitions(
    desired: DesiredTopic, observed: ObservedTopic, cluster: DesiredCluster, now: str
) -> list[Action]:
    initialised = observed.partitions_initialised or 0
    known = range(min(initialised, desired.partitions))
    lost = [number for number in known if number not in observed.partitions]
    actions = list[Action]()
    if lost:
        bodies = _partitions(desired, observed, cluster, lost, recover=True)
        actions.append(RecreatePartitions(about=desired.ref, bodies=tuple(bodies)))
    if initialised < desired.partitions:
        if waits_for_racks(desired, observed, now):
            return actions + _topic_status_actions(desired, observed, _without_racks(observed), now)
        return [*actions, _initialise(desired, observed, cluster, now)]
    actions += _moves(desired, observed, cluster)
    counts = partition_counts(observed.partitions.values(), desired.partitions)
    readiness = topic_readiness(desired, counts, observed.partitions)
    return actions + _topic_status_actions(desired, observed, readiness, now, is_reconciled=True)


def waits_for_racks(desired: DesiredTopic, observed: ObservedTopic, now: str) -> bool:
    """Tell whether new partitions of a young topic wait until pods of its cluster have nodes."""
    if not observed.racks.awaited or (observed.partitions_initialised or 0) >= desired.partitions:
        return False
    age = datetime.fromisoformat(now) - datetime.fromisoformat(desired.created_at)
    return age < RACKS_WAIT_MAX


def _without_racks(observed: ObservedTopic) -> Readiness:
    message = (
        f"pods of brokers {list(observed.racks.awaited)} have no node yet, whose label says their "
        f"rack; partitions are created without racks {RACKS_WAIT_MAX.seconds} s after the topic"
    )
    return Readiness(reason="WaitingForRacks", message=message)


def _moves(
    desired: DesiredTopic, observed: ObservedTopic, cluster: DesiredCluster
) -> list[MovePartition]:
    """Return the moves that give partitions the desired number of replicas, some at a time.

    One without a status has its first replicas still to come. The controller bounds how many move.
    """
    factor = desired.replication_factor
    wrong = [
        (number, each, each.state)
        for number, each in sorted(observed.partitions.items())
        if len(each.assigned) != factor and each.state is not None
    ][:MOVES_IN_A_PASS_MAX]
    usual = place_topic(
        desired.topic_id,
        [number for number, _, _ in wrong],
        brokers=cluster.broker_ids,
        replication_factor=factor,
        racks=observed.racks.by_broker,
    )
    return [
        MovePartition(
            body=resources.moved_partition(
                each,
                resized(
                    each.assigned,
                    usual[number],
                    in_sync=state.isr_ids,
                    racks=observed.racks.by_broker,
                ),
            ),
            former=each.assigned,
        )
        for number, each, state in wrong
    ]


def _initialise(
    desired: DesiredTopic, observed: ObservedTopic, cluster: DesiredCluster, now: str
) -> InitialisePartitions:
    first, after = observed.partitions_initialised or 0, desired.partitions
    message = f"partitions {first} to {after - 1} are being created"
    readiness = Readiness(reason="CreatingPartitions", message=message)
    status = topic_status(desired, observed, readiness, is_reconciled=False, now=now)
    raised = status | {"partitionsInitialised": after}
    return InitialisePartitions(
        status_body=resources.status_of(
            desired.ref, raised, resource_version=observed.status.resource_version
        ),
        bodies=tuple(
            _partitions(
                desired, observed, cluster, list(range(first, after)), recover=desired.adopts
            )
        ),
    )


def _partitions(
    desired: DesiredTopic,
    observed: ObservedTopic,
    cluster: DesiredCluster,
    numbers: list[int],
    *,
    recover: bool,
) -> list[Object]:
    placed = place_topic(
        desired.topic_id,
        numbers,
        brokers=cluster.broker_ids,
        replication_factor=desired.replication_factor,
        racks=observed.racks.by_broker,
    )
    placed = on_logs(placed, observed.logs)
    return [
        resources.partition(desired, number, placed[number], recover=recover) for number in numbers
    ]


def _topic_status_actions(
    desired: DesiredTopic,
    observed: ObservedTopic,
    readiness: Readiness,
    now: str,
    *,
    is_reconciled: bool = False,
    refusal: Readiness | None = None,
) -> list[Action]:
    status = topic_status(desired, observed, readiness, is_reconciled=is_reconciled, now=now)
    return status_actions(desired.ref, observed.status, status, readiness, refusal)
