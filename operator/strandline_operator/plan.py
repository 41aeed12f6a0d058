"""From the desired and the observed state to a list of actions: the operator's only decisions.

Pure: time is an argument, nothing is performed. Level-triggered: which change caused the
call is not known here. An unchanged world gives an empty plan.
"""

from __future__ import annotations

from strandline.config.topic import TopicDefaults, effective_min_insync_replicas
from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL, DEFAULT_CLUSTER
from strandline.model import BrokerId, TopicId
from strandline.placement import place_topic

from . import kinds, resources, status
from .actions import (
    Action,
    ApplyObject,
    ApplyStatus,
    CreateCluster,
    InitialisePartitions,
    PostEvent,
    RecreatePartition,
)
from .observe import ObservedCluster, ObservedTopic
from .operator_config import FIELD_MANAGER, OperatorConfig
from .status import Readiness, status_of

# --- clusters ----------------------------------------------------------------------------


def plan_cluster(observed: ObservedCluster, config: OperatorConfig, *, now: str) -> list[Action]:
    """Return what makes a cluster's objects what they shall be, and tells its state."""
    cluster = observed.cluster
    if kinds.is_terminating(cluster):
        return []
    desired = resources.objects_of(cluster, config)
    refused = _ownership_conflict(observed, desired)
    if refused:
        return _status_actions(cluster, _cluster_status(observed, refused, now), refused)
    actions: list[Action] = []
    for body in desired:
        found = observed.children.get((body["kind"], kinds.name_of(body)))
        why = _why_apply(body, found)
        if why:
            actions.append(ApplyObject(body=body, why=why))
    ready = _ready_brokers(observed)
    readiness = status.cluster_readiness(
        ready=ready,
        desired=cluster["spec"]["replicas"],
        controller=status_of(cluster).get("controller"),
    )
    return actions + _status_actions(cluster, _cluster_status(observed, readiness, now), readiness)


def _ownership_conflict(observed: ObservedCluster, desired: list[Object]) -> Readiness | None:
    """Return why an object that bears a desired name may not be touched, None if all may."""
    for body in desired:
        found = observed.children.get((body["kind"], kinds.name_of(body)))
        if found is None:
            continue
        what = f"{body['kind']} {kinds.name_of(body)}"
        owner = kinds.controller_of(found)
        if owner.get("uid") == kinds.uid_of(observed.cluster) or kinds.is_terminating(found):
            continue
        if not owner and kinds.cluster_label(found) == kinds.name_of(observed.cluster):
            continue
        if owner.get("kind") == "BrokerCluster" and owner.get("name") == kinds.name_of(
            observed.cluster
        ):
            message = f"{what} belongs to a deleted cluster of this name and is not gone yet"
            return Readiness(ready=False, reason="WaitingForDeletion", message=message)
        message = f"{what} exists and belongs to somebody else; delete it or rename the cluster"
        return Readiness(ready=False, reason="NameTaken", message=message, refused=True)
    return None


def _why_apply(body: Object, found: Object | None) -> str:
    """Return why an object must be applied, "" if it is as it shall be or is just going."""
    if found is None:
        return "missing"
    if kinds.is_terminating(found):
        return ""
    if not kinds.controller_of(found):
        return "orphaned"
    return "" if kinds.is_part_of(body, found) else "changed"


def _ready_brokers(observed: ObservedCluster) -> int:
    name = kinds.name_of(observed.cluster)
    pods = observed.children.get((kinds.STATEFUL_SET.kind, name), {})
    return int(status_of(pods).get("readyReplicas") or 0)


def _cluster_status(observed: ObservedCluster, readiness: Readiness, now: str) -> Object:
    cluster = observed.cluster
    brokers = {
        value["spec"]["brokerId"]: value
        for (kind, _), value in observed.children.items()
        if kind == kinds.BROKER.kind and kinds.cluster_label(value) == kinds.name_of(cluster)
    }
    partitions = observed.partitions
    return {
        "observedGeneration": cluster["metadata"].get("generation", 0),
        "readyBrokers": _ready_brokers(observed),
        "brokers": status.broker_rows(resources.broker_ids(cluster), brokers, partitions),
        "partitions": status.partition_counts(partitions, len(partitions)),
        "conditions": [status.condition(status.READY, readiness, cluster, now)],
    }


# --- topics ------------------------------------------------------------------------------


