"""The chart's Deployment on a real API server: when the last operator ends; tests are kubelets."""

from __future__ import annotations

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_pods_process import patch_status
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

DEPLOYMENT = "strandline-operator"
PULL = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
CONTAINER = {"name": "operator", "image": "x", "imageID": "", "ready": False, "restartCount": 0}


def operators(operator: OperatorProcess) -> dict[str, str]:
    """Return the images of the operator's pods that nobody deletes, by name."""
    found = [
        each
        for each in operator.list("pods")
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "operator"
        and "deletionTimestamp" not in each["metadata"]
    ]
    return {each["metadata"]["name"]: each["spec"]["containers"][0]["image"] for each in found}


def upgrade(operator: OperatorProcess, tag: str) -> int:
    """Apply the chart with another image of the operator; return the Deployment's generation."""
    operator.upgrade(f"--set=operator.image.tag={tag}")
    operator.apply_deployment()
    return int(deployment(operator)["metadata"]["generation"])


def deployment(operator: OperatorProcess) -> Manifest:
    return operator.get("deployment", DEPLOYMENT) or {}


def make_ready(operator: OperatorProcess, pod: str) -> None:
    held = [{"type": "Ready", "status": "True"}]
    patch_status(operator, "pod", pod, {"phase": "Running", "conditions": held})


def wait_settled(operator: OperatorProcess, generation: int, **counts: int) -> None:
    """Wait until Kubernetes has done all that it does for a Deployment while no pod changes."""

    def is_settled() -> bool:
        status = deployment(operator)["status"]
        shown = {field: status.get(field, 0) for field in counts}
        return status["observedGeneration"] == generation and shown == counts

    operator.wait_for(f"{counts} of generation {generation}", is_settled)


def test_an_upgrade_leaves_the_last_operator_at_work_until_the_next_one_is_ready(
    operator: OperatorProcess,
) -> None:
    generation = upgrade(operator, "v1")
    wait_settled(operator, generation, replicas=1, unavailableReplicas=1)
    ((first, image),) = operators(operator).items()
    assert image.endswith(":v1")
    make_ready(operator, first)
    wait_settled(operator, generation, replicas=1, availableReplicas=1)

    generation = upgrade(operator, "v2")
    both = {"replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}
    wait_settled(operator, generation, **both)
    (stuck,) = set(operators(operator)) - {first}
    patch_status(
        operator,
        "pod",
        stuck,
        {"containerStatuses": [{**CONTAINER, "state": {"waiting": PULL}}]},
    )
    wait_settled(operator, generation, **both)
    assert set(operators(operator)) == {first, stuck}, "the last one works, whatever the next does"

    generation = upgrade(operator, "v3")
    operator.wait_for(
        "the third image",
        lambda: any(each.endswith(":v3") for each in operators(operator).values()),
    )
    (third,) = {name for name, image in operators(operator).items() if image.endswith(":v3")}
    assert first in operators(operator)
    make_ready(operator, third)
    operator.wait_for("the third alone", lambda: set(operators(operator)) == {third})
