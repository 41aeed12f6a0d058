"""Every manifest that the operator sends, each made by a pure function.

Called by `plan`, and by `apply` for Events. The objects of a BrokerCluster carry its name as a
label. It owns them, so that they go with it, only while it has no topics; it never owns Brokers,
whose registrations live as long as the volumes (ADR 0033).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from strandline.config.broker import Ports
from strandline.config.replication import ControllerConfig
from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL, DEFAULT_CLUSTER
from strandline.model import AdvertisedAddress, BrokerId, StoredPartition

from . import external, kinds, pod_settings
from .actions import PostEvent
from .broker_settings import file_of, running_settings
from .observed import DesiredCluster, DesiredTopic, FoundObject, ObjectRef
from .operator_config import FIELD_MANAGER, OperatorConfig
from .placement import NO_RACKS

PORTS: Final = {"kafka": Ports().internal, "grpc": Ports().grpc, "http": Ports().http}
DATA_PATH: Final = "/var/lib/strandline"
CONFIG_PATH: Final = "/etc/strandline"
CONFIG_NAME: Final = "broker.yaml"
CONFIG_DIGEST_LENGTH: Final = 10
FLUSH_BYTES_PER_SECOND: Final = 32 << 20
"""A slow volume; a broker that ends flushes at most what its volume holds."""
FLUSH_SECONDS_MAX: Final = 300
"""Time to flush the page cache of a large machine."""
GRACE_MARGIN_SECONDS: Final = 10
"""Time for everything else that a broker does at its end."""
EVENT_MESSAGE_LENGTH_MAX: Final = 1_024

NO_ADDRESSES: Final[Mapping[BrokerId, AdvertisedAddress]] = MappingProxyType({})
"""Nothing is advertised outside."""


# --- clusters ----------------------------------------------------------------------------


def grace_seconds(storage_size: str) -> int:
    """Return how long a broker may take to end: hand over its leaders, and flush all its logs.

    A broker killed before that leaves no marker, and counts as unclean on another machine.
    """
    size_bytes = pod_settings.quantity_bytes(storage_size)
    flush = min(FLUSH_SECONDS_MAX, -(-size_bytes // FLUSH_BYTES_PER_SECOND))
    hand_over = ControllerConfig().shutdown_timeout_ms // 1000
    return hand_over + flush + GRACE_MARGIN_SECONDS


def objects_of(
    cluster: DesiredCluster,
    config: OperatorConfig,
    *,
    has_topics: bool,
    disruption_allowed: bool = True,
    removed: Collection[BrokerId] = (),
    addresses: Mapping[BrokerId, AdvertisedAddress] = NO_ADDRESSES,
    racks: Mapping[BrokerId, str] = NO_RACKS,
) -> list[Object]:
    """Return the objects that a BrokerCluster always has, in the order of creation.

    addresses are those that brokers advertise outside; removed are former brokers: registrations
    live as long as volumes. The StatefulSet is the last, so that no broker starts before the
    objects that it needs.
    """
    budget = {
        "maxUnavailable": 1 if disruption_allowed else 0,
        "selector": {"matchLabels": pod_selector(cluster)},
        # A broker that fails again and again must not hold its node for ever (ADR 0047).
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    # Brokers find each other before they are ready.
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True}
    bodies = [
        _manifest(kinds.SERVICE_ACCOUNT, cluster, "broker"),
        _role_binding(cluster, config),
        _config_map(cluster, file_of(cluster)),
        _service(cluster, "brokers", list(PORTS), **headless),
        _service(cluster, "bootstrap", ["kafka"]),
        _manifest(kinds.LEASE, cluster, "controller"),
        *(
            _manifest(
                kinds.BROKER,
                cluster,
                str(i),
                spec=_broker_spec(cluster, i, addresses.get(i), racks.get(i, "")),
            )
            for i in cluster.broker_ids
        ),
        *(
            _manifest(kinds.BROKER, cluster, str(i), spec={"brokerId": i, "removed": True})
            for i in sorted(removed)
        ),
        _manifest(kinds.POD_DISRUPTION_BUDGET, cluster, "brokers", spec=budget),
        _stateful_set(cluster, config),
    ]
    return [_owned(body, cluster, has_topics=has_topics) for body in bodies]


def external_services_of(cluster: DesiredCluster, *, has_topics: bool) -> list[Object]:
    """Return the Services of a cluster's external listener, none without one."""
    return [
        _owned(_manifest(kinds.SERVICE, cluster, suffix, spec=spec), cluster, has_topics=has_topics)
        for suffix, spec in external.service_specs(cluster, pod_selector(cluster)).items()
    ]


def _broker_spec(
    cluster: DesiredCluster, broker_id: BrokerId, address: AdvertisedAddress | None, rack: str
) -> Object:
    """Return the spec of a Broker; without a host it advertises the address of its node."""
    settings = running_settings(cluster)
    spec: Object = {"brokerId": broker_id, **({"config": settings} if settings else {})}
    spec |= {"rack": rack} if rack else {}
    if address is None:
        return spec
    host = {"host": address.host} if address.host else {}
    return {**spec, "external": {**host, "port": address.port}}


