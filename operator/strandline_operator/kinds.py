"""The kinds of objects the operator reads and writes, and what they all have in common."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from strandline.kube.api import Object, Resource
from strandline.kube.objects import API_VERSION, CLUSTER_LABEL

_GROUP, _VERSION = API_VERSION.split("/")

TOPIC_ID_LABEL: Final = "strandline.dev/topic-id"
PARTITION_LABEL: Final = "strandline.dev/partition"
APPLIED_ANNOTATION: Final = "strandline.dev/applied"
"""Digest of what the operator last applied: shows a field that was taken out since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind as manifests name it and as the API addresses it."""

    kind: str
    resource: Resource

    @property
    def api_version(self) -> str:
        """Return apiVersion as manifests spell it."""
        group, version = self.resource.group, self.resource.version
        return f"{group}/{version}" if group else version


def _kind(kind: str, group: str, version: str, plural: str) -> Kind:
    return Kind(kind=kind, resource=Resource(group=group, version=version, plural=plural))


TOPIC: Final = _kind("ReplicatedTopic", _GROUP, _VERSION, "replicatedtopics")
CLUSTER: Final = _kind("BrokerCluster", _GROUP, _VERSION, "brokerclusters")
BROKER: Final = _kind("Broker", _GROUP, _VERSION, "brokers")
PARTITION: Final = _kind("Partition", _GROUP, _VERSION, "partitions")
LEASE: Final = _kind("Lease", "coordination.k8s.io", "v1", "leases")
SERVICE: Final = _kind("Service", "", "v1", "services")
CONFIG_MAP: Final = _kind("ConfigMap", "", "v1", "configmaps")
SERVICE_ACCOUNT: Final = _kind("ServiceAccount", "", "v1", "serviceaccounts")
ROLE_BINDING: Final = _kind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings")
POD_DISRUPTION_BUDGET: Final = _kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets")
STATEFUL_SET: Final = _kind("StatefulSet", "apps", "v1", "statefulsets")
EVENT: Final = _kind("Event", "", "v1", "events")

CHILDREN: Final = (
    BROKER,
    LEASE,
    SERVICE,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    ROLE_BINDING,
    POD_DISRUPTION_BUDGET,
    STATEFUL_SET,
)
"""Kinds that the operator keeps for a BrokerCluster."""

WATCHED: Final = (TOPIC, CLUSTER, PARTITION, *CHILDREN)
KIND_OF: Final = {kind.kind: kind for kind in (*WATCHED, EVENT)}


def name_of(value: Object) -> str:
    """Return metadata.name."""
    return str(value["metadata"]["name"])


def uid_of(value: Object) -> str:
    """Return metadata.uid."""
    return str(value["metadata"]["uid"])


def is_terminating(value: Object) -> bool:
    """Tell whether an object has a deletion time, and is not gone yet."""
    return value["metadata"].get("deletionTimestamp") is not None


def labels_of(value: Object) -> dict[str, str]:
    """Return metadata.labels."""
    return value["metadata"].get("labels") or {}


def cluster_label(value: Object) -> str:
    """Return the name of the cluster an object belongs to, "" if it names none."""
    return str(labels_of(value).get(CLUSTER_LABEL, ""))


def controller_of(value: Object) -> dict[str, Any]:
    """Return the owner reference that controls an object, {} if there is none."""
    for reference in value["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            return dict(reference)
    return {}


def owner_reference(owner: Object) -> dict[str, Any]:
    """Return the reference by which an owner takes its dependents along when it is deleted."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": False,
    }


def with_digest(body: Object) -> Object:
    """Return a manifest that carries a digest of itself."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    metadata = body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def is_part_of(desired: Any, found: Any) -> bool:
    """Tell whether everything desired is found; found may hold more, such as defaults."""
    if isinstance(desired, dict):
        return isinstance(found, dict) and all(
            key in found and is_part_of(value, found[key]) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(found, list)
            and len(desired) == len(found)
            and all(map(is_part_of, desired, found))
        )
    return bool(desired == found)
