"""Manifests of what a BrokerCluster consists of: one pure function per kind.

Called by `plan` alone. Every manifest is owned by the BrokerCluster and labelled with its
name; `objects_of` returns them in the order of creation, the StatefulSet last, so that no
broker starts before what it needs exists.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from strandline.kube.api import Object
from strandline.kube.objects import CLUSTER_LABEL

from . import kinds
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
LOST_NODE_SECONDS: Final = 20
"""A pod of a lost node is given up after this time, instead of Kubernetes's 300 s."""

BROKER_KEYS: Final = {
    "replicaLagTimeMaxMs": "replica.lag.time.max.ms",
    "logSegmentBytes": "log.segment.bytes",
    "logFlushIntervalMessages": "log.flush.interval.messages",
    "messageMaxBytes": "message.max.bytes",
}
"""Field of BrokerCluster.spec.config to key of the brokers' configuration file."""


def objects_of(cluster: Object, config: OperatorConfig) -> list[Object]:
    """Return everything a BrokerCluster consists of, in the order of creation."""
    ids = broker_ids(cluster)
    return [
        kinds.with_digest(body)
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


def broker_ids(cluster: Object) -> list[int]:
    """Return the ids of a cluster's brokers, which are the ordinals of its pods."""
    return list(range(cluster["spec"]["replicas"]))


def labels(cluster: Object) -> dict[str, str]:
    """Return the labels of everything that belongs to a cluster."""
    return {
        "app.kubernetes.io/name": "strandline",
        "app.kubernetes.io/component": "broker",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        CLUSTER_LABEL: kinds.name_of(cluster),
    }


def pod_selector(cluster: Object) -> dict[str, str]:
    """Return the labels by which a cluster's pods are found; never changed afterwards."""
    return {"app.kubernetes.io/component": "broker", CLUSTER_LABEL: kinds.name_of(cluster)}


def _manifest(kind: kinds.Kind, cluster: Object, suffix: str, **parts: Any) -> Object:
    name = kinds.name_of(cluster)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": f"{name}-{suffix}" if suffix else name,
            "labels": labels(cluster),
            "ownerReferences": [kinds.owner_reference(cluster)],
        },
        **parts,
    }


def _service_account(cluster: Object) -> Object:
    return _manifest(kinds.SERVICE_ACCOUNT, cluster, "broker")


def _role_binding(cluster: Object, config: OperatorConfig) -> Object:
    account = f"{kinds.name_of(cluster)}-broker"
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


def _config_map(cluster: Object) -> Object:
    spec = cluster["spec"]
    given = spec.get("config") or {}
    values = {"timing": spec["timing"]}
    values |= {key: given[field] for field, key in BROKER_KEYS.items() if field in given}
    text = yaml.safe_dump(values, sort_keys=True)
    return _manifest(kinds.CONFIG_MAP, cluster, "config", data={CONFIG_NAME: text})


def _port(name: str, port: int) -> dict[str, Any]:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}


def _headless_service(cluster: Object) -> Object:
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


def _bootstrap_service(cluster: Object) -> Object:
    return _manifest(
        kinds.SERVICE,
        cluster,
        "bootstrap",
        spec={"selector": pod_selector(cluster), "ports": [_port("kafka", KAFKA_PORT)]},
    )


def _controller_lease(cluster: Object) -> Object:
    return _manifest(kinds.LEASE, cluster, "controller")


def _broker(cluster: Object, broker_id: int) -> Object:
    return _manifest(kinds.BROKER, cluster, str(broker_id), spec={"brokerId": broker_id})


def _pod_disruption_budget(cluster: Object) -> Object:
    return _manifest(
        kinds.POD_DISRUPTION_BUDGET,
        cluster,
        "brokers",
        spec={"maxUnavailable": 1, "selector": {"matchLabels": pod_selector(cluster)}},
    )


def _stateful_set(cluster: Object, config: OperatorConfig) -> Object:
    spec = cluster["spec"]
    return _manifest(
        kinds.STATEFUL_SET,
        cluster,
        "",
        spec={
            "replicas": spec["replicas"],
            "serviceName": f"{kinds.name_of(cluster)}-brokers",
            # All at once: a broker waits for no other. Rolls are never Kubernetes's decision.
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": pod_selector(cluster)},
            "template": {"metadata": {"labels": labels(cluster)}, "spec": _pod(cluster, config)},
            "volumeClaimTemplates": [_volume_claim(cluster)],
        },
    )


def _volume_claim(cluster: Object) -> Object:
    storage = cluster["spec"]["storage"]
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage["size"]}},
    }
    if "storageClassName" in storage:
        spec["storageClassName"] = storage["storageClassName"]
    return {"metadata": {"name": "data", "labels": labels(cluster)}, "spec": spec}


def _pod(cluster: Object, config: OperatorConfig) -> Object:
    name = kinds.name_of(cluster)
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


def _container(cluster: Object, config: OperatorConfig) -> Object:
    resources = cluster["spec"].get("resources")
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
            {"name": "CLUSTER_NAME", "value": kinds.name_of(cluster)},
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
    if resources:
        container["resources"] = resources
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