def former_config_map(cluster: DesiredCluster, found: FoundObject, *, has_topics: bool) -> Object:
    """Return the manifest of a ConfigMap that pods may still name: only its owner may change."""
    whole = found.whole
    body = _manifest(kinds.CONFIG_MAP, cluster, "", data=whole.get("data") or {})
    body["metadata"]["name"] = found.ref.name
    if whole.get("immutable"):
        body["immutable"] = True
    return _owned(body, cluster, has_topics=has_topics)


def is_config_map_of(found: FoundObject, cluster: ObjectRef) -> bool:
    """Tell whether an object is a ConfigMap of a cluster's brokers, of whatever revision."""
    name, whole = found.ref.name, f"{cluster.name}-config"
    is_named_so = name == whole or name.startswith(f"{whole}-")
    return found.ref.kind is kinds.CONFIG_MAP and found.cluster == cluster.name and is_named_so


def config_maps_named(pod_spec: Object) -> set[str]:
    """Return the names of the ConfigMaps that a pod mounts."""
    volumes = pod_spec.get("volumes") or []
    return {each["configMap"]["name"] for each in volumes if "configMap" in each}


def _owned(body: Object, cluster: DesiredCluster, *, has_topics: bool) -> Object:
    """Return a manifest with its owner, if its cluster owns it now, and with its digest."""
    if not has_topics and body["kind"] != kinds.BROKER.kind:
        body["metadata"]["ownerReferences"] = [_owner_reference(cluster.ref)]
    return _with_digest(body)


def labels(cluster: DesiredCluster) -> dict[str, str]:
    """Return the labels of every object of a cluster."""
    return {
        "app.kubernetes.io/name": "strandline",
        "app.kubernetes.io/component": "broker",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        CLUSTER_LABEL: cluster.ref.name,
    }


def pod_selector(cluster: DesiredCluster) -> dict[str, str]:
    """Return the labels that select a cluster's pods; they never change."""
    return {"app.kubernetes.io/component": "broker", CLUSTER_LABEL: cluster.ref.name}


def pod_selector_text(cluster: DesiredCluster) -> str:
    """Return the selector as the scale subresource shows it."""
    return ",".join(f"{label}={value}" for label, value in pod_selector(cluster).items())


def _manifest(kind: kinds.Kind, cluster: DesiredCluster, suffix: str, **parts: Any) -> Object:
    name = cluster.ref.name
    return {
        **kind.type_meta,
        "metadata": {
            "name": f"{name}-{suffix}" if suffix else name,
            "labels": labels(cluster),
        },
        **parts,
    }


