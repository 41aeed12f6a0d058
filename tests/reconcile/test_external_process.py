"""The external listener on a real API server, with the permissions that the chart gives.

Nothing gives out load balancers there: the tests write the status of their Services.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

FIRST = "default-external"


def listen(operator: OperatorProcess, listener: Manifest | None) -> None:
    patch = json.dumps({"spec": {"externalListener": listener}})
    operator.kubectl("patch", "brokercluster", "default", "--type=merge", "-p", patch)


def node_port(operator: OperatorProcess, name: str) -> int:
    """Return the port of all nodes that leads to a Service, 0 without one."""
    found = operator.get("service", name) or {"spec": {}}
    return int(found["spec"].get("ports", [{}])[0].get("nodePort", 0))


def wanted(operator: OperatorProcess, broker: int) -> Any:
    """Return what a broker shall advertise."""
    found = operator.get("brokers.strandline.dev", f"default-{broker}") or {"spec": {}}
    return found["spec"].get("external")


def condition(operator: OperatorProcess, kind: str) -> Manifest:
    """Return a condition of the cluster, {} without it."""
    status = (operator.get("brokercluster", "default") or {}).get("status", {})
    found = [each for each in status.get("conditions", []) if each["type"] == kind]
    return dict(found[0]) if found else {}


def test_node_ports_are_given_and_told_and_go_with_the_listener(operator: OperatorProcess) -> None:
    apply_orders(operator)
    pods = operator.get("statefulset", "default")
    listen(operator, {"type": "NodePort"})
    for broker in range(3):
        port = operator.wait_for("port", lambda: node_port(operator, f"{FIRST}-{broker}"))  # noqa: B023
        operator.wait_for("address", lambda: wanted(operator, broker) == {"port": port})  # noqa: B023
    operator.wait_for(
        "what is waited for",
        lambda: condition(operator, "ExternalListener").get("reason") == "WaitingForBrokers",
    )
    after = operator.get("statefulset", "default")
    assert pods is not None
    assert after is not None
    assert after["spec"] == pods["spec"], "no pod starts again for a listener"
    listen(operator, None)
    operator.wait_for("no Service", lambda: operator.get("service", FIRST) is None)
    operator.wait_for("no Service", lambda: operator.get("service", f"{FIRST}-2") is None)
    operator.wait_for("no address", lambda: wanted(operator, 2) is None)
    operator.wait_for("no condition", lambda: not condition(operator, "ExternalListener"))


def test_two_brokers_swap_their_ports(operator: OperatorProcess) -> None:
    apply_orders(operator)
    # Kubernetes gives these to nobody who does not ask for them.
    give_ports(operator, [30_021, 30_022, 30_023])
    give_ports(operator, [30_022, 30_021, 30_023])
    operator.wait_for(
        "all applied", lambda: condition(operator, "Reconciled").get("status") == "True"
    )


def give_ports(operator: OperatorProcess, ports: list[int]) -> None:
    """Choose the port of each broker, and wait until its Service has it."""
    brokers = [{"broker": number, "nodePort": port} for number, port in enumerate(ports)]
    listen(operator, {"type": "NodePort", "brokers": brokers})
    names = [f"{FIRST}-{number}" for number in range(len(ports))]
    operator.wait_for("ports", lambda: [node_port(operator, name) for name in names] == ports)


def test_a_load_balancers_address_reaches_the_broker_object(operator: OperatorProcess) -> None:
    apply_orders(operator)
    listen(operator, {"type": "LoadBalancer"})
    operator.wait_for("Service", lambda: operator.get("service", f"{FIRST}-1"))
    operator.wait_for(
        "what is waited for",
        lambda: f"{FIRST}-1" in condition(operator, "ExternalListener").get("message", ""),
    )
    assert wanted(operator, 1) is None
    status = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    for name in (FIRST, f"{FIRST}-1"):
        operator.kubectl(
            "patch", "service", name, "--subresource=status", "--type=merge", "-p", status
        )
    address = {"host": "192.0.2.1", "port": 9094}
    operator.wait_for("address", lambda: wanted(operator, 1) == address)
    operator.wait_for("first contact", lambda: servers(operator) == ["192.0.2.1:9094"])
    assert wanted(operator, 2) is None


def servers(operator: OperatorProcess) -> list[str]:
    status = (operator.get("brokercluster", "default") or {}).get("status", {})
    return list(status.get("externalListener", {}).get("bootstrapServers", []))


def test_a_node_port_that_is_taken_is_told(operator: OperatorProcess) -> None:
    apply_orders(operator)
    listen(operator, {"type": "NodePort", "brokers": [{"broker": 0, "nodePort": 80}]})

    def refusal() -> str:
        return str(condition(operator, "Reconciled").get("message", ""))

    operator.wait_for("a refusal", lambda: f"Service {FIRST}-0" in refusal())
    assert "80" in refusal()
    assert operator.get("statefulset", "default") is not None
    listen(operator, {"brokers": None})
    operator.wait_for("a port", lambda: node_port(operator, f"{FIRST}-0"))
    operator.wait_for(
        "all applied", lambda: condition(operator, "Reconciled").get("status") == "True"
    )
