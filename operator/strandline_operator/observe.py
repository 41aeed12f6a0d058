"""What the operator knows: the last object seen of each name, and snapshots of it for plans.

Filled by `registry` from watches and by the resync from lists. It may be old: whatever
must be right is a compare-and-swap or a create, which the API server judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strandline.kube.api import Object

from . import kinds

ObjectKey = tuple[str, str]
"""(kind, name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """A BrokerCluster, the objects that bear the names of its parts, and its Partitions."""

    cluster: Object
    children: Mapping[ObjectKey, Object]
    partitions: tuple[Object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A ReplicatedTopic, its cluster if there is one, all topics, and what bears its names."""

    topic: Object
    cluster: Object | None
    topics: tuple[Object, ...]
    partitions: Mapping[int, Object]
    """By partition number, whichever topic they belong to."""


class Cache:
    """The last seen object of each kind and name."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Object]] = {kind.kind: {} for kind in kinds.WATCHED}

    def put(self, kind: kinds.Kind, value: Object) -> None:
        """Remember an object. Lists leave kind and apiVersion out: they are added."""
        metadata = {key: part for key, part in value["metadata"].items() if key != "managedFields"}
        whole = {
            **value,
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
        }
        self._objects[kind.kind][kinds.name_of(value)] = whole

    def put_new(self, kind: kinds.Kind, value: Object) -> None:
        """Remember an object that was just created, unless a watch was faster."""
        if kinds.name_of(value) not in self._objects[kind.kind]:
            self.put(kind, value)

    def remove(self, kind: kinds.Kind, name: str) -> None:
        """Forget an object that is gone."""
        self._objects[kind.kind].pop(name, None)

    def replace(self, kind: kinds.Kind, values: Iterable[Object]) -> None:
        """Remember exactly these objects of a kind."""
        self._objects[kind.kind] = {}
        for value in values:
            self.put(kind, value)

    def get(self, kind: kinds.Kind, name: str) -> Object | None:
        """Return an object, None if none is known."""
        return self._objects[kind.kind].get(name)

    def all(self, kind: kinds.Kind) -> tuple[Object, ...]:
        """Return all objects of a kind in the order of their names."""
        found = self._objects[kind.kind]
        return tuple(found[name] for name in sorted(found))

    def cluster(self, name: str) -> ObservedCluster | None:
        """Return what is known about a cluster, None if it does not exist."""
        cluster = self.get(kinds.CLUSTER, name)
        if cluster is None:
            return None
        children = {
            (kind.kind, child): value
            for kind in kinds.CHILDREN
            for child, value in self._objects[kind.kind].items()
            if child == name or child.startswith(f"{name}-")
        }
        partitions = tuple(
            value for value in self.all(kinds.PARTITION) if kinds.cluster_label(value) == name
        )
        return ObservedCluster(cluster=cluster, children=children, partitions=partitions)

    def topic(self, name: str) -> ObservedTopic | None:
        """Return what is known about a topic, None if it does not exist."""
        topic = self.get(kinds.TOPIC, name)
        if topic is None:
            return None
        partitions = {}
        for number in range(topic["spec"]["partitions"]):
            value = self.get(kinds.PARTITION, f"{name}-{number}")
            if value is not None:
                partitions[number] = value
        return ObservedTopic(
            topic=topic,
            cluster=self.get(kinds.CLUSTER, topic["spec"]["clusterRef"]),
            topics=self.all(kinds.TOPIC),
            partitions=partitions,
        )
