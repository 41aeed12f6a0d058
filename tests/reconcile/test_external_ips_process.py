"""ExternalIPs of nodes on a real API server, with the permissions that the chart gives.

There is no scheduler: the tests bind pods to nodes that are mere objects, cordoned and not ready.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_external_process import FIRST, listen, node_port, wanted
from tests.reconcile.test_operator_process import apply_orders
from tests.support.control_plane import ControlPlane
from tests.support.nodes import Nodes, bind

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

LISTENER = {"type": "NodePort", "nodeAddress": "ExternalIP"}


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
    # An operator that starts reads what changed meanwhile, and a running one what changes.
    operator.stop()
    nodes.tell(last, ExternalIP="192.0.2.5")
    operator.start()
    wait_wanted(operator, 0, "192.0.2.5")
    nodes.tell(last, ExternalIP="192.0.2.6")
    wait_wanted(operator, 0, "192.0.2.6")
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