def _role_binding(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    """Return the RoleBinding of a Role; another release's Role gets another RoleBinding.

    The name of the Role holds that of the release, and a roleRef cannot be changed.
    """
    group, account = kinds.ROLE_BINDING.resource.group, f"{cluster.ref.name}-broker"
    role = {"apiGroup": group, "kind": "Role", "name": config.broker_role}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": config.namespace}
    suffix = config.broker_role
    return _manifest(kinds.ROLE_BINDING, cluster, suffix, roleRef=role, subjects=[subject])


def config_map_name(cluster: DesiredCluster) -> str:
    """Return the name of the ConfigMap of a cluster's present configuration."""
    return f"{cluster.ref.name}-{_config_suffix(file_of(cluster))}"


def _config_map(cluster: DesiredCluster, text: str) -> Object:
    """Return an immutable ConfigMap: another configuration gets another name (ADR 0039)."""
    data = {CONFIG_NAME: text}
    return _manifest(kinds.CONFIG_MAP, cluster, _config_suffix(text), immutable=True, data=data)


def _config_suffix(text: str) -> str:
    return f"config-{hashlib.sha256(text.encode()).hexdigest()[:CONFIG_DIGEST_LENGTH]}"


def _service(cluster: DesiredCluster, suffix: str, names: Sequence[str], **settings: Any) -> Object:
    ports = [
        {"name": name, "port": PORTS[name], "targetPort": name, "protocol": "TCP"} for name in names
    ]
    spec = {**settings, "selector": pod_selector(cluster), "ports": ports}
    return _manifest(kinds.SERVICE, cluster, suffix, spec=spec)


def _stateful_set(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    spec = {
        "replicas": cluster.replicas,
        "serviceName": f"{cluster.ref.name}-brokers",
        # All brokers start at once, and `rolling` alone decides who restarts when.
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "selector": {"matchLabels": pod_selector(cluster)},
        "template": {
            "metadata": pod_settings.metadata(cluster, labels(cluster)),
            "spec": _pod(cluster, config),
        },
        "volumeClaimTemplates": [_volume_claim(cluster)],
    }
    return _manifest(kinds.STATEFUL_SET, cluster, "", spec=spec)


def _volume_claim(cluster: DesiredCluster) -> Object:
    # As the API server returns it, so that another form of a quantity is no change.
    size = pod_settings.canonical_quantity(cluster.storage_size)
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if cluster.storage_class is not None:
        spec["storageClassName"] = cluster.storage_class
    # A claim template cannot be changed, so it carries the labels that never change.
    return {"metadata": {"name": "data", "labels": pod_selector(cluster)}, "spec": spec}


def _pod(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    name = cluster.ref.name
    pod: Object = {
        "serviceAccountName": f"{name}-broker",
        # Variables of Services would be read as the broker's own: a Service `http` sets HTTP_PORT.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": cluster.pod.get(
            "terminationGracePeriodSeconds", grace_seconds(cluster.storage_size)
        ),
        "securityContext": pod_settings.security(config),
        **pod_settings.scheduling(cluster, pod_selector(cluster)),
        "containers": [_container(cluster, config)],
        # A pod keeps the revision of its own template until it is replaced.
        "volumes": [{"name": "config", "configMap": {"name": config_map_name(cluster)}}],
    }
    secrets = pod_settings.pull_secrets(cluster, config)
    return {**pod, "imagePullSecrets": secrets} if secrets else pod


def _container(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    config_file = f"{CONFIG_PATH}/{CONFIG_NAME}"
    return {
        "name": "broker",
        "image": cluster.image,
        "imagePullPolicy": config.broker_image_pull_policy,
        # tini is process 1: the kernel ignores SIGKILL from inside for process 1, and
        # `kubectl exec ... kill -9` must reach the broker.
        "command": ["tini", "--"],
        "args": ["python", "-m", "strandline.runtime.main", "--config", config_file],
        "env": [
            _from_pod("POD_NAME", "metadata.name"),
            _from_pod("POD_UID", "metadata.uid"),
            _from_pod("POD_IP", "status.podIP"),
            _from_pod("NODE_IP", "status.hostIP"),
            _from_pod("NAMESPACE", "metadata.namespace"),
            {"name": "CLUSTER_NAME", "value": cluster.ref.name},
        ],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in PORTS.items()
        ],
        "readinessProbe": _probe("/ready", period=1, timeout=2, failures=3),
        # A minute without an iteration of the event loop; a shorter stall means a busy machine.
        "livenessProbe": _probe("/live", period=10, timeout=5, failures=6),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The pod's status shows the last log lines of a broker that failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "data", "mountPath": DATA_PATH},
            {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        ],
        "resources": pod_settings.broker_resources(cluster),
    }


def _from_pod(name: str, field: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _probe(path: str, *, period: int, timeout: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


# --- topics ------------------------------------------------------------------------------


def default_cluster(spec: Mapping[str, Any]) -> Object:
    """Return the BrokerCluster `default`; no topic owns it, so that it outlives all topics."""
    return {
        **kinds.CLUSTER.type_meta,
        "metadata": {
            "name": DEFAULT_CLUSTER,
            "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
        },
        "spec": dict(spec),
    }


def partition(
    topic: DesiredTopic, number: int, replicas: Sequence[BrokerId], *, recover: bool
) -> Object:
    """Return a Partition of a topic; recover says that brokers may already have its data."""
    return {
        **kinds.PARTITION.type_meta,
        "metadata": {
            "name": f"{topic.ref.name}-{number}",
            "labels": {
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
                CLUSTER_LABEL: topic.cluster,
                kinds.TOPIC_ID_LABEL: topic.topic_id,
                kinds.PARTITION_LABEL: str(number),
            },
            "ownerReferences": [_owner_reference(topic.ref)],
        },
        "spec": {
            "topicId": topic.topic_id,
            "topicName": topic.topic_name,
            "partition": number,
            "replicas": list(replicas),
            "recover": recover,
        },
    }


def moved_partition(stored: StoredPartition, replicas: Sequence[BrokerId]) -> Object:
    """Return the change of a Partition's replicas: a compare-and-swap on the object as seen."""
    metadata = {"name": stored.name, "resourceVersion": stored.resource_version}
    spec = {"replicas": list(replicas)}
    return {**kinds.PARTITION.type_meta, "metadata": metadata, "spec": spec}


# --- for both ----------------------------------------------------------------------------


def status_of(owner: ObjectRef, status: Object, *, resource_version: str = "") -> Object:
    """Return a status to apply; with a resource_version it is a compare-and-swap."""
    version = {"resourceVersion": resource_version} if resource_version else {}
    return {**owner.kind.type_meta, "metadata": {"name": owner.name, **version}, "status": status}


def event(event: PostEvent, *, namespace: str, now: str, suffix: str) -> Object:
    """Return an Event; suffix makes its name unique."""
    about = event.about
    return {
        **kinds.EVENT.type_meta,
        "metadata": {"name": f"{about.name[:200]}.{suffix}"},
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "message": event.message[:EVENT_MESSAGE_LENGTH_MAX],
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "involvedObject": {
            **about.kind.type_meta,
            "name": about.name,
            "namespace": namespace,
            "uid": about.uid,
        },
    }


def _owner_reference(owner: ObjectRef) -> Object:
    """Return the reference that makes Kubernetes delete a dependent with its owner."""
    return {
        **owner.kind.type_meta,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _with_digest(body: Object) -> Object:
    """Return a manifest with an annotation that is a digest of the manifest without it."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    metadata = {**body["metadata"], "annotations": {kinds.APPLIED_ANNOTATION: digest}}
    return {**body, "metadata": metadata}
