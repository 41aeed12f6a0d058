"""Racks of brokers on a real API server: nodes of three zones, and pods that come to them.

There is no scheduler: the tests bind pods to nodes that are mere objects, cordoned and not ready.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.support.commands import REPOSITORY
from tests.support.control_plane import ControlPlane
from tests.support.nodes import Nodes, bind

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

KEY = "topology.kubernetes.io/zone"
ZONES = ["a", "a", "b", "b", "c", "c"]
WITH_RACKS = (
    f"--set-string=defaultCluster.spec.rack.topologyKey={KEY}",
    f"--set=defaultCluster.spec.replicas={len(ZONES)}",
)


def conditions(operator: OperatorProcess, kind: str, name: str) -> dict[str, str]:
    """Return status and reason of each condition of an object."""
    found = (operator.get(kind, name) or {}).get("status", {}).get("conditions", [])
    return {each["type"]: f"{each['status']} {each['reason']}" for each in found}


def racks(operator: OperatorProcess) -> list[str]:
    """Return what the column of racks shows, in the order of the brokers."""
    lines = operator.kubectl("get", "brokers").splitlines()
    at = lines[0].index("RACK")
    return [line[at:].split()[0] for line in lines[1:]]


def apply_orders(operator: OperatorProcess) -> None:
    operator.kubectl("apply", "-f", str(REPOSITORY / "examples" / "orders.yaml"))


def zone(nodes: Nodes, letter: str, of: str) -> str:
    return nodes.add(letter, labels={KEY: of})


def test_the_first_topic_has_its_replicas_in_three_zones_and_pods_may_move(
    control_plane: ControlPlane, crds: None, namespace: str, nodes: Nodes, tmp_path: Path
) -> None:
    operator = OperatorProcess(control_plane, namespace, tmp_path, *WITH_RACKS)
    operator.start()
    try:
        apply_orders(operator)
        waiting = "False WaitingForRacks"
        operator.wait_for(
            "racks", lambda: conditions(operator, "rtopic", "orders").get("Ready") == waiting
        )
        for number, of in enumerate(ZONES):
            bind(operator, f"default-{number}", zone(nodes, f"n{number}", of))
        partitions = operator.wait_for(
            "Partitions", lambda: len(found := operator.list("partitions")) == 6 and found
        )
        for each in partitions:
            assert {ZONES[one] for one in each["spec"]["replicas"]} == {"a", "b", "c"}
        operator.wait_for("racks", lambda: racks(operator) == ZONES)
        known = "True AllRacksKnown"
        operator.wait_for(
            "condition", lambda: conditions(operator, "bc", "default").get("RacksKnown") == known
        )

        before: Any = operator.get("statefulset", "default")
        pod = operator.get("pod", "default-0")
        operator.kubectl("delete", "pod", "default-0", "--force", "--grace-period=0")
        operator.wait_for(
            "another pod", lambda: operator.get("pod", "default-0") not in (None, pod)
        )
        other = zone(nodes, "other", "d")
        bind(operator, "default-0", other)
        operator.wait_for("another rack", lambda: racks(operator) == ["d", *ZONES[1:]])
        # No watch shows nodes, and the next resync is minutes away.
        operator.kubectl("label", "node", other, f"{KEY}=e", "--overwrite")
        operator.wait_for("another label", lambda: racks(operator) == ["e", *ZONES[1:]])
        after: Any = operator.get("statefulset", "default")
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert operator.failures() == []
    finally:
        operator.kill()


def test_without_the_right_to_list_nodes_there_are_no_racks_and_that_is_told(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> None:
    readable = "--set=operator.readNodes=false"
    operator = OperatorProcess(control_plane, namespace, tmp_path, *WITH_RACKS, readable)
    operator.start()
    try:
        apply_orders(operator)
        operator.wait_for("Partitions", lambda: len(operator.list("partitions")) == 6)
        unknown = "False NodesNotListed"
        operator.wait_for(
            "condition", lambda: conditions(operator, "bc", "default").get("RacksKnown") == unknown
        )
        told = operator.wait_for(
            "Event", lambda: [e for e in operator.list("events") if e["reason"] == "NodesNotListed"]
        )
        assert len(told) == 1
        assert told[0].get("count", 1) == 1
    finally:
        operator.kill()
