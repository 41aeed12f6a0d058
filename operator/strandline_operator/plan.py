"""From the desired and the observed state to a list of actions: the operator's only decisions.

Pure: time is an argument, nothing is performed. Level-triggered: a plan does not depend on the
change that caused it. An unchanged world gives an empty plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL, DEFAULT_CLUSTER

from . import external, growth, kinds, operator_config, pod_settings, resources, versions
from .actions import (
    Action,
    ApplyObject,
    ApplyStatus,
    CreateCluster,
    EvictPod,
    InitialisePartitions,
    MovePartition,
    PostEvent,
    RecreatePartitions,
    ReleasePods,
    RemoveConfigMaps,
    RemoveServices,
)
from .conditions import READY, Readiness
from .disruption import disruption_allowed
from .kinds import name_of
from .observed import (
    DesiredCluster,
    DesiredTopic,
    FoundObject,
    FoundStatus,
    ObjectRef,
    ObservedCluster,
    ObservedTopic,
    Ownership,
)
from .operator_config import OperatorConfig
from .placement import on_logs, place_topic, resized
from .pod_settings import NodeSpread, SpreadDecision
from .rolling import RollingStep, rolling_step
from .status import (
    CONFLICT,
    COPIED,
    TOPIC_ID_IN_USE,
    VOLUMES_FULL,
    VOLUMES_HAVE_ROOM,
    cluster_status,
    copies_message,
    full_volumes_message,
    partition_counts,
    topic_readiness,
    topic_status,
)

MOVES_IN_A_PASS_MAX: Final = 100
"""Specs that one pass writes when the replication factor changes; the next pass goes on."""


def plan_cluster(
    desired: DesiredCluster,
    observed: ObservedCluster,
    config: OperatorConfig,
    *,
    now: str,
    refusal: Readiness | None = None,
) -> list[Action]:
    """Return the actions that bring a cluster's objects to the desired state, and its status.

    refusal is a failed action of this pass: then the status alone, which tells of it.
    """
    if desired.is_terminating:
        return []
    spread = pod_settings.spread_of(desired, observed)
    choice = versions.choose(desired, observed, config)
    desired = replace(desired, spread_nodes=spread.nodes, image=choice.wanted.image)
    current = _present_objects(desired, observed, config)
    former = _former_config_maps(desired, observed, current)
    bodies = [
        *(
            resources.former_config_map(desired, each, has_topics=observed.has_topics)
            for each in former
        ),
        *current,
        # The last: a nodePort that is refused ends the pass.
        *resources.external_services_of(desired, has_topics=observed.has_topics),
    ]
    obstacle = _refused_part(_parts_of(bodies, observed))
    obstacle = obstacle or _brokers_left_out(desired, observed) or refusal or choice.obstacle
    actions: list[Action] = []
    if obstacle is None:
        actions = _apply_actions(bodies, observed)
        if gone := external.superfluous_services(desired, observed):
            actions.append(RemoveServices(services=tuple(gone)))
    if obstacle is None or not obstacle.refused:
        actions += _removals(desired, former)
    if obstacle is None:
        # Behind all others, because the storage class may refuse it for ever.
        actions += growth.actions(desired, observed)
    # A cluster that has an image is kept whole with it, whatever its spec names now.
    amiss = obstacle or choice.refusal
    step = rolling_step(desired, observed, amiss, is_written=_has_its_pods(actions))
    # After what it tells of, so that it tells of nothing that a refused action did not do.
    status = cluster_status(desired, observed, amiss, step.readiness, now=now)
    status |= choice.status(is_written=obstacle is None)
    # A cluster that waits or is refused decides nothing before it has its pods.
    is_decided = obstacle is None or not spread.is_new
    if is_decided:
        status["spread"] = spread.status
    actions += _status_actions(desired.ref, observed.status, status, amiss, refusal)
    if obstacle is None:
        actions += versions.events(desired, choice)
    if is_decided and spread.is_new:
        actions.append(_spread_event(desired.ref, spread))
    actions += growth.events(desired, observed)
    actions += _volume_events(desired, observed)
    # The last: a budget that closed meanwhile ends the pass.
    return actions + _restart_actions(desired, step)


def _has_its_pods(actions: Sequence[Action]) -> bool:
    """Tell whether the StatefulSet stays as it is: otherwise its latest revision is unknown."""
    return not any(
        isinstance(each, ReleasePods)
        or (isinstance(each, ApplyObject) and each.body["kind"] == kinds.STATEFUL_SET.kind)
        for each in actions
    )


def _removals(desired: DesiredCluster, former: list[FoundObject]) -> list[Action]:
    """Return what removes the former ConfigMaps beyond those that are kept, the oldest first."""
    superfluous = tuple(each.ref for each in former[: -operator_config.CONFIG_MAPS_KEPT])
    if not superfluous:
        return []
    selector = resources.pod_selector(desired)
    return [RemoveConfigMaps(cluster=desired.ref, selector=selector, former=superfluous)]


def _restart_actions(desired: DesiredCluster, step: RollingStep) -> list[Action]:
    """Return the eviction of the pod that is replaced now, and the Event about it."""
    if step.restart is None:
        return []
    in_sync = {CLUSTER_LABEL: desired.ref.name} if step.needs_in_sync else {}
    version = step.restart.resource_version
    return [
        EvictPod(pod=step.restart.ref, resource_version=version, in_sync=in_sync),
        PostEvent(
            about=desired.ref,
            reason="BrokerRestarting",
            message=step.readiness.message,
            is_warning=False,
        ),
    ]


def _present_objects(
    desired: DesiredCluster, observed: ObservedCluster, config: OperatorConfig
) -> list[Object]:
    """Return the objects that the cluster has now, without those of its external listener."""
    return resources.objects_of(
        # A template of claims cannot be changed: `growth` replaces the StatefulSet last.
        replace(desired, storage_size=growth.template_size(desired, observed)),
        config,
        has_topics=observed.has_topics,
        disruption_allowed=bool(disruption_allowed(observed.partitions).ready),
        addresses=external.addresses(desired, observed),
    )


def _spread_event(cluster: ObjectRef, spread: SpreadDecision) -> PostEvent:
    message = f"spread over nodes is {spread.nodes}: {spread.message}"
    is_warning = spread.nodes is not NodeSpread.REQUIRED
    return PostEvent(about=cluster, reason=spread.reason, message=message, is_warning=is_warning)


def _parts_of(
    bodies: list[Object], observed: ObservedCluster
) -> list[tuple[Ownership, FoundObject]]:
    """Return what has the names of these objects already."""
    found = (observed.parts.get((body["kind"], name_of(body))) for body in bodies)
    return [each for each in found if each is not None]


def _apply_actions(bodies: list[Object], observed: ObservedCluster) -> list[Action]:
    """Return the applies of those objects that are not as desired."""
    return [
        ApplyObject(body=body, why=why)
        for body in bodies
        if (why := _why_apply(body, observed.parts.get((body["kind"], name_of(body)))))
    ]


def _former_config_maps(
    desired: DesiredCluster, observed: ObservedCluster, current: list[Object]
) -> list[FoundObject]:
    """Return the ConfigMaps of former revisions, the oldest first."""
    wanted = {name_of(body) for body in current if body["kind"] == kinds.CONFIG_MAP.kind}
    ours = (Ownership.OURS, Ownership.ORPHAN)
    found = [
        each
        for ownership, each in observed.parts.values()
        if ownership in ours and resources.is_config_map_of(each, desired.ref)
    ]
    former = [each for each in found if each.ref.name not in wanted]
    return sorted(former, key=lambda each: (each.created_at, each.ref.name))


def _volume_events(desired: DesiredCluster, observed: ObservedCluster) -> list[Action]:
    """Return an Event if the first volume has become full, or if the last one has room again."""
    was_full = VOLUMES_FULL in observed.status.conditions
    if observed.full_brokers and not was_full:
        message = full_volumes_message(observed)
        return [PostEvent(about=desired.ref, reason=VOLUMES_FULL, message=message)]
    if was_full and not observed.full_brokers:
        message = "all volumes have room again, and all brokers take records of clients"
        return [
            PostEvent(
                about=desired.ref, reason=VOLUMES_HAVE_ROOM, message=message, is_warning=False
            )
        ]
    return []


def _refused_part(parts: list[tuple[Ownership, FoundObject]]) -> Readiness | None:
    """Return why an object with a desired name may not be touched, None if all may."""
    for ownership, found in parts:
        if ownership is Ownership.PREDECESSORS:
            message = f"{found.ref} belongs to a deleted cluster of this name and is not gone yet"
            return Readiness(reason="WaitingForDeletion", message=message)
        if ownership is Ownership.FOREIGN:
            taken = f"{found.ref} exists and is not this cluster's"
            message = f"{taken}; delete it or rename the cluster"
            return Readiness(reason="NameTaken", message=message, refused=True)
    return None


def _brokers_left_out(desired: DesiredCluster, observed: ObservedCluster) -> Readiness | None:
    """Return why a cluster may not start with fewer brokers than hold its partitions."""
    highest = max(observed.broker_epochs, default=0)
    if not observed.partitions or highest < desired.replicas:
        return None
    message = (
        f"spec.replicas is {desired.replicas}, but broker {highest} is registered and partitions "
        f"exist; create the cluster with at least {highest + 1} replicas"
    )
    return Readiness(reason="BrokersLeftOut", message=message, refused=True)


def _why_apply(body: Object, part: tuple[Ownership, FoundObject] | None) -> str:
    """Return why an object must be applied, "" if it is as desired or is being deleted."""
    if part is None:
        return "missing"
    ownership, found = part
    if ownership is Ownership.ORPHAN and "ownerReferences" in body["metadata"]:
        return "orphaned"
    return "" if ownership is Ownership.LEAVING or found.shows(body) else "changed"


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
        message = copies_message(observed)
        actions.append(PostEvent(about=desired.ref, reason=COPIED, message=message))
    return actions


def _obstacle(desired: DesiredTopic, observed: ObservedTopic) -> Readiness | None:
    """Return why a topic must wait for a user or for a deletion, None if it need not."""
    taken = _taken(desired, observed)
    if taken is not None:
        return taken
    cluster, factor = observed.cluster, desired.replication_factor
    if cluster is not None and factor > cluster.replicas:
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
        return [*actions, _initialise(desired, observed, cluster, now)]
    actions += _moves(desired, observed, cluster)
    counts = partition_counts(observed.partitions.values(), desired.partitions)
    readiness = topic_readiness(desired, counts, observed.partitions)
    return actions + _topic_status_actions(desired, observed, readiness, now, is_reconciled=True)


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
    )
    return [
        MovePartition(
            body=resources.moved_partition(
                each, resized(each.assigned, usual[number], in_sync=state.isr_ids)
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
    return _status_actions(desired.ref, observed.status, status, readiness, refusal)


def _status_actions(
    owner: ObjectRef,
    found: FoundStatus,
    status: Object,
    readiness: Readiness | None,
    refusal: Readiness | None,
) -> list[Action]:
    """Return the status write if the status changed, and an Event for a new refusal."""
    if found.shows(status):
        return []
    reason = status["conditions"][0]["reason"]
    # A write without an answer may have landed: what it raised must not be taken back.
    version = found.resource_version if refusal is not None else ""
    body = resources.status_of(owner, status, resource_version=version)
    actions: list[Action] = [ApplyStatus(body=body, reason=reason)]
    before = found.conditions.get(READY)
    if readiness is not None and readiness.refused and (before is None or before.reason != reason):
        actions.append(PostEvent(about=owner, reason=reason, message=readiness.message))
    return actions
