"""The ConfigMaps of a cluster's brokers: immutable, and there as long as a pod may name them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline_operator.operator_config import CONFIG_MAPS_KEPT
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders, config_maps, settle
from tests.support.commands import CommandError

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


def test_a_configuration_has_an_immutable_config_map_that_stays_while_a_pod_may_name_it(
    operator: OperatorProcess,
) -> None:
    apply_orders(operator)
    settle(operator)
    (current,) = config_maps(operator)
    with pytest.raises(CommandError, match="immutable"):
        operator.kubectl(
            "patch", "configmap", current, "--type=merge", "-p", '{"data":{"broker.yaml":""}}'
        )
    labels = (operator.get("configmap", current) or {})["metadata"]["labels"]
    # As an operator that knew one ConfigMap left it, and revisions that a pod and a template name.
    former = ["default-config", *(f"default-config-{n:02}" for n in range(CONFIG_MAPS_KEPT + 3))]
    template = {"metadata": {"labels": labels}, "spec": pod_of(former[0])}
    revision = {"data": {"spec": {"template": template}}, "revision": 1}
    pod = {"spec": pod_of(former[1])}
    manifests = [
        named("apps/v1", "ControllerRevision", "former", labels, revision),
        named("v1", "Pod", "former", labels, pod),
        *(
            named("v1", "ConfigMap", name, labels, {"data": {"broker.yaml": name}})
            for name in former
        ),
    ]
    for manifest in manifests:
        operator.kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    def removed() -> bool:
        return len(config_maps(operator)) <= CONFIG_MAPS_KEPT + 3

    operator.wait_for("former ConfigMaps gone", removed)
    settle(operator)
    left = config_maps(operator)
    assert {current, *former[:2]} <= left
    assert len(left) == 1 + CONFIG_MAPS_KEPT + 2
    kept = operator.get("configmap", former[0]) or {}
    assert kept["data"] == {"broker.yaml": former[0]}


def pod_of(config_map: str) -> dict[str, Any]:
    """Return the spec of a pod that mounts a ConfigMap, and that no node takes."""
    volume = {"name": "config", "configMap": {"name": config_map}}
    return {
        "containers": [{"name": "broker", "image": "none"}],
        "nodeSelector": {"no": "node"},
        "volumes": [volume],
    }


def named(
    version: str, kind: str, name: str, labels: dict[str, str], parts: dict[str, Any]
) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