def plan_topic(observed: ObservedTopic, config: OperatorConfig, *, now: str) -> list[Action]:
    """Return what gives a topic its cluster and Partitions, and tells its state."""
    topic = observed.topic
    if kinds.is_terminating(topic):
        return []
    conflict = _topic_name_conflict(observed)
    if conflict:
        return _status_actions(
            topic, _topic_status(observed, conflict, now, conflict=conflict), conflict
        )
    cluster = observed.cluster
    if cluster is None:
        return _plan_without_cluster(observed, config, now)
    brokers, factor = cluster["spec"]["replicas"], topic["spec"]["replicationFactor"]
    if factor > brokers:
        message = (
            f"spec.replicationFactor is {factor}, but cluster {kinds.name_of(cluster)} "
            f"has {brokers} brokers"
        )
        too_few = Readiness(
            ready=False, reason="InvalidReplicationFactor", message=message, refused=True
        )
        return _status_actions(topic, _topic_status(observed, too_few, now), too_few)
    return _plan_partitions(observed, now)


def _plan_without_cluster(
    observed: ObservedTopic, config: OperatorConfig, now: str
) -> list[Action]:
    name = observed.topic["spec"]["clusterRef"]
    if name == DEFAULT_CLUSTER and config.default_cluster is not None:
        readiness = Readiness(
            ready=False, reason="ClusterStarting", message=f"BrokerCluster {name} is being created"
        )
        create = CreateCluster(
            body={
                "apiVersion": kinds.CLUSTER.api_version,
                "kind": kinds.CLUSTER.kind,
                "metadata": {
                    "name": name,
                    "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
                },
                "spec": dict(config.default_cluster),
            }
        )
        return [
            create,
            *_status_actions(observed.topic, _topic_status(observed, readiness, now), readiness),
        ]
    message = f"there is no BrokerCluster {name}; create it, or a topic without spec.clusterRef"
    readiness = Readiness(ready=False, reason="ClusterMissing", message=message, refused=True)
    return _status_actions(observed.topic, _topic_status(observed, readiness, now), readiness)


def _topic_name_conflict(observed: ObservedTopic) -> Readiness | None:
    """Return which older topic of the same cluster has the name already."""
    topic = observed.topic
    for other in sorted(observed.topics, key=_age_order):
        if kinds.uid_of(other) == kinds.uid_of(topic):
            return None
        same_cluster = other["spec"]["clusterRef"] == topic["spec"]["clusterRef"]
        if same_cluster and topic_name(other) == topic_name(topic):
            message = (
                f"ReplicatedTopic {kinds.name_of(other)} is older and has the name "
                f"{topic_name(topic)} already"
            )
            return Readiness(ready=False, reason="Conflict", message=message, refused=True)
    return None


def _age_order(value: Object) -> tuple[str, str]:
    return str(value["metadata"]["creationTimestamp"]), kinds.uid_of(value)


def topic_name(topic: Object) -> str:
    """Return the name clients use: spec.topicName, else the object's."""
    return str(topic["spec"].get("topicName") or kinds.name_of(topic))


def _plan_partitions(observed: ObservedTopic, now: str) -> list[Action]:
    topic = observed.topic
    desired = int(topic["spec"]["partitions"])
    initialised = _initialised(topic)
    leftover = sorted(
        kinds.name_of(value)
        for value in observed.partitions.values()
        if value["spec"]["topicId"] != kinds.uid_of(topic)
    )
    if leftover:
        message = f"Partition {leftover[0]} of a deleted topic of this name is not gone yet"
        readiness = Readiness(ready=False, reason="WaitingForOldPartitions", message=message)
        return _status_actions(topic, _topic_status(observed, readiness, now), readiness)
    lost = [n for n in range(min(initialised, desired)) if n not in observed.partitions]
    actions: list[Action] = [
        RecreatePartition(body=body) for body in _partitions(observed, lost, recover=True)
    ]
    if lost:
        message = f"Partitions {lost} were lost and are created again, to be recovered"
        actions.append(
            PostEvent(about=topic, warning=True, reason="PartitionsLost", message=message)
        )
    if initialised < desired:
        readiness = Readiness(
            ready=False,
            reason="CreatingPartitions",
            message=f"partitions {initialised} to {desired - 1} are being created",
        )
        raised = _topic_status(observed, readiness, now) | {"partitionsInitialised": desired}
        body = _status_body(topic, raised)
        body["metadata"]["resourceVersion"] = topic["metadata"]["resourceVersion"]
        fresh = _partitions(observed, list(range(initialised, desired)), recover=False)
        return [*actions, InitialisePartitions(status_body=body, bodies=tuple(fresh))]
    ours = observed.partitions.values()
    readiness = status.topic_readiness(status.partition_counts(ours, desired))
    return actions + _status_actions(topic, _topic_status(observed, readiness, now), readiness)


