"""What a BrokerCluster says of its pods: resources, where they may run, and how they are spread.

Pure; called by `resources` for the pod template, and by `plan` for the spread. Everything here goes
into the template alone, which may change: no field of a StatefulSet that is fixed depends on it.
The CRD has checked the form of all settings (ADR 0048).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL

from . import kinds
from .observed import DesiredCluster, ObservedCluster, Ownership
from .operator_config import OperatorConfig

REQUESTS: Final = {"cpu": "100m", "memory": "256Mi"}
"""Of a broker whose cluster says nothing. A pod without requests is the first to be killed, and
quotas and policies refuse it; an idle broker needs less of either."""
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_DECIMAL: Final = ("m", "", "k", "M", "G", "T", "P", "E")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KEEPS_PODS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})


class NodeSpread(StrEnum):
    """Whether two brokers of a cluster may share a node, as spec.spread.nodes spells it."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadDecision:
    """How a cluster's brokers are spread; reason and message are those of status.spread.

    is_new tells that the operator decided it in this pass.
    """

    nodes: NodeSpread
    reason: str
    message: str
    is_new: bool = False

    @property
    def status(self) -> Object:
        """Return status.spread."""
        return {"nodes": self.nodes.value, "reason": self.reason, "message": self.message}


# --- the decision about spread -----------------------------------------------------------


def spread_of(cluster: DesiredCluster, observed: ObservedCluster) -> SpreadDecision:
    """Return how brokers are spread: as the spec says, else as before, else by the nodes' number.

    Two brokers on one node lose records together, so the default is Required where it can hold. It
    is decided once: a cluster whose nodes come and go must not change its mind.
    """
    if cluster.spread_nodes is not None:
        message = f"spec.spread.nodes is {cluster.spread_nodes}"
        nodes = NodeSpread(cluster.spread_nodes)
        return SpreadDecision(nodes=nodes, reason="Specified", message=message)
    return _as_before(cluster, observed) or _by_nodes(cluster, observed.schedulable_nodes)


def needs_nodes(cluster: DesiredCluster, observed: ObservedCluster) -> bool:
    """Tell whether the decision needs the number of schedulable nodes."""
    decided = cluster.spread_nodes is not None or _as_before(cluster, observed) is not None
    return not decided and not _is_choosy(cluster)


def _as_before(cluster: DesiredCluster, observed: ObservedCluster) -> SpreadDecision | None:
    """Return what the status shows, else what the StatefulSet has; None for a new cluster."""
    shown = observed.status.written.get("spread")
    if shown is not None:
        reason, message = shown["reason"], shown["message"]
        if reason == "Specified":
            reason = "AsBefore"
            message = f"spec.spread.nodes was {shown['nodes']} before it was removed"
        return SpreadDecision(nodes=NodeSpread(shown["nodes"]), reason=reason, message=message)
    found = observed.parts.get((kinds.STATEFUL_SET.kind, cluster.ref.name))
    if found is None or found[0] in (Ownership.PREDECESSORS, Ownership.FOREIGN):
        return None
    affinity = found[1].whole["spec"]["template"]["spec"].get("affinity") or {}
    terms = (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or []
    is_required = any(
        term["topologyKey"] == HOSTNAME
        and CLUSTER_LABEL in ((term.get("labelSelector") or {}).get("matchLabels") or {})
        for term in terms
    )
    nodes = NodeSpread.REQUIRED if is_required else NodeSpread.PREFERRED
    message = "the cluster's StatefulSet was made so"
    return SpreadDecision(nodes=nodes, reason="AsBefore", message=message)


def _by_nodes(cluster: DesiredCluster, count: int | None) -> SpreadDecision:
    rest = "set spec.spread.nodes to choose"
    counted = f"at its creation {count} nodes could take the cluster's {cluster.replicas} brokers"
    if _is_choosy(cluster):
        reason, message = "NodesNotCounted", f"nodes are not counted with nodeAffinity; {rest}"
    elif count is None:
        reason, message = "NodesNotCounted", f"the operator may not list nodes; {rest}"
    elif count < cluster.replicas:
        reason = "TooFewNodes"
        message = f"{counted}, so brokers share nodes and may lose records together; {rest}"
    else:
        message = f"{counted}, so no two share a node; {rest}"
        return SpreadDecision(
            nodes=NodeSpread.REQUIRED, reason="EnoughNodes", message=message, is_new=True
        )
    return SpreadDecision(nodes=NodeSpread.PREFERRED, reason=reason, message=message, is_new=True)


def _is_choosy(cluster: DesiredCluster) -> bool:
    """Tell whether more than labels and taints of nodes decides where a broker may run."""
    return _REQUIRED in ((cluster.pod.get("affinity") or {}).get("nodeAffinity") or {})


def schedulable_nodes(nodes: Iterable[Object], cluster: DesiredCluster) -> int:
    """Count the nodes that are ready, not cordoned, and of labels and taints that brokers accept.

    Whether they have room is not looked at.
    """
    return sum(_may_take(node, cluster.pod) for node in nodes)


def _may_take(node: Object, pod: Object) -> bool:
    spec, labels = node.get("spec") or {}, node["metadata"].get("labels") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    tolerations = pod.get("tolerations") or []
    taints = [each for each in spec.get("taints") or [] if each["effect"] in _KEEPS_PODS_AWAY]
    return (
        is_ready
        and not spec.get("unschedulable")
        and (pod.get("nodeSelector") or {}).items() <= labels.items()
        and all(any(_tolerates(each, taint) for each in tolerations) for taint in taints)
    )


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    """Tell whether a toleration covers a taint.

    Source:  Kubernetes ToleratesTaint: an absent key, effect or operator means all, all, Equal.
    """
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    is_any = toleration.get("operator") == "Exists"
    return is_any or toleration.get("value", "") == (taint.get("value") or "")


# --- parts of the pod template -----------------------------------------------------------


def scheduling(cluster: DesiredCluster, selector: Mapping[str, str]) -> Object:
    """Return the fields of a pod that say where it may run; selector are its cluster's labels.

    Kubernetes' own limit of 300 s holds for pods of a lost node: to delete them sooner starts no
    broker elsewhere, because its volume and its name stay, and stops one that had only been cut
    off for a moment.
    """
    pod = cluster.pod
    constraints = [_even(ZONE, selector)]
    affinity = dict(pod.get("affinity") or {})
    if cluster.spread_nodes == NodeSpread.REQUIRED:
        apart = dict(affinity.get("podAntiAffinity") or {})
        own = {"labelSelector": {"matchLabels": dict(selector)}, "topologyKey": HOSTNAME}
        affinity["podAntiAffinity"] = {**apart, _REQUIRED: [*(apart.get(_REQUIRED) or []), own]}
    else:
        constraints = [_even(HOSTNAME, selector), *constraints]
    parts: Object = {"topologySpreadConstraints": constraints}
    if affinity:
        parts["affinity"] = affinity
    for field in ("nodeSelector", "tolerations", "priorityClassName"):
        if pod.get(field):
            parts[field] = pod[field]
    return parts


def _even(topology: str, selector: Mapping[str, str]) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }


