"""The kinds of objects the operator reads and writes, and the labels it marks them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.kube.api import Object, Resource
from strandline.kube.objects import API_VERSION

_GROUP, _VERSION = API_VERSION.split("/")

TOPIC_ID_LABEL: Final = "strandline.dev/topic-id"
PARTITION_LABEL: Final = "strandline.dev/partition"
APPLIED_ANNOTATION: Final = "strandline.dev/applied"
"""Digest of the manifest that the operator last applied; it reveals a removed field."""


PAUSE_ROLLING_ANNOTATION: Final = "strandline.dev/pause-rolling"
"""On a BrokerCluster: pods of older revisions stay, unless its value is "false"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind as manifests name it and as the API addresses it."""

    kind: str
    resource: Resource

    @property
    def type_meta(self) -> dict[str, str]:
        """Return apiVersion and kind as manifests spell them."""
        group, version = self.resource.group, self.resource.version
        return {"apiVersion": f"{group}/{version}" if group else version, "kind": self.kind}


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
POD: Final = _kind("Pod", "", "v1", "pods")
CLAIM: Final = _kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
CONTROLLER_REVISION: Final = _kind("ControllerRevision", "apps", "v1", "controllerrevisions")
EVENT: Final = _kind("Event", "", "v1", "events")
NODE: Final = _kind("Node", "", "v1", "nodes")

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

WATCHED: Final = (TOPIC, CLUSTER, PARTITION, POD, CLAIM, *CHILDREN)
KIND_OF: Final = {kind.kind: kind for kind in (*WATCHED, EVENT)}


def name_of(value: Object) -> str:
    """Return metadata.name."""
    return str(value["metadata"]["name"])


def namespace_of(value: Object) -> str:
    """Return metadata.namespace."""
    return str(value["metadata"]["namespace"])
