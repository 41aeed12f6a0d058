"""Settings of brokers' pods on a real API server: what the CRD takes, a StatefulSet takes too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.pod_cases import POD_SPEC
from tests.reconcile.conftest import OperatorProcess
from tests.support.commands import REPOSITORY
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


def apply(operator: OperatorProcess, name: str, **spec: Any) -> None:
    whole = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": name},
        "spec": spec,
    }
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(whole))


def pod_of(operator: OperatorProcess, name: str) -> Manifest:
    """Return the pod template of a cluster's StatefulSet, {} if there is none."""
    found = operator.get("statefulset", name) or {}
    template: Manifest = found.get("spec", {}).get("template", {})
    return template


def spread_of(operator: OperatorProcess, name: str) -> tuple[str, str]:
    """Return how a cluster's brokers are spread, and why; empty texts if nothing is told yet."""
    shown = (operator.get("bc", name) or {}).get("status", {}).get("spread", {})
    return shown.get("nodes", ""), shown.get("reason", "")


def test_every_setting_of_pods_reaches_the_stateful_set_and_may_be_changed(
    operator: OperatorProcess,
) -> None:
    apply(operator, "c", **POD_SPEC)
    template = operator.wait_for("StatefulSet", lambda: pod_of(operator, "c"))
    given = POD_SPEC["pod"]
    for field in given.keys() - {"labels", "annotations"}:
        assert template["spec"][field] == given[field]
    for field in ("labels", "annotations"):
        assert template["metadata"][field].items() >= given[field].items()
    whole = yaml.safe_load((REPOSITORY / "examples" / "placed-cluster.yaml").read_text())["spec"]
    apply(operator, "c", **{field: whole[field] for field in ("spread", "resources", "pod")})
    operator.wait_for(
        "the other settings",
        lambda: pod_of(operator, "c")["metadata"]["labels"].get("team") == "streaming",
    )
    template = pod_of(operator, "c")
    assert "any" not in template["metadata"]["labels"]
    assert template["spec"]["containers"][0]["resources"] == whole["resources"]
    (term,) = template["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["labelSelector"]["matchLabels"]["strandline.dev/cluster"] == "c"
    apply(operator, "c")
    operator.wait_for(
        "no settings", lambda: "team" not in pod_of(operator, "c")["metadata"]["labels"]
    )
    assert pod_of(operator, "c")["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"}
    }
    assert operator.failures() == []


def test_resources_in_another_form_are_no_change(operator: OperatorProcess) -> None:
    given = {"requests": {"cpu": "0.25", "memory": "1000k"}, "limits": {"memory": "2048Mi"}}
    apply(operator, "c", resources=given)
    template = operator.wait_for("StatefulSet", lambda: pod_of(operator, "c"))
    assert template["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "250m", "memory": "1M"},
        "limits": {"memory": "2Gi"},
    }
    operator.kubectl("annotate", "bc", "c", "a=b")
    operator.kubectl("delete", "pdb", "c-brokers")
    operator.wait_for("a later pass", lambda: operator.get("pdb", "c-brokers"))
    applied = [each for each in operator.actions() if each.startswith("apply StatefulSet")]
    assert applied == ["apply StatefulSet c: it is missing"]


def test_the_example_is_taken(operator: OperatorProcess) -> None:
    operator.kubectl("apply", "-f", str(REPOSITORY / "examples" / "placed-cluster.yaml"))
    operator.wait_for("StatefulSet", lambda: pod_of(operator, "placed"))
    operator.wait_for("spread", lambda: spread_of(operator, "placed") == ("Required", "Specified"))


@pytest.fixture
def three_nodes(control_plane: ControlPlane) -> Iterator[None]:
    """Provide three nodes that are ready and one that is cordoned; nothing runs on them."""
    names = [f"spread-{n}" for n in range(4)]
    for name in names:
        control_plane.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "spec": {"unschedulable": name == names[-1]},
            }
        )
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        control_plane.kubectl(
            *("patch", "node", name, "--subresource=status", "-p", json.dumps({"status": ready}))
        )

    def tainted() -> list[str]:
        """Return the nodes that bear the mark of a new node, which the controllers take away."""
        nodes = control_plane.get("nodes", *names)["items"]
        return [
            node["metadata"]["name"]
            for node in nodes
            if any("not-ready" in taint["key"] for taint in node["spec"].get("taints") or [])
        ]

    eventually(lambda: not tainted(), 20_000, "nodes without the mark of new ones")
    yield
    control_plane.kubectl("delete", "node", *names)


def test_brokers_share_no_node_where_there_are_enough(
    operator: OperatorProcess, three_nodes: None
) -> None:
    apply(operator, "c", replicas=3)
    operator.wait_for("spread", lambda: spread_of(operator, "c") == ("Required", "EnoughNodes"))
    assert "podAntiAffinity" in pod_of(operator, "c")["spec"]["affinity"]
    apply(operator, "d", replicas=4)
    operator.wait_for("spread", lambda: spread_of(operator, "d") == ("Preferred", "TooFewNodes"))
    assert "affinity" not in pod_of(operator, "d")["spec"]
    told = operator.wait_for(
        "Event", lambda: [e for e in operator.list("events") if e["reason"] == "TooFewNodes"]
    )
    assert "3 nodes could take the cluster's 4 brokers" in told[0]["message"]


def test_without_the_right_to_list_nodes_brokers_may_share_them(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> None:
    operator = OperatorProcess(control_plane, namespace, tmp_path, "--set=operator.readNodes=false")
    operator.start()
    try:
        apply(operator, "c")
        shown = ("Preferred", "NodesNotCounted")
        operator.wait_for("spread", lambda: spread_of(operator, "c") == shown)
    finally:
        operator.kill()