def metadata(cluster: DesiredCluster, labels: Mapping[str, str]) -> Object:
    """Return the metadata of the pods; labels are those by which the operator finds them."""
    whole: Object = {"labels": {**(cluster.pod.get("labels") or {}), **labels}}
    if cluster.pod.get("annotations"):
        whole["annotations"] = dict(cluster.pod["annotations"])
    return whole


def security(config: OperatorConfig) -> Object:
    """Return the pods' securityContext; without a user the platform gives each volume its group.

    OpenShift refuses users of the pod's own choice, and sets its own.
    """
    user = config.broker_user
    chosen = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    return {
        "runAsNonRoot": True,
        **chosen,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def pull_secrets(cluster: DesiredCluster, config: OperatorConfig) -> list[dict[str, str]]:
    """Return the pull secrets of the chart, then those of the cluster, each once."""
    own = (each["name"] for each in cluster.pod.get("imagePullSecrets") or [])
    return [{"name": name} for name in dict.fromkeys([*config.image_pull_secrets, *own])]


def broker_resources(cluster: DesiredCluster) -> Object:
    """Return a broker's resources, with a request of what has neither a request nor a limit.

    Kubernetes requests as much as the limit where only a limit is given. The API server returns
    quantities in its own form, so another form would look like a change for ever.
    """
    limits = _canonical(cluster.resources.get("limits") or {})
    defaults = {name: value for name, value in REQUESTS.items() if name not in limits}
    requests = defaults | _canonical(cluster.resources.get("requests") or {})
    whole: Object = {"requests": requests} if requests else {}
    return {**whole, "limits": limits} if limits else whole


def _canonical(quantities: Mapping[str, str]) -> dict[str, str]:
    return {name: canonical_quantity(value) for name, value in quantities.items()}


def canonical_quantity(quantity: str) -> str:
    """Return a quantity as the API server does: with the greatest suffix of a whole number.

    Source:  Kubernetes resource.Quantity: "0.5" is 500m, "1024Mi" is 1Gi, "1000" is 1k.
    """
    number = quantity.rstrip("KkMGTPEim")
    suffix = quantity[len(number) :]
    base, suffixes = (1024, _BINARY) if suffix.endswith("i") else (1000, _DECIMAL)
    # Whole in the unit of the first suffix, because no form has more than three decimals.
    whole, power = int(Fraction(number) * base ** suffixes.index(suffix)), 0
    while whole % base == 0 and power < len(suffixes) - 1:
        whole, power = whole // base, power + 1
    return f"{whole}{suffixes[power]}"


def quantity_bytes(quantity: str) -> int:
    """Return a quantity of any form as a whole number, rounded up.

    Source:  Kubernetes resource.Quantity: 1Gi, 1.5G, 1e9 and 1500m are all forms of numbers.
    """
    number = quantity.rstrip("KkMGTPEim")
    suffix = quantity[len(number) :]
    base, suffixes = (1024, _BINARY) if suffix.endswith("i") else (1000, _DECIMAL)
    # The first suffix of the decimal ones is a thousandth.
    unit = Fraction(base) ** (suffixes.index(suffix) - suffixes.index(""))
    return math.ceil(Fraction(number) * unit)
