"""Evictions as `kubectl drain` asks for them, and the order in which pods left."""

from __future__ import annotations

import json
from collections.abc import Iterable

from strandline_cli.kubectl import Kubernetes
from strandline_cli.kubectl_watch import TimedWatchEvent

REFUSED = "would violate the pod's disruption budget"
"""What the API server says when a budget allows no eviction now."""


def evict(kubernetes: Kubernetes, pod: str) -> None:
    """Evict a pod; CommandFailed with the API server's sentence if it refuses."""
    where = {"name": pod, "namespace": kubernetes.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where}
    path = f"/api/v1/namespaces/{kubernetes.namespace}/pods/{pod}/eviction"
    kubernetes.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def taken_in_turns(events: Iterable[TimedWatchEvent], prefix: str) -> list[str]:
    """Return the pods of this prefix in the order in which they left.

    A pod that left is away until another one of its name is ready.

    Raises:  AssertionError if one left while another was away
    """
    order: list[str] = []
    away: set[str] = set()
    left: set[str] = set()
    for each in events:
        if not each.name.startswith(prefix) or each.uid in left:
            continue
        if each.deleting or each.event == "DELETED":
            assert away <= {each.name}, f"{each.name} left while {sorted(away)} was away: {order}"
            left.add(each.uid)
            away.add(each.name)
            order.append(each.name)
        elif each.ready:
            away.discard(each.name)
    return order
