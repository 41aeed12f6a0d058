"""The actions of a plan. `str(action)` is the sentence for logs and tests.

Values only; `apply` applies them in the order of the plan and stops at the first failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.kube.api import Object

from .kinds import name_of
from .observed import ObjectRef


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCluster:
    """Create a BrokerCluster that a topic needs; leave an existing one as it is."""

    body: Object

    def __str__(self) -> str:
        return f"create BrokerCluster {name_of(self.body)}, which a topic needs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyObject:
    """Apply the manifest of a cluster's object; why is missing, changed or orphaned."""

    body: Object
    why: str

    def __str__(self) -> str:
        return f"apply {self.body['kind']} {name_of(self.body)}: it is {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveConfigMaps:
    """Delete those of these former ConfigMaps that no pod and no pod template names.

    selector are the labels of the cluster's pods and of the revisions of its StatefulSet.
    """

    cluster: ObjectRef
    selector: Mapping[str, str]
    former: tuple[ObjectRef, ...]

    def __str__(self) -> str:
        return f"remove former ConfigMaps of {self.cluster} that no pod names"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveServices:
    """Delete Services of an external listener that nobody wants, or that keep another's port."""

    services: tuple[ObjectRef, ...]

    def __str__(self) -> str:
        return f"remove Services {[each.name for each in self.services]} of the external listener"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictPod:
    """Evict a broker's pod, if the disruption budget allows it.

    in_sync is the selector of the Partitions all of whose replicas must be in sync, as read then;
    empty for a pod that serves nobody. That one goes only if it still has the resource_version,
    which is "" for the others: an eviction that is refused for it holds the budget for two minutes.
    """

    pod: ObjectRef
    resource_version: str
    in_sync: Mapping[str, str]

    def __str__(self) -> str:
        return f"evict {self.pod}: it is of an older revision"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowClaim:
    """Ask for a larger volume: a compare-and-swap on the claim's request, and on nothing else."""

    body: Object
    storage_class: str
    former: str

    def __str__(self) -> str:
        wanted = self.body["spec"]["resources"]["requests"]["storage"]
        of_class = f"of StorageClass {self.storage_class or '(none)'}"
        name = name_of(self.body)
        return f"grow PersistentVolumeClaim {name} {of_class} from {self.former} to {wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePods:
    """Delete a StatefulSet and leave its pods and claims: the next one takes them over."""

    stateful_set: ObjectRef
    why: str

    def __str__(self) -> str:
        return f"replace {self.stateful_set} without its pods: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialisePartitions:
    """Raise partitionsInitialised by compare-and-swap, then create the new Partitions.

    status_body carries the resourceVersion it was decided on. The Partitions are new only
    in the pass that raised the number; one that is missing later may have been lost (ADR 0004).
    """

    status_body: Object
    bodies: tuple[Object, ...]

    def __str__(self) -> str:
        first, last = self.bodies[0], self.bodies[-1]
        return (
            f"create Partitions {name_of(first)} to {name_of(last)}"
            if first is not last
            else f"create Partition {name_of(first)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecreatePartitions:
    """Create missing Partitions again, and post an Event about those that really were missing.

    Their data may be on disks (recover is true).
    """

    about: ObjectRef
    bodies: tuple[Object, ...]

    def __str__(self) -> str:
        first, count = name_of(self.bodies[0]), len(self.bodies)
        if count == 1:
            return f"create Partition {first} again: it is missing"
        return f"create {count} Partitions again, {first} first: they are missing"

    def event(self, created: list[int]) -> PostEvent:
        """Return the Event about the partitions of these numbers."""
        message = (
            f"Partitions {created} were missing and are created again: brokers' data is kept, "
            "and one that no broker has begins anew"
        )
        return PostEvent(about=self.about, reason="PartitionsMissing", message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePartition:
    """Write other replicas into a Partition's spec, if it is as it was seen (ADR 0057)."""

    body: Object
    former: tuple[int, ...]

    def __str__(self) -> str:
        wanted = self.body["spec"]["replicas"]
        return f"move Partition {name_of(self.body)} from {list(self.former)} to {wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyStatus:
    """Write the operator's part of the status of a cluster or topic."""

    body: Object
    reason: str

    def __str__(self) -> str:
        return f"write status of {self.body['kind']} {name_of(self.body)}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostEvent:
    """Post a Kubernetes Event about an object: a warning, or news that one is over.

    The same words about an object are one Event for one value of once, however often they are
    posted; each post is an Event of its own where it is "".
    """

    about: ObjectRef
    reason: str
    message: str
    is_warning: bool = True
    once: str = ""

    def __str__(self) -> str:
        return f"tell about {self.about}: {self.message}"


Action = (
    CreateCluster
    | ApplyObject
    | RemoveConfigMaps
    | RemoveServices
    | EvictPod
    | GrowClaim
    | ReleasePods
    | InitialisePartitions
    | RecreatePartitions
    | MovePartition
    | ApplyStatus
    | PostEvent
)
