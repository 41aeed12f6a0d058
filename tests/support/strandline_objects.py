"""The project's objects on a test's API server: CRDs, and objects as the operator makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.api_server import ApiServer
from tests.support.commands import REPOSITORY, programs, run
from tests.support.control_plane import ControlPlane
from tests.support.object_reader import Manifest

CHART = REPOSITORY / "helm" / "strandline"
CRDS_CHART = REPOSITORY / "helm" / "strandline-crds"
IMAGES = tuple(
    f"--set={name}.image.repository=example.com/{name}"
    for name in ("operator", "broker", "prometheus", "analysis")
)
"""Images that the operator's chart has no defaults for."""
GROUP = "strandline.dev"
VERSION = "v1alpha1"
CLUSTER = "demo"
OWN_CLUSTER = "own-cluster.strandline.dev"
"""The policy that keeps brokers from writing to other clusters, and its binding."""

KINDS = ("brokerclusters", "replicatedtopics", "brokers", "partitions")


def install_crds(control_plane: ApiServer) -> None:
    """Install the CRDs of their chart and its policy on what brokers may write.

    The policy on deletions is left out: tests delete objects in passing.
    """
    items = rendered(CRDS_CHART)
    control_plane.apply([item for item in items if item["kind"] == "CustomResourceDefinition"])
    control_plane.apply([item for item in items if item["metadata"]["name"] == OWN_CLUSTER])
    names = [f"crd/{plural}.{GROUP}" for plural in KINDS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


def rendered(chart: Path, *options: str, release: str = "strandline") -> list[Manifest]:
    """Return all objects of a chart as a release; options are those of `helm template`."""
    version = programs().parent.name.removeprefix("kube-")
    helm = [str(programs() / "helm"), "template", release, str(chart)]
    text = run([*helm, f"--kube-version={version}", *options])
    return [item for item in yaml.safe_load_all(text) if item]


def rendered_operator(namespace: str, *options: str) -> list[Manifest]:
    """Return all objects of the operator's chart as a release in this namespace."""
    return rendered(CHART, "-n", namespace, *IMAGES, *options)


def broker_account(control_plane: ControlPlane, namespace: str, cluster: str = CLUSTER) -> Path:
    """Make a cluster's ServiceAccount with the chart's Role for brokers; return its kubeconfig."""
    kept = "helm.sh/resource-policy"
    roles = [
        item
        for item in rendered_operator(namespace)
        if item["kind"] == "Role" and kept in item["metadata"].get("annotations", {})
    ]
    assert len(roles) == 1, "the brokers' Role is the only one that the chart keeps on uninstall"
    metadata = {"name": f"{cluster}-broker", "namespace": namespace}
    role_name = roles[0]["metadata"]["name"]
    # With the label an operator takes it for its own.
    labelled = {**metadata, "labels": {"strandline.dev/cluster": cluster}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": labelled}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": role_name,
        },
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }
    role = {**roles[0], "metadata": {"name": role_name, "namespace": namespace}}
    control_plane.apply([account, role, binding])
    return control_plane.service_account_kubeconfig(namespace, metadata["name"])


def _object(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"strandline.dev/cluster": CLUSTER},
        },
        "spec": spec,
    }


def cluster(namespace: str) -> Manifest:
    """Return a BrokerCluster."""
    return _object("BrokerCluster", CLUSTER, namespace, {"replicas": 3})


def broker(namespace: str, broker_id: int) -> Manifest:
    """Return a Broker as the operator makes it: no status."""
    return _object("Broker", f"{CLUSTER}-{broker_id}", namespace, {"brokerId": broker_id})


def controller_lease(namespace: str) -> Manifest:
    """Return the controller Lease as the operator makes it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"{CLUSTER}-controller",
            "namespace": namespace,
            "labels": {"strandline.dev/cluster": CLUSTER},
        },
        "spec": {},
    }


def topic(namespace: str, name: str, **spec: Any) -> Manifest:
    """Return a ReplicatedTopic of the cluster."""
    wanted = {"clusterRef": CLUSTER, "partitions": 1, "replicationFactor": 3, **spec}
    return _object("ReplicatedTopic", name, namespace, wanted)


def partition(namespace: str, *, topic_id: str, topic_name: str, number: int) -> Manifest:
    """Return a Partition as the operator makes it: no status."""
    spec = {
        "topicId": topic_id,
        "topicName": topic_name,
        "partition": number,
        "replicas": [0, 1, 2],
        "recover": False,
    }
    return _object("Partition", f"{topic_name}-{number}", namespace, spec)


def owner(topic_name: str, topic_id: str) -> dict[str, Any]:
    """Return the owner reference that deletes the Partitions together with their topic."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ReplicatedTopic",
        "name": topic_name,
        "uid": topic_id,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def patch_status(
    control_plane: ControlPlane, namespace: str, name: str, status: dict[str, Any]
) -> None:
    """Merge fields into the status of an object, named as `<plural>/<name>`."""
    patch = json.dumps({"status": status})
    control_plane.kubectl(
        "patch", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    )
