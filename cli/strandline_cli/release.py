"""Both charts as releases in a namespace of their own: installs them, removes all that they made.

Called by the demo, the bench and the tests on real pods, which also apply topics. The namespace is
that of the given `Kubernetes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .commands import CommandFailed
from .kubectl import Kubernetes

RELEASE = "strandline"
DEFINITIONS_RELEASE = "strandline-crds"
BROKERS = 3
"""Brokers of the cluster that the operator makes for a topic that names none."""
PARTITIONS = 6
READY_SECONDS = 240
KINDS = tuple(
    f"{plural}.strandline.dev"
    for plural in ("partitions", "replicatedtopics", "brokers", "brokerclusters")
)
DEFINITIONS = tuple(f"crd/{kind}" for kind in KINDS)
POLICY = tuple(
    f"{kind}/{name}.strandline.dev"
    for name in ("deletion", "own-cluster")
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
)
"""What refuses deletions, and brokers' writes to other clusters, for all namespaces."""
ROLES = tuple(f"clusterrole/strandline-{role}" for role in ("view", "edit", "admin"))
"""What people may do with our objects."""
INSTALL_SECONDS = 240
REMOVE_SECONDS = 180.0
GRACE_SECONDS = 2
"""Grace period of a removal: its pods need not hand leaders over."""


def values(images: dict[str, str]) -> list[str]:
    """Return the chart's values for these images, with the timing `demo`."""
    return [*image_values(images, "broker", "operator"), "defaultCluster.spec.timing=demo"]


def image_values(images: dict[str, str], *names: str) -> list[str]:
    """Return the chart's values that choose these images."""
    chosen: list[str] = []
    for name in names:
        repository, _, tag = images[name].rpartition(":")
        chosen += [f"{name}.image.repository={repository}", f"{name}.image.tag={tag}"]
    return chosen


def brings_definitions(kubernetes: Kubernetes) -> bool:
    """Tell whether the custom resource definitions are, or will be, those of this release."""
    return _owner_of_definitions(kubernetes) in {None, kubernetes.namespace}


def install(root: Path, kubernetes: Kubernetes, chosen: Sequence[str]) -> None:
    """Install the definitions, unless another namespace's release owns them, then the operator."""
    if brings_definitions(kubernetes):
        install_definitions(root, kubernetes)
    kubernetes.helm(
        *("install", RELEASE, str(root / "helm" / "strandline")),
        *("--create-namespace", "--wait", f"--timeout={INSTALL_SECONDS}s"),
        *(f"--set={value}" for value in chosen),
        limit_seconds=INSTALL_SECONDS + 10,
    )


def install_definitions(root: Path, kubernetes: Kubernetes) -> None:
    """Install or upgrade the chart of the definitions.

    Those that an earlier version's single chart left behind name the release of that chart; Helm
    takes over only what names the new one.
    """
    owner = f"meta.helm.sh/release-name={DEFINITIONS_RELEASE}"
    for each in (*DEFINITIONS, *POLICY, *ROLES):
        if kubernetes.kubectl("get", each, "--ignore-not-found", "-o", "name"):
            kubernetes.kubectl("annotate", "--overwrite", each, owner)
    kubernetes.helm(
        *("upgrade", "--install", DEFINITIONS_RELEASE, str(root / "helm" / "strandline-crds")),
        *("--create-namespace", f"--timeout={INSTALL_SECONDS}s"),
        limit_seconds=INSTALL_SECONDS + 10,
    )
    kubernetes.kubectl("wait", "--for=condition=Established", "--timeout=30s", *DEFINITIONS)


def apply_topic(kubernetes: Kubernetes, name: str, partitions: int = PARTITIONS) -> None:
    """Apply a topic like that of the examples."""
    kubernetes.apply(
        {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "ReplicatedTopic",
            "metadata": {"name": name},
            "spec": {"partitions": partitions, "replicationFactor": BROKERS},
        }
    )


def remove(kubernetes: Kubernetes) -> None:
    """Remove the namespace, if there is one; first the operator, which would recreate pods."""
    name = kubernetes.namespace
    if not kubernetes.kubectl("get", "namespace", name, "--ignore-not-found"):
        return
    if RELEASE in kubernetes.helm("list", "--all", "--short").split():
        kubernetes.helm("uninstall", RELEASE, "--wait", limit_seconds=REMOVE_SECONDS)
    kubernetes.kubectl("delete", "statefulsets", "--all", "--cascade=orphan")
    kubernetes.kubectl("delete", "pods", "--all", "--wait=false", f"--grace-period={GRACE_SECONDS}")
    kubernetes.kubectl("delete", "namespace", name, limit_seconds=REMOVE_SECONDS)


def remove_definitions(kubernetes: Kubernetes) -> None:
    """Remove the definitions unless another release has objects of these kinds by now."""
    if _owner_of_definitions(kubernetes) != kubernetes.namespace:
        return
    # This list also makes the API server open the storage of each kind; the deletion of a kind
    # without one may wait for a resync, 5 minutes.
    if kubernetes.kubectl("get", ",".join(KINDS), "--all-namespaces", "--no-headers"):
        return
    kubernetes.kubectl("delete", "--ignore-not-found", *DEFINITIONS, *POLICY, *ROLES)


def _owner_of_definitions(kubernetes: Kubernetes) -> str | None:
    """Return the namespace of the release that brought the definitions, None without any."""
    try:
        found = kubernetes.get("crd", "partitions.strandline.dev")
    except CommandFailed:
        return None
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    return annotations.get("meta.helm.sh/release-namespace", "")
