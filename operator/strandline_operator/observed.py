"""The values that the operator plans with: what users want, and what it last saw.

`reading` and `observe` and `external` and `pods` alone make them. `plan` reads fields; `shows`
alone reads the dict of a whole object or status, and compares it with a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from strandline.kube.api import Object
from strandline.model import (
    EXTERNAL_LISTENER,
    AppliedConfig,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    Registration,
    StoredPartition,
    TopicId,
)

from .kinds import Kind
from .placement import NOWHERE, Racks


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """The identity of an object: kind, name, and the uid that tells it from earlier ones."""

    kind: Kind
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRef:
    """The owner reference that controls an object; the owner may be of any kind."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAddress:
    """What a user chose for one Service of the external listener; None and "" leave it open."""

    node_port: int | None = None
    host: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredListener:
    """A cluster's listener for clients outside; service_type is Kubernetes' NodePort or another.

    host is for all brokers that have none of their own; it may name the broker as `{broker}`.
    brokers has every broker of the cluster. by_external_ip asks for the ExternalIP of nodes.
    """

    service_type: str
    host: str
    bootstrap: ChosenAddress
    brokers: Mapping[BrokerId, ChosenAddress]
    by_external_ip: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredCluster:
    """A BrokerCluster's spec; config is by field of the spec.

    resources and the fields of pod are Kubernetes' own; spread_nodes is None where the operator
    decides. version is "" where the spec names none; image is "" until `versions` has chosen it.
    rack_key is the key of the label of nodes that says racks, "" for none.
    """

    ref: ObjectRef
    generation: int
    is_terminating: bool
    replicas: int
    timing: str
    storage_size: str
    storage_class: str | None
    config: Mapping[str, int | float]
    delete_topic_enable: bool
    resources: Object
    pod: Object
    spread_nodes: str | None
    external: DesiredListener | None = None
    is_rolling_paused: bool = False
    version: str = ""
    image: str = ""
    rack_key: str = ""

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """The ids of the brokers, which are the ordinals of their pods."""
        return tuple(map(BrokerId, range(self.replicas)))

    def with_brokers(self, count: int) -> DesiredCluster:
        """Return the cluster with so many brokers: on the way down it has more than its spec."""
        external = self.external
        if external is not None:
            chosen = {BrokerId(each): ChosenAddress() for each in range(count)}
            external = replace(external, brokers={**chosen, **external.brokers})
        return replace(self, replicas=count, external=external)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredTopic:
    """A ReplicatedTopic's spec; topic_name is what clients use, config is by field of the spec.

    is_initialised tells whether the operator began to create its Partitions: it has the name then.
    """

    ref: ObjectRef
    generation: int
    is_terminating: bool
    created_at: str
    is_initialised: bool
    cluster: str
    topic_id: TopicId
    topic_name: str
    partitions: int
    replication_factor: int
    unclean_leader_election: bool
    config: Mapping[str, int]

    @property
    def adopts(self) -> bool:
        """Tell whether the topic has the id of logs that were there before it (ADR 0038)."""
        return self.topic_id != self.ref.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCondition:
    """A condition as it stands; since is the time of the last change of its status."""

    status: str
    reason: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStatus:
    """The status of a cluster or topic; resource_version is that of the whole object."""

    resource_version: str
    conditions: Mapping[str, FoundCondition]
    written: Object

    def shows(self, desired: Object) -> bool:
        """Tell whether the status holds everything of a desired status, in whatever order."""
        return _is_part_of(_in_order(desired), _in_order(self.written))

    def logs_of(self, topic_id: TopicId) -> dict[int, tuple[BrokerId, ...]]:
        """Return the brokers that have logs of a topic id that no topic has, by partition."""
        for stray in self.written.get("strays") or []:
            if stray["topicId"] == topic_id:
                return {
                    int(each["partition"]): tuple(map(BrokerId, each["brokers"]))
                    for each in stray["replicas"]
                }
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSample:
    """The status of a condition of an object, and the reason that docs/health.md lists."""

    kind: str
    name: str
    condition: str
    status: str
    reason: str


