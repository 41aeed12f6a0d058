"""What the demo looks at in a cluster: a real API server, whose nodes are objects alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline_cli import preflight
from strandline_cli.commands import RunFailed
from strandline_cli.kubectl import Kubernetes
from tests.support.cluster import RESTRICTED
from tests.support.commands import CommandError, programs
from tests.support.control_plane import ControlPlane

NAMESPACE = "strandline-demo"
STRANGER = "stranger"
HERE = preflight.ARCHITECTURES[
    subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Provide an API server of this file's own: other tests shall not see its nodes."""
    plane = ControlPlane.start(tmp_path_factory.mktemp("users-cluster") / "state")
    yield plane
    plane.stop()


@pytest.fixture
def users(plane: ControlPlane) -> Iterator[Kubernetes]:
    """Provide the cluster as its administrator sees it; what a test puts there goes again."""
    yield Kubernetes(plane.kubeconfig, NAMESPACE, programs())
    plane.kubectl("delete", "nodes,storageclasses", "--all")


def put_node(plane: ControlPlane, name: str, architecture: str = HERE) -> None:
    plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"architecture": architecture},
    }
    patch = json.dumps({"status": status})
    plane.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)


def put_class(plane: ControlPlane, name: str, *, default: bool) -> None:
    annotations = {preflight.DEFAULT_CLASS: "true"} if default else {}
    plane.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": "example.org/disks",
        }
    )


@pytest.mark.processes
def test_context_and_server_are_shown_and_a_cluster_that_has_all_is_taken(
    plane: ControlPlane, users: Kubernetes
) -> None:
    put_class(plane, "fast", default=True)
    for number in range(3):
        put_node(plane, f"node-{number}")
    said: list[str] = []
    preflight.check(users, said.append, builds_here=True)
    config = json.loads(plane.kubectl("config", "view", "-o", "json"))
    server = config["clusters"][0]["cluster"]["server"]
    context = config["current-context"]
    assert said == [f"  context {context}, server {server}, namespace {NAMESPACE}"]


@pytest.mark.processes
def test_one_message_names_all_that_is_missing(plane: ControlPlane, users: Kubernetes) -> None:
    put_class(plane, "slow", default=False)
    with pytest.raises(RunFailed) as refused:
        preflight.check(users, print, builds_here=True)
    lines = str(refused.value).splitlines()
    assert "nothing was changed" in lines[0]
    assert lines[1:] == [
        "  - no StorageClass is the default (there are: slow): brokers would get no volume",
        "  - no node is ready and takes pods",
    ]


@pytest.mark.processes
def test_nodes_of_another_architecture_cannot_run_images_made_here(
    plane: ControlPlane, users: Kubernetes
) -> None:
    put_class(plane, "fast", default=True)
    put_node(plane, "node-0")
    put_node(plane, "node-1", "riscv64")
    with pytest.raises(RunFailed, match=f"architecture riscv64, and the images .* are {HERE}"):
        preflight.check(users, print, builds_here=True)
    said: list[str] = []
    preflight.check(users, said.append, builds_here=False)
    assert "2 of 3 nodes" in said[-1]


@pytest.mark.processes
def test_a_cordoned_node_does_not_count(plane: ControlPlane, users: Kubernetes) -> None:
    put_class(plane, "fast", default=True)
    put_node(plane, "node-0")
    plane.kubectl("cordon", "node-0")
    with pytest.raises(RunFailed, match="no node is ready and takes pods"):
        preflight.check(users, print, builds_here=False)


@pytest.mark.processes
def test_what_a_user_may_not_do_is_named(plane: ControlPlane, users: Kubernetes) -> None:
    put_class(plane, "fast", default=True)
    put_node(plane, "node-0")
    plane.kubectl("create", "serviceaccount", STRANGER, "-n", "default")
    plane.kubectl(
        *("create", "clusterrole", STRANGER, "--verb=get,list"),
        "--resource=nodes,storageclasses.storage.k8s.io",
    )
    plane.kubectl(
        *("create", "clusterrolebinding", STRANGER, f"--clusterrole={STRANGER}"),
        f"--serviceaccount=default:{STRANGER}",
    )
    config = plane.service_account_kubeconfig("default", STRANGER)
    with pytest.raises(RunFailed) as refused:
        preflight.check(Kubernetes(config, NAMESPACE, programs()), print, builds_here=False)
    for verb, resource, _ in preflight.NEEDED:
        assert f"you may not {verb} {resource}" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1 + len(preflight.NEEDED)


@pytest.mark.processes
def test_a_namespace_that_no_demo_made_is_not_touched(
    plane: ControlPlane, users: Kubernetes
) -> None:
    preflight.check_namespace(users)
    plane.kubectl("create", "namespace", NAMESPACE)
    with pytest.raises(RunFailed, match=f"lacks the label {preflight.OURS}"):
        preflight.check_namespace(users)
    preflight.make_namespace(users)
    preflight.check_namespace(users)


@pytest.mark.processes
def test_the_namespace_of_the_demo_takes_restricted_pods_alone(
    plane: ControlPlane, users: Kubernetes
) -> None:
    preflight.make_namespace(users)
    plane.kubectl("create", "serviceaccount", "theirs", "-n", NAMESPACE)
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs", "namespace": NAMESPACE},
        "spec": {
            "serviceAccountName": "theirs",
            "containers": [{"name": "theirs", "image": "x", "securityContext": {}}],
        },
    }
    with pytest.raises(CommandError, match='violates PodSecurity "restricted'):
        plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    pod["spec"]["containers"][0]["securityContext"] = RESTRICTED
    plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


@pytest.mark.parametrize(("answer", "goes_on"), [("y", True), ("Yes", True), ("", False)])
def test_a_person_is_asked(answer: str, goes_on: bool) -> None:
    kubernetes = Kubernetes(Path("/nowhere"), NAMESPACE)
    if goes_on:
        preflight.agree(kubernetes, agreed=False, ask=lambda _: answer)
        return
    with pytest.raises(RunFailed, match="nothing was changed"):
        preflight.agree(kubernetes, agreed=False, ask=lambda _: answer)


def test_without_a_person_the_agreement_is_a_setting() -> None:
    kubernetes = Kubernetes(Path("/nowhere"), NAMESPACE)
    preflight.agree(kubernetes, agreed=True)
    with pytest.raises(RunFailed, match="YES=1"):
        preflight.agree(kubernetes, agreed=False)
