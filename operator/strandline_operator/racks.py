"""Racks of brokers: the label of a node by the key that the cluster names (ADR 0064).

Pure; called by `plan`, `reconcile`, `cluster_health`, `scaling` and `status`. The operator writes
the rack of each broker into its Broker; the controller announces it to brokers, and they to
clients. Nothing starts again for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.model import BrokerId

from . import kinds
from .actions import PostEvent
from .conditions import Readiness, listed
from .observed import DesiredCluster, FoundPod, ObservedCluster
from .placement import Racks

RACKS_KNOWN: Final = "RacksKnown"
"""Type of the condition that tells whether every broker has a rack; absent without a key."""


def nodes_asked_for(cluster: DesiredCluster, observed: ObservedCluster) -> set[str] | None:
    """Return the nodes whose labels say racks; None if nobody asks for them."""
    if not cluster.rack_key:
        return None
    return {pod.node for pod in observed.pods if pod.node}


def rack_of(cluster: DesiredCluster, observed: ObservedCluster, broker_id: BrokerId) -> str:
    """Return the rack of a broker, "" without one.

    While its pod has no node, or one that is not listed, what was written before holds: a pod
    mostly comes back to where its volume is, and its change queues another pass.
    """
    if not cluster.rack_key or observed.node_labels is None:
        return ""
    pod = _pod_of(cluster, observed, broker_id)
    if pod is not None and pod.node in observed.node_labels:
        return observed.node_labels[pod.node].get(cluster.rack_key, "")
    name = f"{cluster.ref.name}-{broker_id}"
    _, broker = observed.parts.get((kinds.BROKER.kind, name), (None, None))
    return "" if broker is None else str(broker.whole["spec"].get("rack", ""))


def racks_of(cluster: DesiredCluster, observed: ObservedCluster) -> Racks:
    """Return where the brokers of a cluster are, and which of them are nowhere yet."""
    brokers = {*cluster.broker_ids, *observed.registrations}
    found = {each: rack_of(cluster, observed, each) for each in sorted(brokers)}
    return Racks(
        by_broker={each: rack for each, rack in found.items() if rack},
        awaited=tuple(_awaited(cluster, observed, found)),
    )


def _awaited(
    cluster: DesiredCluster, observed: ObservedCluster, found: Mapping[BrokerId, str]
) -> list[BrokerId]:
    """Return the brokers without a rack that were never up, and whose pods have no node."""
    if not cluster.rack_key or observed.node_labels is None:
        return []
    pods = {each: _pod_of(cluster, observed, each) for each in cluster.broker_ids}
    return [
        each
        for each, pod in pods.items()
        if not found[each] and each not in observed.registrations and (pod is None or not pod.node)
    ]


def _pod_of(
    cluster: DesiredCluster, observed: ObservedCluster, broker_id: BrokerId
) -> FoundPod | None:
    name = f"{cluster.ref.name}-{broker_id}"
    return next((pod for pod in observed.pods if pod.name == name), None)


def racks_known(cluster: DesiredCluster, observed: ObservedCluster) -> Readiness | None:
    """Judge whether every broker has a rack; None if the cluster names no key."""
    key = cluster.rack_key
    if not key:
        return None
    ignored = "so new partitions are placed without regard to racks"
    if observed.node_labels is None:
        message = f"the operator may not list nodes, {ignored}; see operator.readNodes of the chart"
        return Readiness(reason="NodesNotListed", message=message)
    racks = {each: rack_of(cluster, observed, each) for each in cluster.broker_ids}
    without = [each for each, rack in racks.items() if not rack]
    if not without:
        return Readiness(
            ready=True, reason="AllRacksKnown", message=f"brokers by rack: {_named(racks)}"
        )
    pods = {each: _pod_of(cluster, observed, each) for each in without}
    nodes = {pod.node for pod in pods.values() if pod is not None and pod.node}
    if not nodes:
        message = f"pods of brokers {without} have no node yet, {ignored}"
        return Readiness(ready=None, reason="WaitingForNodes", message=message)
    message = f"brokers {without} have no rack, {ignored}; nodes without the label {key}: "
    return Readiness(reason="LabelMissing", message=message + listed(nodes))


def _named(racks: Mapping[BrokerId, str]) -> str:
    return listed(
        f"{rack} {[each for each in racks if racks[each] == rack]}" for rack in set(racks.values())
    )


def rack_events(cluster: DesiredCluster, observed: ObservedCluster) -> list[PostEvent]:
    """Return an Event if brokers lack a rack for a reason that the status does not show yet."""
    known, before = racks_known(cluster, observed), observed.status.conditions.get(RACKS_KNOWN)
    if known is None or known.ready is not False or (before and before.reason == known.reason):
        return []
    return [PostEvent(about=cluster.ref, reason=known.reason, message=known.message)]


def racks_shared(cluster: DesiredCluster, observed: ObservedCluster) -> Readiness | None:
    """Return which partitions are in fewer racks than they could be, None if none is.

    Nobody can tell while a broker has no rack. During a move the replicas from before it count.
    """
    racks = racks_of(cluster, observed).by_broker
    if not racks or any(each not in racks for each in cluster.broker_ids):
        return None
    count = len({racks[each] for each in cluster.broker_ids})
    crowded = []
    for each in observed.partitions:
        replicas = each.assigned if each.state is None else each.state.original_replicas
        if len({racks.get(one, "") for one in replicas}) < min(len(replicas), count):
            crowded.append(each.name)
    if not crowded:
        return None
    message = (
        "replicas share a rack, and would be lost together with it, although other racks have "
        f"none: {listed(crowded)}; `strandline rebalance` moves them apart"
    )
    return Readiness(reason="RackShared", message=message)
