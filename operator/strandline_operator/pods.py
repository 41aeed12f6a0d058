"""The brokers' pods and volume claims as the operator sees them; what places and revisions say.

Pure. `observe` reads pods with `read_pod` and claims with `read_claim`; `cluster_health` judges the
pods, `growth` the claims. The manifest of a pod is made in `resources`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from strandline.errors import ExitCode
from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL

from . import kinds
from .conditions import Readiness, listed
from .observed import BrokerEnd, FoundClaim, FoundPod, ObjectRef

REVISION_LABEL: Final = "controller-revision-hash"
"""Label by which a StatefulSet marks the revision of a pod."""
_RESIZING: Final = ("FileSystemResizePending", "Resizing")
"""Conditions of a claim whose volume does not have its size yet, the most telling one first."""
FAILED_ENDS: Final[dict[int, str]] = {
    ExitCode.LOG_DIRECTORY_FAILED: "LogDirectoryFailed",
    ExitCode.INVARIANT_VIOLATED: "InvariantViolated",
}
"""Reasons of the condition BrokerFailed."""
CAUSE_LENGTH_MAX: Final = 300
"""Characters of one sentence of somebody else, such as the last log lines of a container."""


def read_pod(value: Object) -> FoundPod | None:
    """Read a pod; None for a pod of no cluster."""
    metadata, spec, status = value["metadata"], value["spec"], value.get("status") or {}
    labels = metadata.get("labels") or {}
    if CLUSTER_LABEL not in labels:
        return None
    volumes = spec.get("volumes") or []
    held = {each["type"]: each for each in status.get("conditions") or []}
    is_ready = held.get("Ready", {}).get("status") == "True"
    is_terminating = metadata.get("deletionTimestamp") is not None
    stuck = "" if is_ready or is_terminating else _stuck(status, held)
    return FoundPod(
        ref=ObjectRef(kind=kinds.POD, name=str(metadata["name"]), uid=str(metadata["uid"])),
        resource_version=str(metadata["resourceVersion"]),
        cluster=str(labels[CLUSTER_LABEL]),
        node=str(spec.get("nodeName") or ""),
        revision=str(labels.get(REVISION_LABEL, "")),
        config_maps=frozenset(each["configMap"]["name"] for each in volumes if "configMap" in each),
        claims=tuple(
            str(each["persistentVolumeClaim"]["claimName"])
            for each in volumes
            if "persistentVolumeClaim" in each
        ),
        is_ready=is_ready,
        is_stuck=bool(stuck),
        is_terminating=is_terminating,
        cause="" if is_ready else _cause(status, stuck, is_terminating=is_terminating),
        end=_last_end(status),
    )


def read_claim(value: Object) -> FoundClaim | None:
    """Read a volume claim; None for a claim of no cluster."""
    metadata, spec, status = value["metadata"], value["spec"], value.get("status") or {}
    labels = metadata.get("labels") or {}
    if CLUSTER_LABEL not in labels:
        return None
    held = {each["type"]: each for each in status.get("conditions") or []}
    pending = [held[kind] for kind in _RESIZING if held.get(kind, {}).get("status") == "True"]
    return FoundClaim(
        ref=ObjectRef(kind=kinds.CLAIM, name=kinds.name_of(value), uid=str(metadata["uid"])),
        resource_version=str(metadata["resourceVersion"]),
        cluster=str(labels[CLUSTER_LABEL]),
        storage_class=str(spec.get("storageClassName") or ""),
        requested=storage_of((spec.get("resources") or {}).get("requests")),
        capacity=storage_of(status.get("capacity")),
        is_bound=status.get("phase") == "Bound",
        is_terminating=metadata.get("deletionTimestamp") is not None,
        pending=told(pending[0]["type"], pending[0].get("message")) if pending else "",
    )


def storage_of(sizes: Any) -> str:
    """Return the size among requests or capacities of a claim, "" if there is none."""
    return str((sizes or {}).get("storage") or "")


def _cause(status: Object, stuck: str, *, is_terminating: bool) -> str:
    """Return why a pod is not ready."""
    if is_terminating:
        return "it is being deleted"
    return told(status["reason"], status.get("message")) if status.get("reason") else stuck


def _stuck(status: Object, held: Mapping[str, Object]) -> str:
    """Return what keeps a pod from a node, or from running, "" if nothing does."""
    if status.get("reason"):
        # Such as NodeLost: the pod may run well where nobody can see it.
        return ""
    for container in status.get("containerStatuses") or []:
        cause = _container_cause(container)
        if cause:
            return cause
    placed = held.get("PodScheduled", {})
    if placed.get("status") == "False":
        return told(placed.get("reason"), placed.get("message"))
    return ""


def _container_cause(container: Object) -> str:
    """Return why a container does not run, with the end of its last run."""
    state, before = container.get("state") or {}, container.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or before.get("terminated") or {}
    if not waiting.get("reason") and "terminated" not in state:
        return ""
    if waiting.get("reason") == "ContainerCreating":
        return ""
    if ended:
        end = f"exit code {ended.get('exitCode')}"
        last = " ".join(str(ended.get("message") or "").split())[-CAUSE_LENGTH_MAX:]
        reason = waiting.get("reason") or ended.get("reason") or "Terminated"
        return f"{reason}: {end}" + (f": {last}" if last else "")
    return told(waiting["reason"], waiting.get("message"))


def _last_end(status: Object) -> BrokerEnd | None:
    """Return the last end of the pod's broker if the cause outlasts the process."""
    for container in status.get("containerStatuses") or []:
        now, before = container.get("state") or {}, container.get("lastState") or {}
        ended = now.get("terminated") or before.get("terminated") or {}
        reason = FAILED_ENDS.get(int(ended.get("exitCode") or 0))
        if reason is not None:
            words = " ".join(str(ended.get("message") or "").split())[-CAUSE_LENGTH_MAX:]
            return BrokerEnd(reason=reason, at=str(ended.get("finishedAt") or ""), words=words)
    return None


