"""From the desired and the observed state to a list of actions: the operator's only decisions.

Pure: time is an argument, nothing is performed. Level-triggered: a plan does not depend on the
change that caused it. An unchanged world gives an empty plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL

from . import external, growth, kinds, operator_config, pod_settings, resources, versions
from .actions import (
    Action,
    ApplyObject,
    EvictPod,
    PostEvent,
    ReleasePods,
    RemoveConfigMaps,
    RemoveServices,
)
from .analysis import analysis_events
from .broker_ends import end_events
from .conditions import Readiness
from .disruption import disruption_allowed
from .kinds import name_of
from .observed import (
    DesiredCluster,
    FoundObject,
    ObjectRef,
    ObservedCluster,
    Ownership,
)
from .operator_config import OperatorConfig
from .pod_settings import NodeSpread, SpreadDecision
from .racks import rack_events, racks_of
from .rolling import RollingStep, rolling_step
from .scaling import scaling_step
from .status import (
    VOLUMES_FULL,
    VOLUMES_HAVE_ROOM,
    cluster_status,
    full_volumes_message,
)
from .status_actions import status_actions


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
    scaling = scaling_step(desired, observed)
    desired = desired.with_brokers(scaling.brokers)
    spread = pod_settings.spread_of(desired, observed)
    choice = versions.choose(desired, observed, config)
    desired = replace(desired, spread_nodes=spread.nodes, image=choice.wanted.image)
    current = _present_objects(desired, observed, config)
    former = _former_config_maps(desired, observed, current)
    bodies = [*_former_objects(desired, observed, former), *current]
    outside = resources.external_services_of(desired, has_topics=observed.has_topics)
    obstacle = _refused_part(_parts_of([*bodies, *outside], observed))
    obstacle = obstacle or _brokers_left_out(desired, observed) or refusal or choice.obstacle
    actions: list[Action] = []
    if obstacle is None:
        # The last: a nodePort that is refused ends the pass.
        actions = _apply_actions(bodies, observed) + _outside(outside, desired, observed)
    if obstacle is None or not obstacle.refused:
        actions += _removals(desired, former)
    if obstacle is None:
        actions += scaling.moves
        # Behind all others, because the storage class may refuse it for ever.
        actions += growth.actions(desired, observed)
    else:
        scaling = replace(scaling, spread_over=observed.spread_over)
    # A cluster that has an image and brokers is kept whole with them, whatever its spec says now.
    amiss = obstacle or choice.refusal or scaling.refusal
    step = rolling_step(desired, observed, amiss, is_written=_has_its_pods(actions))
    # After what it tells of, so that it tells of nothing that a refused action did not do.
    status = cluster_status(desired, observed, amiss, step.readiness, scaling, now=now)
    status |= choice.status(is_written=obstacle is None)
    # A cluster that waits or is refused decides nothing before it has its pods.
    is_decided = obstacle is None or not spread.is_new
    if is_decided:
        status["spread"] = spread.status
    told = [
        *growth.events(desired, observed),
        *end_events(desired, observed),
        *analysis_events(desired, observed),
        *rack_events(desired, observed),
        *(versions.events(desired, choice) if obstacle is None else ()),
        *([_spread_event(desired.ref, spread)] if is_decided and spread.is_new else ()),
        *_volume_events(desired, observed),
    ]
    actions += status_actions(desired.ref, observed.status, status, amiss, refusal, events=told)
    # The last: a budget that closed meanwhile ends the pass.
    return actions + _restart_actions(desired, step)


def _former_objects(
    desired: DesiredCluster, observed: ObservedCluster, former: list[FoundObject]
) -> list[Object]:
    """Return the ConfigMaps of former revisions, which go before the present objects."""
    has_topics = observed.has_topics
    return [resources.former_config_map(desired, each, has_topics=has_topics) for each in former]


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
    version = "" if step.needs_in_sync else step.restart.resource_version
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
        removed=observed.registrations.keys() - set(desired.broker_ids),
        addresses=external.addresses(desired, observed),
        racks=racks_of(desired, observed).by_broker,
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


def _volume_events(desired: DesiredCluster, observed: ObservedCluster) -> list[PostEvent]:
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
    present = (each for each, found in observed.registrations.items() if not found.is_removed)
    highest = max(present, default=0)
    if observed.spread_over or not observed.partitions or highest < desired.replicas:
        return None
    message = (
        f"spec.replicas is {desired.replicas}, but broker {highest} is registered and partitions "
        f"exist; create the cluster with at least {highest + 1} replicas"
    )
    return Readiness(reason="BrokersLeftOut", message=message, refused=True)


def _outside(
    bodies: list[Object], desired: DesiredCluster, observed: ObservedCluster
) -> list[Action]:
    """Return the actions on the Services of the external listener."""
    gone = external.services_to_remove(desired, observed)
    removals: list[Action] = [RemoveServices(services=gone)] if gone else []
    return removals + _apply_actions(bodies, observed)


def _why_apply(body: Object, part: tuple[Ownership, FoundObject] | None) -> str:
    """Return why an object must be applied, "" if it is as desired or is being deleted."""
    if part is None:
        return "missing"
    ownership, found = part
    if ownership is Ownership.ORPHAN and "ownerReferences" in body["metadata"]:
        return "orphaned"
    return "" if ownership is Ownership.LEAVING or found.shows(body) else "changed"
