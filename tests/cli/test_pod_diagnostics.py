"""Diagnoses of pods that do not run, from statuses that real nodes and schedulers wrote."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_cli.pod_diagnostics import diagnose, fixed_reference

PULL = (
    'failed to pull and unpack image "localhost:5001/strandline-client:0.1.0": failed to resolve '
    'reference "localhost:5001/strandline-client:0.1.0": not found'
)
NO_NODE = "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims."
DIGEST = "sha256:" + "a6" * 32


def pod(state: dict[str, Any], *, image_id: str = "") -> dict[str, Any]:
    placed = {"type": "PodScheduled", "status": "True"}
    return {
        "status": {
            "conditions": [placed, {"type": "Ready", "status": "False", "reason": "NotReady"}],
            "containerStatuses": [{"name": "ask", "imageID": image_id, "state": state}],
        }
    }


@pytest.mark.parametrize(
    "state",
    [
        {"waiting": {"reason": "ContainerCreating"}},
        {"waiting": {"reason": "PodInitializing"}},
        {"waiting": {}},
        {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        {"terminated": {"exitCode": 0, "reason": "Completed"}},
        {},
    ],
)
def test_a_pod_that_starts_runs_or_has_ended_well_needs_no_diagnosis(state: dict[str, Any]) -> None:
    assert diagnose(pod(state)) == ""


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"waiting": {"reason": "ErrImagePull", "message": PULL}}, f"ErrImagePull: {PULL}"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "ImagePullBackOff"),
        ({"terminated": {"exitCode": 255, "reason": "Error"}}, "Error: exit code 255"),
        (
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}},
            "StartError: no such file",
        ),
    ],
)
def test_a_container_that_does_not_run_is_explained_in_its_nodes_words(
    state: dict[str, Any], expected: str
) -> None:
    assert diagnose(pod(state)) == expected


def test_a_pod_without_a_node_is_explained_in_the_schedulers_words() -> None:
    assert diagnose({"status": {"phase": "Pending"}}) == ""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [{**refused, "message": NO_NODE}]}
    assert diagnose({"status": status}) == f"Unschedulable: {NO_NODE}"


@pytest.mark.parametrize(
    ("image_id", "reference"),
    [
        (
            f"localhost:5001/strandline-broker@{DIGEST}",
            f"localhost:5001/strandline-broker@{DIGEST}",
        ),
        (
            f"docker-pullable://localhost:5001/strandline-broker@{DIGEST}",
            f"localhost:5001/strandline-broker@{DIGEST}",
        ),
        ("", "localhost:5001/strandline-broker:0.1.0"),
    ],
)
def test_a_tag_that_may_move_is_fixed_to_what_the_node_pulled(
    image_id: str, reference: str
) -> None:
    ended = pod({"terminated": {"exitCode": 0}}, image_id=image_id)
    assert fixed_reference("localhost:5001/strandline-broker:0.1.0", ended) == reference
