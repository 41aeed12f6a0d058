"""Every manifest that the operator sends: one pure function per kind.

Called by `plan`; `apply` asks for Events alone. What a BrokerCluster consists of is owned by
it and labelled with its name; `objects_of` returns that in the order of creation, the
StatefulSet last, so that no broker starts before what it needs exists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL, DEFAULT_CLUSTER
from strandline.model import BrokerId

from . import kinds
from .actions import PostEvent
from .observed import DesiredCluster, DesiredTopic, ObjectRef
from .operator_config import FIELD_MANAGER, OperatorConfig

KAFKA_PORT: Final = 9092
GRPC_PORT: Final = 9090
HTTP_PORT: Final = 8080
DATA_PATH: Final = "/var/lib/strandline"
CONFIG_PATH: Final = "/etc/strandline"
CONFIG_NAME: Final = "broker.yaml"
BROKER_USER: Final = 65532
GRACE_SECONDS: Final = 30
"""Longer than the 20 s a broker takes at most to move its leaders and flush its logs."""
EVENT_MESSAGE_LENGTH_MAX: Final = 1_024
LOST_NODE_SECONDS: Final = 20
"""A pod of a lost node is given up after this time, instead of Kubernetes's 300 s."""

BROKER_KEYS: Final = {
    "replicaLagTimeMaxMs": "replica.lag.time.max.ms",
    "logSegmentBytes": "log.segment.bytes",
    "logFlushIntervalMessages": "log.flush.interval.messages",
    "messageMaxBytes": "message.max.bytes",
}
"""Field of BrokerCluster.spec.config to key of the brokers' configuration file."""


# --- clusters ----------------------------------------------------------------------------


def objects_of(cluster: DesiredCluster, config: OperatorConfig) -> list[Object]:
    """Return everything a BrokerCluster consists of, in the order of creation."""
    ids = cluster.broker_ids
    return [
        _with_digest(body)
        for body in (
            _service_account(cluster),
            _role_binding(cluster, config),
            _config_map(cluster),
            _headless_service(cluster),
            _bootstrap_service(cluster),
            _controller_lease(cluster),
            *(_broker(cluster, broker_id) for broker_id in ids),
            _pod_disruption_budget(cluster),
            _stateful_set(cluster, config),
        )
    ]


def labels(cluster: DesiredCluster) -> dict[str, str]:
    """Return the labels of everything that belongs to a cluster."""
    return {
        "app.kubernetes.io/name": "strandline",
        "app.kubernetes.io/component": "broker",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        CLUSTER_LABEL: cluster.ref.name,
    }


def pod_selector(cluster: DesiredCluster) -> dict[str, str]:
    """Return the labels by which a cluster's pods are found; never changed afterwards."""
    return {"app.kubernetes.io/component": "broker", CLUSTER_LABEL: cluster.ref.name}


def _manifest(kind: kinds.Kind, cluster: DesiredCluster, suffix: str, **parts: Any) -> Object:
    name = cluster.ref.name
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": f"{name}-{suffix}" if suffix else name,
            "labels": labels(cluster),
            "ownerReferences": [_owner_reference(cluster.ref)],
        },
        **parts,
    }


def _service_account(cluster: DesiredCluster) -> Object:
    return _manifest(kinds.SERVICE_ACCOUNT, cluster, "broker")


def _role_binding(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    account = f"{cluster.ref.name}-broker"
    return _manifest(
        kinds.ROLE_BINDING,
        cluster,
        "broker",
        roleRef={
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": config.broker_role,
        },
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": config.namespace}],
    )


def _config_map(cluster: DesiredCluster) -> Object:
    values: dict[str, Any] = {"timing": cluster.timing}
    given = cluster.config
    values |= {key: given[field] for field, key in BROKER_KEYS.items() if field in given}
    text = yaml.safe_dump(values, sort_keys=True)
    return _manifest(kinds.CONFIG_MAP, cluster, "config", data={CONFIG_NAME: text})


def _port(name: str, port: int) -> dict[str, Any]:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}


def _headless_service(cluster: DesiredCluster) -> Object:
    return _manifest(
        kinds.SERVICE,
        cluster,
        "brokers",
        spec={
            "clusterIP": "None",
            # Brokers find each other before they are ready.
            "publishNotReadyAddresses": True,
            "selector": pod_selector(cluster),
            "ports": [
                _port("kafka", KAFKA_PORT),
                _port("grpc", GRPC_PORT),
                _port("http", HTTP_PORT),
            ],
        },
    )


def _bootstrap_service(cluster: DesiredCluster) -> Object:
    return _manifest(
        kinds.SERVICE,
        cluster,
        "bootstrap",
        spec={"selector": pod_selector(cluster), "ports": [_port("kafka", KAFKA_PORT)]},
    )


def _controller_lease(cluster: DesiredCluster) -> Object:
    return _manifest(kinds.LEASE, cluster, "controller")


def _broker(cluster: DesiredCluster, broker_id: int) -> Object:
    return _manifest(kinds.BROKER, cluster, str(broker_id), spec={"brokerId": broker_id})


def _pod_disruption_budget(cluster: DesiredCluster) -> Object:
    return _manifest(
        kinds.POD_DISRUPTION_BUDGET,
        cluster,
        "brokers",
        spec={"maxUnavailable": 1, "selector": {"matchLabels": pod_selector(cluster)}},
    )


