"""Manifests as the API server returns them, and a store of them that feeds the operator's cache."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from strandline_operator import kinds, resources
from strandline_operator.actions import (
    Action,
    ApplyObject,
    ApplyStatus,
    CreateCluster,
    EvictPod,
    GrowClaim,
    InitialisePartitions,
    MovePartition,
    PostEvent,
    RecreatePartitions,
    ReleasePods,
    RemoveConfigMaps,
    RemoveServices,
)
from strandline_operator.observe import Cache
from strandline_operator.operator_config import OperatorConfig
from strandline_operator.reading import read_cluster

Manifest = dict[str, Any]

NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:09:05Z"
NODE_PORT = 31_000
"""The port that every Service without one of its own gets."""
CONFIG = OperatorConfig(
    namespace="here",
    identity="me",
    broker_role="strandline-broker",
    broker_images={"0.1.0": "strandline/broker:1", "0.2.0": "strandline/broker:2"},
    broker_version="0.1.0",
    default_cluster={"replicas": 3, "timing": "demo"},
)


def made(kind: kinds.Kind, name: str, spec: Manifest | None = None, **metadata: Any) -> Manifest:
    """Return an object as the API server would return it."""
    whole: Manifest = {
        **kind.type_meta,
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
    }
    return whole if spec is None else {**whole, "spec": spec}


def cluster(**spec: Any) -> Manifest:
    wanted = {"replicas": 3, "timing": "demo", "storage": {"size": "1Gi"}, "config": {}}
    return made(kinds.CLUSTER, "default", {**wanted, **spec})


def topic(name: str = "orders", *, status: Manifest | None = None, **spec: Any) -> Manifest:
    wanted = {"clusterRef": "default", "partitions": 3, "replicationFactor": 3, "config": {}}
    whole = made(kinds.TOPIC, name, {**wanted, **spec})
    return whole if status is None else {**whole, "status": status}


def partition(name: str, topic_id: str, number: int, *, owner: str = "") -> Manifest:
    """Return a Partition without a status; owner is the uid of its ReplicatedTopic."""
    spec = {"topicId": topic_id, "topicName": "orders", "partition": number, "replicas": [0]}
    reference = {**kinds.TOPIC.type_meta, "name": "orders", "uid": owner, "controller": True}
    return made(kinds.PARTITION, name, spec, ownerReferences=[reference] if owner else [])


def pod(name: str, *, node: str = "", ready: bool = True, **status: Any) -> Manifest:
    """Return a broker's pod of cluster `default` and of revision `r1`."""
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}},
        {
            "name": "config",
            "configMap": {"name": resources.config_map_name(read_cluster(cluster()))},
        },
    ]
    spec = {"volumes": volumes, **({"nodeName": node} if node else {})}
    labels = {"strandline.dev/cluster": "default", "controller-revision-hash": "r1"}
    held = [{"type": "Ready", "status": str(ready)}, *status.pop("conditions", [])]
    return {
        **made(kinds.POD, name, spec, labels=labels),
        "status": {"phase": "Running", "conditions": held, **status},
    }


def registered(world: World, number: int, **status: Any) -> Manifest:
    """Return the Broker of a cluster that a plan made, as it stands after its broker's start."""
    registration = {
        "brokerEpoch": 5,
        "cleanSinceEpoch": 1,
        "incarnation": f"uid-default-{number}/1",
        "listeners": [{"name": "INTERNAL", "host": "h", "port": 1}],
        "logDirId": "d",
        "protocolVersion": 1,
    }
    found = world.get(kinds.BROKER, f"default-{number}")
    return {**found, "status": {**registration, **status}}


def claim(
    number: int, requested: str = "1Gi", capacity: str = "1Gi", *, of: str = "default"
) -> Manifest:
    """Return the volume claim of a broker of a cluster; unbound without a capacity."""
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": requested}}}
    status: Manifest = {"phase": "Pending"}
    if capacity:
        status = {"phase": "Bound", "capacity": {"storage": capacity}}
    labels = {"strandline.dev/cluster": of}
    return {**made(kinds.CLAIM, f"data-{of}-{number}", spec, labels=labels), "status": status}


class World:
    """The manifests of an API server, and an operator's cache that gets each change."""

    def __init__(self, *objects: Manifest) -> None:
        self.cache = Cache()
        self._objects: dict[tuple[str, str], Manifest] = {}
        for value in objects:
            self.put(value)

    def put(self, value: Manifest) -> None:
        """Store an object."""
        self._objects[value["kind"], value["metadata"]["name"]] = value
        self.cache.put(kinds.KIND_OF[value["kind"]], value)

    def get(self, kind: kinds.Kind, name: str) -> Manifest:
        """Return a copy of an object."""
        return copy.deepcopy(self._objects[kind.kind, name])

    def names(self, kind: kinds.Kind, prefix: str) -> list[str]:
        """Return the names of a kind that begin so."""
        return sorted(n for k, n in self._objects if k == kind.kind and n.startswith(prefix))

    def remove(self, kind: kinds.Kind, name: str) -> None:
        """Delete an object."""
        del self._objects[kind.kind, name]
        self.cache.remove(kind, name)

    def perform(self, actions: Sequence[Action]) -> None:
        """Store the objects that the actions write, as the API server would."""
        for action in actions:
            match action:
                case ApplyObject(body=body) | CreateCluster(body=body):
                    self._store(body)
                case RecreatePartitions(bodies=bodies):
                    self._store_all(bodies)
                case ApplyStatus(body=body):
                    self._store_status(body)
                case InitialisePartitions(status_body=status, bodies=bodies):
                    self._store_status(status)
                    self._store_all(bodies)
                case RemoveServices(services=services):
                    for each in services:
                        self.remove(each.kind, each.name)
                case EvictPod(pod=gone) | ReleasePods(stateful_set=gone):
                    self.remove(gone.kind, gone.name)
                case GrowClaim(body=body):
                    self._grow(body)
                case MovePartition(body=body):
                    moved = self.get(kinds.PARTITION, body["metadata"]["name"])
                    self.put({**moved, "spec": {**moved["spec"], **body["spec"]}})
                case PostEvent() | RemoveConfigMaps():
                    pass

    def _grow(self, body: Manifest) -> None:
        found = self.get(kinds.CLAIM, body["metadata"]["name"])
        found["spec"]["resources"] = body["spec"]["resources"]
        self.put(found)

    def _store_all(self, bodies: Sequence[Manifest]) -> None:
        for body in bodies:
            self._store(body)

    def _store(self, body: Manifest) -> None:
        whole = copy.deepcopy(body)
        name = body["metadata"]["name"]
        known = self._objects.get((body["kind"], name), made(kinds.EVENT, name))
        if "status" in known:
            whole["status"] = known["status"]
        created = known["metadata"]["creationTimestamp"]
        if body["kind"] == kinds.SERVICE.kind and body["spec"].get("type") == "NodePort":
            whole["spec"]["ports"][0].setdefault("nodePort", NODE_PORT)
        whole["metadata"].update(
            uid=f"uid-{name}", resourceVersion="8", creationTimestamp=created, generation=1
        )
        self.put(whole)

    def _store_status(self, body: Manifest) -> None:
        found = self.get(kinds.KIND_OF[body["kind"]], body["metadata"]["name"])
        kept = {k: v for k, v in found.get("status", {}).items() if k == "controller"}
        self.put({**found, "status": {**kept, **body["status"]}})