class Ownership(Enum):
    """Who owns a found object; `ownership` decides it."""

    OURS = "ours"
    ORPHAN = "orphan"
    LEAVING = "leaving"
    PREDECESSORS = "predecessors"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObject:
    """An object with the name of a part of a cluster; cluster is its label, or "".

    is_applied tells whether the operator has applied it.
    """

    ref: ObjectRef
    cluster: str
    created_at: str
    controller: ControllerRef | None
    is_applied: bool
    is_terminating: bool
    whole: Object

    def shows(self, desired: Object) -> bool:
        """Tell whether the object holds everything of a manifest; it may hold defaults, too."""
        return _is_part_of(desired, self.whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundService:
    """What Kubernetes gave a Service: a port on all nodes, a load balancer's host; or 0 and ""."""

    service_type: str
    node_port: int
    ingress_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A Partition, its cluster's label, or "", and the owner that controls it."""

    stored: StoredPartition
    cluster: str
    controller: ControllerRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEnd:
    """The last end of a broker of a pod, if it was a failed log directory or a broken invariant.

    reason is that of the condition BrokerFailed, words are the end of the log.
    """

    reason: str
    at: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPod:
    """A pod with the label of a cluster; node is "" until it is scheduled.

    cause says why it is not ready, in the words of Kubernetes; "" if it is, or only starts.
    is_stuck tells that its container cannot run, or that no node takes it.
    """

    ref: ObjectRef
    resource_version: str
    cluster: str
    node: str
    revision: str
    config_maps: frozenset[str]
    claims: tuple[str, ...]
    is_ready: bool
    is_stuck: bool
    is_terminating: bool
    cause: str
    end: BrokerEnd | None = None

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.ref.name

    @property
    def uid(self) -> str:
        """What tells the pod from earlier ones of its name."""
        return self.ref.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClaim:
    """A volume claim with the label of a cluster; requested and capacity are quantities.

    capacity is "" until it has a volume; pending says what keeps a larger volume from being used,
    in the words of Kubernetes, "" if nothing does.
    """

    ref: ObjectRef
    resource_version: str
    cluster: str
    storage_class: str
    requested: str
    capacity: str
    is_bound: bool
    is_terminating: bool
    pending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """What the operator saw of a cluster beside its spec.

    parts are all objects with names of its parts by (kind, name), each with its ownership;
    registrations are what its brokers say of themselves, topic_count counts the ReplicatedTopics
    that name the cluster, partitions, pods and claims are those with its label. revision is the
    latest one of its StatefulSet, "" while that is unknown, and current if it is made of the
    StatefulSet's present spec; controller_id holds the controller Lease; evictions_allowed is what
    the disruption budget allows now. causes are sentences about brokers that are not ready.
    schedulable_nodes is None unless `pod_settings` needs it and the operator may list nodes;
    external_ips has the ExternalIP of each node by its name, "" without one, or is None likewise,
    as node_labels is, which has the labels of each node.
    services are those that have names of its parts. spread_over is over how many brokers replicas
    were spread last, 0 before the first look; missing_partitions are Partitions that topics had and
    that are not there. has_summary tells whether there is a ConfigMap for a summary of its
    analysis, summary is that of the run that ended last, None without one that can be read.
    """

    status: FoundStatus
    has_controller: bool
    services: Mapping[str, FoundService]
    parts: Mapping[tuple[str, str], tuple[Ownership, FoundObject]]
    ready_brokers: int
    topic_count: int
    partitions: tuple[StoredPartition, ...]
    pods: tuple[FoundPod, ...]
    revision: str
    is_revision_current: bool
    controller_id: BrokerId | None
    evictions_allowed: int
    registrations: Mapping[BrokerId, Registration]
    spread_over: int = 0
    missing_partitions: tuple[str, ...] = ()
    has_summary: bool = False
    summary: Object | None = None
    claims: tuple[FoundClaim, ...] = ()
    causes: tuple[str, ...] = ()
    schedulable_nodes: int | None = None
    external_ips: Mapping[str, str] | None = None
    node_labels: Mapping[str, Mapping[str, str]] | None = None

    @property
    def broker_epochs(self) -> Mapping[BrokerId, BrokerEpoch]:
        """The epochs of the registered brokers."""
        return {each: found.broker_epoch for each, found in self.registrations.items()}

    @property
    def full_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers whose volumes are full."""
        return tuple(sorted(each for each, found in self.registrations.items() if found.is_full))

    @property
    def registered_pods(self) -> Mapping[BrokerId, str]:
        """The uids of the pods that the brokers registered from."""
        found = self.registrations.items()
        return {each: told.incarnation.partition("/")[0] for each, told in found}

    @property
    def reading_pods(self) -> Mapping[BrokerId, str]:
        """The uids of the pods in which brokers say that they read their logs; no "" among them."""
        found = self.registrations.items()
        told = {each: saying.reading_logs.partition("/")[0] for each, saying in found}
        return {each: uid for each, uid in told.items() if uid}

    @property
    def advertised(self) -> Mapping[BrokerId, Endpoint]:
        """What registered brokers advertise to clients outside."""
        found = self.registrations.items()
        told = {each: registered.endpoint(EXTERNAL_LISTENER) for each, registered in found}
        return {each: endpoint for each, endpoint in told.items() if endpoint is not None}

    @property
    def has_topics(self) -> bool:
        """Tell whether the cluster has topics, or Partitions of deleted ones."""
        return self.topic_count > 0 or bool(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """What the operator saw of a topic beside its spec.

    partitions are its own by number; leftovers are the Partitions of an earlier topic that occupy
    their names, or have the id that this topic adopts; copies are the names of other Partitions
    with its id, which have no effect (ADR 0036); partitions_initialised and effective_config
    are None until the operator writes them; applied is what a controller told of them. logs are the
    brokers that have a log of the topic's id while no topic had it, by partition. led_partitions
    are the names of all Partitions with the cluster's label and a status: brokers of this cluster
    had them. racks are those of the cluster.
    """

    status: FoundStatus
    partitions_initialised: int | None
    effective_config: Mapping[str, int] | None
    applied: AppliedConfig
    cluster: DesiredCluster | None
    topics: tuple[DesiredTopic, ...]
    partitions: Mapping[int, StoredPartition]
    leftovers: tuple[FoundPartition, ...]
    copies: tuple[str, ...]
    logs: Mapping[int, tuple[BrokerId, ...]]
    led_partitions: tuple[str, ...]
    racks: Racks = NOWHERE


def _in_order(status: Object) -> Object:
    """Return a status with its conditions by type.

    The API server decides on the order of a list when one of its entries comes or goes.
    """
    conditions = status.get("conditions") or []
    return {**status, "conditions": sorted(conditions, key=lambda each: str(each["type"]))}


def _is_part_of(desired: Any, found: Any) -> bool:
    """Tell whether everything desired is found; found may hold more, such as defaults."""
    if isinstance(desired, dict):
        return isinstance(found, dict) and all(
            key in found and _is_part_of(value, found[key]) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(found, list)
            and len(desired) == len(found)
            and all(map(_is_part_of, desired, found))
        )
    return bool(desired == found)
