"""ExternalIPs of nodes on a real API server, with the permissions that the chart gives.

There is no scheduler: the tests bind pods to nodes that are mere objects, cordoned and not ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_external_process import FIRST, listen, node_port, wanted
from tests.reconcile.test_operator_process import apply_orders
from tests.support.api_server import Manifest
from tests.support.control_plane import ControlPlane

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

LISTENER = {"type": "NodePort", "nodeAddress": "ExternalIP"}


class Nodes:
    """Nodes of this test, by names that no other test uses."""

    def __init__(self, plane: ControlPlane, prefix: str) -> None:
        self._plane = plane
        self._prefix = prefix
        self._names: list[str] = []

    def add(self, letter: str, **addresses: str) -> str:
        """Create a node with addresses by their types and return its name."""
        name = f"{self._prefix}-{letter}"
        node: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
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


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str) -> Iterator[Nodes]:
    """Provide nodes that go with the test."""
    made = Nodes(control_plane, namespace)
    yield made
    made.remove()


def bind(operator: OperatorProcess, pod: str, node: str) -> None:
    """Send a pod to a node, as a scheduler does."""
    operator.wait_for("pod", lambda: operator.get("pod", pod))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    whole = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    path = f"/api/v1/namespaces/{operator.namespace}/pods/{pod}/binding"
    operator.plane.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(whole))


def wait_wanted(operator: OperatorProcess, broker: int, host: str) -> None:
    """Wait until a broker shall advertise a host, "" for its InternalIP."""
    service = f"{FIRST}-{broker}"
    port = operator.wait_for("port", lambda: node_port(operator, service))
    address = {"host": host, "port": port} if host else {"port": port}
    operator.wait_for(f"{broker} at {address}", lambda: wanted(operator, broker) == address)


def test_brokers_get_the_external_ips_of_their_nodes_and_follow_their_pods(
    operator: OperatorProcess, nodes: Nodes
) -> None:
    apply_orders(operator)
    bind(operator, "default-0", nodes.add("a", InternalIP="10.0.0.1", ExternalIP="192.0.2.1"))
    bind(operator, "default-1", nodes.add("b", InternalIP="10.0.0.2"))
    listen(operator, LISTENER)
    wait_wanted(operator, 0, "192.0.2.1")
    wait_wanted(operator, 1, "")
    # The node is new to the operator, which knows others already.
    bind(operator, "default-2", nodes.add("c", InternalIP="10.0.0.3", ExternalIP="192.0.2.3"))
    wait_wanted(operator, 2, "192.0.2.3")
    before = operator.get("pod", "default-0")
    operator.kubectl("delete", "pod", "default-0", "--force", "--grace-period=0")
    operator.wait_for("another pod", lambda: operator.get("pod", "default-0") not in (None, before))
    last = nodes.add("d", ExternalIP="192.0.2.4")
    bind(operator, "default-0", last)
    wait_wanted(operator, 0, "192.0.2.4")
    # An operator that starts reads what changed meanwhile; a running one at its next resync.
    operator.stop()
    nodes.tell(last, ExternalIP="192.0.2.5")
    operator.start()
    wait_wanted(operator, 0, "192.0.2.5")
    listen(operator, {"nodeAddress": None})
    wait_wanted(operator, 0, "")
    assert not [each for each in operator.failures() if "/brokers/" in each]


def test_without_the_right_to_list_nodes_brokers_get_their_internal_ips(
    control_plane: ControlPlane, crds: None, namespace: str, nodes: Nodes, tmp_path: Path
) -> None:
    operator = OperatorProcess(control_plane, namespace, tmp_path, "--set=operator.readNodes=false")
    operator.start()
    try:
        apply_orders(operator)
        bind(operator, "default-0", nodes.add("a", InternalIP="10.0.0.1", ExternalIP="192.0.2.1"))
        listen(operator, LISTENER)
        for broker in range(3):
            wait_wanted(operator, broker, "")
        assert not [each for each in operator.failures() if "/brokers/" in each]
    finally:
        operator.kill()