def _stateful_set(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    return _manifest(
        kinds.STATEFUL_SET,
        cluster,
        "",
        spec={
            "replicas": cluster.replicas,
            "serviceName": f"{cluster.ref.name}-brokers",
            # All at once: a broker waits for no other. Rolls are never Kubernetes's decision.
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": pod_selector(cluster)},
            "template": {"metadata": {"labels": labels(cluster)}, "spec": _pod(cluster, config)},
            "volumeClaimTemplates": [_volume_claim(cluster)],
        },
    )


def _volume_claim(cluster: DesiredCluster) -> Object:
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": cluster.storage_size}},
    }
    if cluster.storage_class is not None:
        spec["storageClassName"] = cluster.storage_class
    return {"metadata": {"name": "data", "labels": labels(cluster)}, "spec": spec}


def _pod(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    name = cluster.ref.name
    pod: Object = {
        "serviceAccountName": f"{name}-broker",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": BROKER_USER,
            "runAsGroup": BROKER_USER,
            "fsGroup": BROKER_USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": LOST_NODE_SECONDS,
            }
            for state in ("not-ready", "unreachable")
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": pod_selector(cluster)},
            }
        ],
        "containers": [_container(cluster, config)],
        "volumes": [{"name": "config", "configMap": {"name": f"{name}-config"}}],
    }
    if config.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in config.image_pull_secrets]
    return pod


def _container(cluster: DesiredCluster, config: OperatorConfig) -> Object:
    container: Object = {
        "name": "broker",
        "image": config.broker_image,
        "imagePullPolicy": config.broker_image_pull_policy,
        # tini is process 1: the kernel ignores SIGKILL from inside for process 1, and
        # `kubectl exec ... kill -9` must reach the broker.
        "command": ["tini", "--"],
        "args": [
            "python",
            "-m",
            "strandline.runtime.main",
            "--config",
            f"{CONFIG_PATH}/{CONFIG_NAME}",
        ],
        "env": [
            _from_pod("POD_NAME", "metadata.name"),
            _from_pod("POD_UID", "metadata.uid"),
            _from_pod("POD_IP", "status.podIP"),
            _from_pod("NAMESPACE", "metadata.namespace"),
            {"name": "CLUSTER_NAME", "value": cluster.ref.name},
        ],
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in (("kafka", KAFKA_PORT), ("grpc", GRPC_PORT), ("http", HTTP_PORT))
        ],
        "readinessProbe": _probe("/ready", period=1, timeout=2, failures=3),
        # Sixty seconds without a turn of the event loop: anything less is a busy machine.
        "livenessProbe": _probe("/live", period=10, timeout=5, failures=6),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # Without a message file, the last log lines of an ended broker stay readable in its pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "data", "mountPath": DATA_PATH},
            {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        ],
    }
    if cluster.resources:
        container["resources"] = cluster.resources
    return container


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
    """Return the BrokerCluster `default`; no topic owns it, so that it outlives them."""
    return {
        "apiVersion": kinds.CLUSTER.api_version,
        "kind": kinds.CLUSTER.kind,
        "metadata": {
            "name": DEFAULT_CLUSTER,
            "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
        },
        "spec": dict(spec),
    }


def partition(
    topic: DesiredTopic, number: int, replicas: Sequence[BrokerId], *, recover: bool
) -> Object:
    """Return a Partition of a topic; recover says that it was lost, and may have data."""
    return {
        "apiVersion": kinds.PARTITION.api_version,
        "kind": kinds.PARTITION.kind,
        "metadata": {
            "name": f"{topic.ref.name}-{number}",
            "labels": {
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
                CLUSTER_LABEL: topic.cluster,
                kinds.TOPIC_ID_LABEL: topic.ref.uid,
                kinds.PARTITION_LABEL: str(number),
            },
            "ownerReferences": [_owner_reference(topic.ref)],
        },
        "spec": {
            "topicId": topic.ref.uid,
            "topicName": topic.topic_name,
            "partition": number,
            "replicas": list(replicas),
            "recover": recover,
        },
    }


# --- what is said of both ----------------------------------------------------------------


def status_of(owner: ObjectRef, status: Object, *, resource_version: str = "") -> Object:
    """Return a status to apply; with a resource_version it is a compare-and-swap."""
    version = {"resourceVersion": resource_version} if resource_version else {}
    return {
        "apiVersion": owner.kind.api_version,
        "kind": owner.kind.kind,
        "metadata": {"name": owner.name, **version},
        "status": status,
    }


def event(event: PostEvent, *, namespace: str, now: str, suffix: str) -> Object:
    """Return an Event; suffix makes its name one of its own."""
    about = event.about
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.kind,
        "metadata": {"name": f"{about.name[:200]}.{suffix}"},
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message[:EVENT_MESSAGE_LENGTH_MAX],
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "involvedObject": {
            "apiVersion": about.kind.api_version,
            "kind": about.kind.kind,
            "name": about.name,
            "namespace": namespace,
            "uid": about.uid,
        },
    }


def _owner_reference(owner: ObjectRef) -> Object:
    """Return the reference by which an owner takes its dependents along when it is deleted."""
    return {
        "apiVersion": owner.kind.api_version,
        "kind": owner.kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _with_digest(body: Object) -> Object:
    """Return a manifest that carries a digest of itself."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    metadata = {**body["metadata"], "annotations": {kinds.APPLIED_ANNOTATION: digest}}
    return {**body, "metadata": metadata}