def _partitions(observed: ObservedTopic, numbers: list[int], *, recover: bool) -> list[Object]:
    topic, cluster = observed.topic, observed.cluster
    if not numbers or cluster is None:
        return []
    uid = kinds.uid_of(topic)
    placed = place_topic(
        TopicId(uid),
        numbers,
        brokers=[BrokerId(broker_id) for broker_id in resources.broker_ids(cluster)],
        replication_factor=topic["spec"]["replicationFactor"],
    )
    return [
        {
            "apiVersion": kinds.PARTITION.api_version,
            "kind": kinds.PARTITION.kind,
            "metadata": {
                "name": f"{kinds.name_of(topic)}-{number}",
                "labels": {
                    "app.kubernetes.io/managed-by": FIELD_MANAGER,
                    CLUSTER_LABEL: kinds.name_of(cluster),
                    kinds.TOPIC_ID_LABEL: uid,
                    kinds.PARTITION_LABEL: str(number),
                },
                "ownerReferences": [kinds.owner_reference(topic)],
            },
            "spec": {
                "topicId": uid,
                "topicName": topic_name(topic),
                "partition": number,
                "replicas": list(placed[number]),
                "recover": recover,
            },
        }
        for number in numbers
    ]


def _initialised(topic: Object) -> int:
    return int(status_of(topic).get("partitionsInitialised") or 0)


def _topic_status(
    observed: ObservedTopic, readiness: Readiness, now: str, *, conflict: Readiness | None = None
) -> Object:
    """Return the operator's part of a topic's status.

    It always holds partitionsInitialised as last seen: an apply without it would give the
    field up, and the API server would remove it.
    """
    topic = observed.topic
    own = [
        value
        for value in observed.partitions.values()
        if value["spec"]["topicId"] == kinds.uid_of(topic)
    ]
    conditions = [status.condition(status.READY, readiness, topic, now)]
    if conflict:
        taken = Readiness(ready=True, reason="NameTaken", message=conflict.message)
        conditions.append(status.condition(status.CONFLICT, taken, topic, now))
    whole: Object = {
        "observedGeneration": topic["metadata"].get("generation", 0),
        "topicId": kinds.uid_of(topic),
        "partitions": status.partition_counts(own, topic["spec"]["partitions"]),
        "conditions": conditions,
    }
    if "partitionsInitialised" in status_of(topic):
        whole["partitionsInitialised"] = _initialised(topic)
    if observed.cluster is not None:
        whole["effectiveConfig"] = effective_config(topic, observed.cluster)
    elif "effectiveConfig" in status_of(topic):
        whole["effectiveConfig"] = status_of(topic)["effectiveConfig"]
    return whole


def effective_config(topic: Object, cluster: Object) -> dict[str, int]:
    """Return what the topic's partitions obey: its own settings, else the cluster's, else Kafka's.

    Source:  Kafka LogConfig: topic-level overrides of broker settings.
    """
    own = topic["spec"].get("config") or {}
    shared = cluster["spec"].get("config") or {}
    defaults = TopicDefaults().settings()
    return {
        "minInsyncReplicas": effective_min_insync_replicas(
            own.get("minInsyncReplicas"), replicas=topic["spec"]["replicationFactor"]
        ),
        "segmentBytes": own.get("segmentBytes")
        or shared.get("logSegmentBytes", defaults.segment_bytes),
        "maxMessageBytes": own.get("maxMessageBytes")
        or shared.get("messageMaxBytes", defaults.max_message_bytes),
        "flushMessages": own.get("flushMessages")
        or shared.get("logFlushIntervalMessages", defaults.flush_messages),
    }


# --- both --------------------------------------------------------------------------------


def _status_body(owner: Object, desired: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "metadata": {"name": kinds.name_of(owner)},
        "status": desired,
    }


def _status_actions(owner: Object, desired: Object, readiness: Readiness) -> list[Action]:
    """Return the status write if anything in it changed, and an Event for a new refusal."""
    if kinds.is_part_of(desired, status_of(owner)):
        return []
    actions: list[Action] = [
        ApplyStatus(body=_status_body(owner, desired), reason=readiness.reason)
    ]
    before = status.condition_of(owner, status.READY).get("reason")
    if readiness.refused and before != readiness.reason:
        actions.append(
            PostEvent(about=owner, warning=True, reason=readiness.reason, message=readiness.message)
        )
    return actions
