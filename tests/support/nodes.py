"""Nodes without machines, and pods that are sent to them as a scheduler does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .control_plane import ControlPlane
from .object_reader import Manifest

if TYPE_CHECKING:
    from tests.reconcile.conftest import OperatorProcess


class Nodes:
    """Nodes of one test, by names that no other test uses."""

    def __init__(self, plane: ControlPlane, prefix: str) -> None:
        self._plane = plane
        self._prefix = prefix
        self._names: list[str] = []

    def add(self, letter: str, *, labels: dict[str, str] | None = None, **addresses: str) -> str:
        """Create a node with labels, and addresses by their types, and return its name."""
        name = f"{self._prefix}-{letter}"
        metadata = {"name": name, "labels": labels or {}}
        node: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        self._plane.apply({**node, "spec": {"unschedulable": True}})
        self._names.append(name)
        self.tell(name, **addresses)
        return name

    def tell(self, name: str, **addresses: str) -> None:
        """Replace the addresses of a node."""
        listed = [{"type": kind, "address": address} for kind, address in addresses.items()]
        patch = json.dumps({"status": {"addresses": listed}})
        self._plane.kubectl(
            *("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
        )

    def remove(self) -> None:
        """Delete all nodes that were added."""
        if self._names:
            self._plane.kubectl("delete", "node", *self._names)


def bind(operator: OperatorProcess, pod: str, node: str) -> None:
    """Send a pod to a node."""
    operator.wait_for("pod", lambda: operator.get("pod", pod))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    whole = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    path = f"/api/v1/namespaces/{operator.namespace}/pods/{pod}/binding"
    operator.plane.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(whole))
