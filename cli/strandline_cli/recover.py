"""Lets a lost partition go on without brokers that do not come back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from strandline.errors import ConfigError

from .kubectl import Kubernetes

STATE_LOST = "StateLost"


def recover(kubernetes: Kubernetes, partition: str, without: Sequence[int]) -> str:
    """Tell the controller which brokers a lost partition shall not wait for.

    Returns: what to expect, in a sentence
    Raises:  ConfigError if the partition is not lost, a broker unknown, or no replica would be left
    """
    found = kubernetes.get("partition", partition)
    replicas, status = found["spec"]["replicas"], found.get("status", {})
    waits = not status and found["spec"].get("recover", False)
    if status.get("reason") != STATE_LOST and not waits:
        why = status.get("reason") or f"broker {status.get('leader', -1)} leads it"
        raise ConfigError(f"partition {partition} is not {STATE_LOST} ({why}): nothing changed")
    # A partition that moved may have logs on brokers that its spec does not name.
    brokers = {each["spec"]["brokerId"] for each in kubernetes.get("brokers")["items"]}
    known = sorted(brokers.union(replicas))
    if not set(without) <= set(known) or set(replicas) <= set(without):
        raise ConfigError(
            f"--without must name some of the brokers {known}, "
            f"and not all of the replicas {replicas}: nothing changed"
        )
    patch = {"spec": {"rebuildWithout": sorted(without)}}
    kubernetes.kubectl("patch", "partition", partition, "--type=merge", f"-p={json.dumps(patch)}")
    return (
        f"{partition} is rebuilt from the others once all of them are in session; "
        f"records that only brokers {sorted(without)} had are lost"
    )


def kubeconfig_of(text: str | None, environment: dict[str, str]) -> Path:
    """Return the kubeconfig file that kubectl would take."""
    named = text or environment.get("KUBECONFIG", "").split(":")[0]
    return Path(named) if named else Path.home() / ".kube" / "config"
