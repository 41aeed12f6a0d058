"""What the operator reads: dicts of the API server become values here, and nowhere else.

Called by `observe`, which keeps the values. Pure.
"""

from __future__ import annotations

from typing import Any

from strandline.kube.api import Object
from strandline.kube.objects import (
    CLUSTER_LABEL,
    lease_from_object,
    partition_from_object,
    topic_cluster,
    topic_id_of,
)
from strandline.model import BrokerId, HolderIdentity

from . import external, kinds
from .kinds import Kind, name_of
from .observed import (
    ControllerRef,
    DesiredCluster,
    DesiredTopic,
    FoundCondition,
    FoundObject,
    FoundPartition,
    FoundStatus,
    ObjectRef,
)
from .pods import read_claim, read_pod


def read_topic(value: Object) -> DesiredTopic:
    """Read the spec of a ReplicatedTopic; the CRD fills in its defaults."""
    spec, metadata = value["spec"], value["metadata"]
    return DesiredTopic(
        ref=_ref(kinds.TOPIC, value),
        generation=metadata.get("generation", 0),
        is_terminating=_is_terminating(value),
        created_at=str(metadata["creationTimestamp"]),
        is_initialised=status_in(value).get("partitionsInitialised") is not None,
        cluster=topic_cluster(value),
        topic_id=topic_id_of(value),
        topic_name=str(spec.get("topicName") or name_of(value)),
        partitions=int(spec["partitions"]),
        replication_factor=int(spec["replicationFactor"]),
        unclean_leader_election=bool(spec.get("uncleanLeaderElection")),
        config=spec.get("config") or {},
    )


def read_cluster(value: Object) -> DesiredCluster:
    """Read the spec of a BrokerCluster; the CRD fills in its defaults."""
    spec = value["spec"]
    return DesiredCluster(
        ref=_ref(kinds.CLUSTER, value),
        generation=value["metadata"].get("generation", 0),
        is_terminating=_is_terminating(value),
        replicas=int(spec["replicas"]),
        timing=spec["timing"],
        storage_size=spec["storage"]["size"],
        storage_class=spec["storage"].get("storageClassName"),
        version=spec.get("version", ""),
        config=spec.get("config") or {},
        delete_topic_enable=bool(spec.get("deleteTopicEnable", True)),
        resources=spec.get("resources") or {},
        pod=spec.get("pod") or {},
        spread_nodes=(spec.get("spread") or {}).get("nodes"),
        rack_key=(spec.get("rack") or {}).get("topologyKey", ""),
        is_rolling_paused=_is_rolling_paused(value),
        external=external.read_listener(spec) if spec.get("externalListener") else None,
    )


def _is_rolling_paused(value: Object) -> bool:
    """Tell whether people hold the roll; a value that nobody foresaw holds it, too."""
    annotations = value["metadata"].get("annotations") or {}
    return bool(annotations.get(kinds.PAUSE_ROLLING_ANNOTATION, "false") != "false")


def holder_of(lease: Object) -> BrokerId | None:
    """Return the broker that holds a Lease, None if nobody or no broker does."""
    holder = HolderIdentity.parse(lease_from_object(lease).holder_identity)
    return None if holder is None else holder.broker_id


def read_partition(value: Object) -> FoundPartition:
    """Read a Partition.

    Raises:  ObjectMalformed
    """
    return FoundPartition(
        stored=partition_from_object(value),
        cluster=_cluster_label(value),
        controller=_controller(value),
    )


def read_object(kind: Kind, value: Object) -> FoundObject:
    """Read an object that may be a part of a cluster; add kind and apiVersion, which lists omit."""
    metadata = {key: part for key, part in value["metadata"].items() if key != "managedFields"}
    return FoundObject(
        ref=_ref(kind, value),
        cluster=_cluster_label(value),
        created_at=str(metadata.get("creationTimestamp", "")),
        controller=_controller(value),
        is_applied=kinds.APPLIED_ANNOTATION in (metadata.get("annotations") or {}),
        is_terminating=_is_terminating(value),
        whole={**value, **kind.type_meta, "metadata": metadata},
    )


def read(kind: Kind, value: Object) -> object:
    """Read an object of any kind.

    Raises:  ObjectMalformed
    """
    if kind is kinds.TOPIC:
        return read_topic(value), _read_status(value)
    if kind is kinds.CLUSTER:
        return read_cluster(value), _read_status(value)
    if kind is kinds.POD:
        return read_pod(value)
    if kind is kinds.CLAIM:
        return read_claim(value)
    return read_partition(value) if kind is kinds.PARTITION else read_object(kind, value)


def _read_status(value: Object) -> FoundStatus:
    status = status_in(value)
    return FoundStatus(
        resource_version=value["metadata"]["resourceVersion"],
        conditions={
            found["type"]: FoundCondition(
                status=found["status"], reason=found["reason"], since=found["lastTransitionTime"]
            )
            for found in status.get("conditions") or []
        },
        written=status,
    )


def status_in(value: Object) -> dict[str, Any]:
    """Return the status of an object, empty if nobody wrote it."""
    return value.get("status") or {}


def version_of(value: Object) -> str:
    """Return the resourceVersion of an object."""
    return str(value["metadata"]["resourceVersion"])


def _ref(kind: Kind, value: Object) -> ObjectRef:
    return ObjectRef(kind=kind, name=name_of(value), uid=str(value["metadata"]["uid"]))


def _is_terminating(value: Object) -> bool:
    return value["metadata"].get("deletionTimestamp") is not None


def _cluster_label(value: Object) -> str:
    labels = value["metadata"].get("labels") or {}
    return str(labels.get(CLUSTER_LABEL, ""))


def _controller(value: Object) -> ControllerRef | None:
    for owner in value["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return ControllerRef(kind=owner["kind"], name=owner["name"], uid=owner["uid"])
    return None
