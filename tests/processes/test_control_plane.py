"""The tests' control plane is a real one, can be stopped and frozen, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import CommandError, kubectl
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name

pytestmark = pytest.mark.processes


def config_map(namespace: str, name: str, **labels: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": {"kept": "yes"},
    }


def test_objects_outlive_a_stop_of_the_api_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map(namespace, "before"))
    control_plane.stop_api()
    try:
        with pytest.raises(CommandError, match="refused"):
            control_plane.kubectl("get", "configmap", "before", "-n", namespace)
    finally:
        control_plane.start_api()
    assert control_plane.get("configmap", "before", "-n", namespace)["data"] == {"kept": "yes"}


def test_the_controller_manager_begins_anew_after_an_outage_of_the_api_server(
    control_plane: ControlPlane,
) -> None:
    """One that saw the outage would act after up to a minute, and so fail the tests behind it."""
    pid_file = control_plane.folder / "kube-controller-manager.pid"
    before = pid_file.read_text()
    control_plane.start_api()
    assert pid_file.read_text() == before
    control_plane.stop_api()
    control_plane.start_api()
    assert pid_file.read_text() != before
    name = namespace_name("late")
    control_plane.kubectl("create", "namespace", name)
    eventually(
        lambda: control_plane.get("serviceaccount", "default", "-n", name),
        within_ms=20_000,
        what="a service account",
        retry_on=(CommandError,),
    )
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def test_a_frozen_api_server_accepts_connections_and_answers_nothing(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.freeze_api()
    try:
        with pytest.raises(CommandError, match=r"Timeout exceeded|context deadline exceeded"):
            control_plane.kubectl("get", "namespace", namespace, "--request-timeout=1s")
    finally:
        control_plane.thaw_api()
    assert namespace in control_plane.kubectl("get", "namespace", namespace)


@pytest.mark.parametrize(
    "asked",
    [
        ("configmap", "here"),
        ("configmap/here",),
        ("cm", "here", "there"),
        ("configmaps",),
        ("configmaps,serviceaccounts,lease",),
        ("configmaps", "-l", "of=mine"),
        ("roles.rbac.authorization.k8s.io",),
    ],
    ids=" ".join,
)
def test_reads_over_a_kept_connection_find_what_kubectl_finds(
    control_plane: ControlPlane, namespace: str, asked: tuple[str, ...]
) -> None:
    control_plane.apply(config_map(namespace, "here", of="mine"))
    control_plane.apply(config_map(namespace, "there", of="another"))
    printed = json.loads(control_plane.kubectl("get", *asked, "-n", namespace, "-o", "json"))
    found = control_plane.get(*asked, "-n", namespace)
    assert found["kind"] == printed["kind"]
    assert [without_managers(each) for each in found.get("items", [found])] == printed.get(
        "items", [printed]
    )


def without_managers(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object as kubectl prints it by default."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return {**found, "metadata": metadata}


def test_a_read_over_a_kept_connection_tells_what_went_wrong_and_outlives_the_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map(namespace, "kept"))
    before = control_plane.get("configmap", "kept", "-n", namespace)
    with pytest.raises(CommandError, match=r'NotFound.*configmaps "another" not found'):
        control_plane.get("configmap", "another", "-n", namespace)
    with pytest.raises(CommandError, match="no such resource type"):
        control_plane.get("nonsense")
    control_plane.kill_api()
    try:
        with pytest.raises(CommandError, match=r"refused|aborted"):
            control_plane.get("configmap", "kept", "-n", namespace)
    finally:
        control_plane.start_api()
    assert control_plane.get("configmap", "kept", "-n", namespace) == before


def test_a_service_account_may_do_what_its_role_says_and_nothing_else(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map(namespace, "listed"))
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "reader")
    with pytest.raises(CommandError, match="forbidden"):
        kubectl(kubeconfig, "get", "configmaps")
    role = ("role", "reader", "-n", namespace, "--verb=list", "--resource=configmaps")
    control_plane.kubectl("create", *role)
    account = f"--serviceaccount={namespace}:reader"
    control_plane.kubectl(
        "create", "rolebinding", "reader", "-n", namespace, "--role=reader", account
    )
    eventually(
        lambda: "configmap/listed" in kubectl(kubeconfig, "get", "configmaps", "-o", "name"),
        within_ms=60_000,
        what="the role's permission",
        retry_on=(CommandError,),
    )
    with pytest.raises(CommandError, match="forbidden"):
        kubectl(kubeconfig, "get", "secrets")


def test_the_audit_log_names_user_verb_and_object_of_a_request(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map(namespace, "audited"))

    def verbs() -> set[str]:
        lines = control_plane.audit_log.read_text().splitlines()
        events = [json.loads(line) for line in lines if f'"{namespace}"' in line]
        return {
            event["verb"]
            for event in events
            if event["user"]["username"] == "admin" and event["objectRef"].get("name") == "audited"
        }

    eventually(lambda: "patch" in verbs() or "create" in verbs(), 60_000, "the audit line")


def test_the_garbage_collector_deletes_what_a_deleted_owner_leaves(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(config_map(namespace, "owner"))
    uid = control_plane.get("configmap", "owner", "-n", namespace)["metadata"]["uid"]
    owned = config_map(namespace, "owned")
    owned["metadata"] = {
        "name": "owned",
        "namespace": namespace,
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid},
        ],
    }
    control_plane.apply(owned)
    control_plane.kubectl("delete", "configmap", "owner", "-n", namespace)
    everything = ("get", "configmaps", "-n", namespace, "-o", "name")
    eventually(
        lambda: "owned" not in control_plane.kubectl(*everything),
        within_ms=90_000,
        what="garbage collection of the owned object",
    )


def test_a_second_control_plane_runs_beside_the_first_and_leaves_nothing(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    second = ControlPlane.start(tmp_path / "second")
    try:
        second.kubectl("create", "namespace", "only-here")
        with pytest.raises(CommandError, match="not found"):
            control_plane.kubectl("get", "namespace", "only-here")
    finally:
        second.stop()
    assert list(tmp_path.iterdir()) == []
    assert control_plane.kubectl("get", "--raw", "/readyz") == "ok"
