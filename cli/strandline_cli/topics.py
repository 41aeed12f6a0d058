"""Topics as users make them: objects of Kubernetes."""

from __future__ import annotations

from .kubectl import Kubernetes

BROKERS = 3
"""Brokers of the cluster that the operator makes for a topic that names none."""
PARTITIONS = 6
READY_SECONDS = 240


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


def wait_ready(kubernetes: Kubernetes, found: str, limit_seconds: int = READY_SECONDS) -> None:
    """Wait until an object, given as kind/name, says that it is Ready; else CommandFailed."""
    kubernetes.kubectl(
        *("wait", found, "--for=condition=Ready", f"--timeout={limit_seconds}s"),
        limit_seconds=limit_seconds + 10,
    )