def told(reason: Any, message: Any) -> str:
    """Return reason and message of Kubernetes as one bounded line."""
    line = " ".join(f"{reason}: {message or ''}".split()).rstrip(":")
    return line[:CAUSE_LENGTH_MAX]


def is_seen(value: Object) -> bool:
    """Tell whether Kubernetes' own controller has seen the present spec of an object."""
    seen = (value.get("status") or {}).get("observedGeneration")
    return seen is not None and bool(seen == value["metadata"].get("generation"))


def evictions_allowed(budget: Object) -> int:
    """Return how many evictions a disruption budget allows, 0 before that is counted."""
    return (
        int((budget.get("status") or {}).get("disruptionsAllowed") or 0) if is_seen(budget) else 0
    )


# --- places and revisions -----------------------------------------------------------------


def spread_met(pods: Iterable[FoundPod]) -> Readiness:
    """Judge whether every broker has a node of its own: a lost node then is one lost broker."""
    by_node: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        if pod.node:
            by_node[pod.node].append(pod.name)
    shared = {node: names for node, names in by_node.items() if len(names) > 1}
    if shared:
        together = listed(
            f"{' and '.join(sorted(names))} on {node}" for node, names in shared.items()
        )
        message = f"brokers share a node, and would be lost together with it: {together}"
        return Readiness(reason="NodeShared", message=message)
    if not by_node:
        return Readiness(ready=None, reason="NoPods", message="no broker has a node yet")
    message = f"{len(by_node)} brokers run on {len(by_node)} nodes"
    return Readiness(ready=True, reason="OneBrokerPerNode", message=message)


def pods_current(pods: Iterable[FoundPod], revision: str) -> Readiness:
    """Judge whether every pod is of the StatefulSet's latest revision, "" while that is unknown."""
    return _all_have(
        {pod.name: pod.revision == revision for pod in pods} if revision else {},
        reasons=("AllCurrent", "OldRevision"),
        behind=(
            f"pods are not of the latest revision {revision}; the condition Rolling tells what "
            "their replacement waits for"
        ),
    )


def _all_have(has: Mapping[str, bool], *, reasons: tuple[str, str], behind: str) -> Readiness:
    if not has:
        return Readiness(ready=None, reason="NoPods", message="there are no pods to judge yet")
    lacking = [name for name, value in has.items() if not value]
    if lacking:
        return Readiness(reason=reasons[1], message=f"{behind}: {listed(lacking)}")
    return Readiness(ready=True, reason=reasons[0], message=f"true of all {len(has)} pods")
