"""The conditions of a cluster: its brokers, their pods, and the partitions that they have.

Pure; called by `status`.
"""

from __future__ import annotations

from strandline.model import NO_LEADER

from . import resources
from .broker_settings import config_applied
from .conditions import (
    AVAILABLE,
    CONFIG_APPLIED,
    DISRUPTION_ALLOWED,
    MIN_ISR_MET,
    PODS_CURRENT,
    READY,
    ROLLING,
    SPREAD_MET,
    Readiness,
    listed,
    min_isr_met,
    reconciled,
    without_leader,
)
from .disruption import disruption_allowed
from .observed import DesiredCluster, ObservedCluster
from .pods import pods_current, spread_met
from .racks import racks_shared


def cluster_conditions(
    desired: DesiredCluster,
    observed: ObservedCluster,
    obstacle: Readiness | None,
    rolling: Readiness,
) -> dict[str, Readiness]:
    """Return the conditions of a cluster by type, Ready first.

    obstacle is what keeps the operator from writing the cluster's objects, None if they are;
    rolling is the condition of that name.
    """
    available = _available(observed)
    enough = min_isr_met(observed.partitions)
    rolled_up = (obstacle, _brokers(desired, observed), available, enough)
    amiss = [each for each in rolled_up if each is not None and not each.ready]
    message = f"all {desired.replicas} brokers are ready"
    ready = Readiness(ready=True, reason="AllBrokersReady", message=message)
    return {
        READY: amiss[0] if amiss else ready,
        AVAILABLE: available,
        MIN_ISR_MET: enough,
        SPREAD_MET: _spread_met(desired, observed),
        CONFIG_APPLIED: config_applied(desired, observed, resources.config_map_name(desired)),
        PODS_CURRENT: pods_current(observed.pods, observed.revision),
        ROLLING: rolling,
        DISRUPTION_ALLOWED: disruption_allowed(observed.partitions),
        **reconciled(obstacle),
    }


def _spread_met(desired: DesiredCluster, observed: ObservedCluster) -> Readiness:
    """Judge the places of brokers, and then those of replicas."""
    by_node = spread_met(observed.pods)
    if by_node.ready is False:
        return by_node
    return racks_shared(desired, observed) or by_node


def _brokers(desired: DesiredCluster, observed: ObservedCluster) -> Readiness | None:
    """Return why not all brokers are ready, None if they are."""
    if observed.ready_brokers >= desired.replicas:
        return None
    message = f"{observed.ready_brokers} of {desired.replicas} brokers are ready"
    message = "; ".join((message, *observed.causes))
    return Readiness(reason="BrokersNotReady", message=message)


def _available(observed: ObservedCluster) -> Readiness:
    """Judge whether clients can write to and read from every partition."""
    if not observed.has_controller:
        return Readiness(reason="NoController", message="no broker has become the controller yet")
    offline = [
        without_leader(each)
        for each in observed.partitions
        if each.state is None or each.state.leader == NO_LEADER
    ]
    total = len(observed.partitions)
    if offline:
        message = f"{len(offline)} of {total} partitions have no leader: {listed(offline)}"
        return Readiness(reason="PartitionsOffline", message=message)
    message = f"there is a controller, and all {total} partitions have a leader"
    return Readiness(ready=True, reason="AllPartitionsOnline", message=message)
