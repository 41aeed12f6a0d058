"""The audit logs' reader and the judge of permissions: what they find, and what they let pass."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import audited, permissions
from tests.support.audited import Permission
from tests.support.commands import CommandError, kubectl
from tests.support.control_plane import ControlPlane

ROLEBINDINGS = "rolebindings.rbac.authorization.k8s.io"


def line(verb: str, *, user: str = "here:default-broker", code: int = 200, **about: str) -> str:
    whole: dict[str, Any] = {
        "verb": verb,
        "user": {"username": f"system:serviceaccount:{user}"},
        "objectRef": about,
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000000Z",
    }
    return json.dumps(whole, separators=(",", ":")) + "\n"


def found(folder: Path, *lines: str, since: str = "") -> set[str]:
    (folder / "audit.log").write_text("".join(lines))
    return {str(each) for each in audited.read(folder, since=since)}


@pytest.mark.parametrize("account", ["demo-broker", "default-broker"])
def test_requests_of_brokers_are_read(tmp_path: Path, account: str) -> None:
    about: Any = {"resource": "partitions", "apiGroup": "strandline.dev", "subresource": "status"}
    lines = (line("update", user=f"here:{account}", **about), line("list", resource="pods"))
    assert found(tmp_path, *lines) == {
        "broker: update partitions.strandline.dev/status",
        "broker: list pods",
    }


def test_a_refused_request_is_read_too(tmp_path: Path) -> None:
    assert found(tmp_path, line("get", resource="secrets", code=403)) == {"broker: get secrets"}


def test_what_a_request_needs_beside_its_verb_is_read(tmp_path: Path) -> None:
    user = "here:strandline-operator"
    bindings = {"resource": "rolebindings", "apiGroup": "rbac.authorization.k8s.io"}
    assert found(
        tmp_path,
        line("patch", user=user, code=201, resource="services"),
        line("patch", user=user, code=200, resource="configmaps"),
        line("patch", user=user, code=200, **bindings),
    ) == {
        "operator: patch services",
        "operator: create services",
        "operator: patch configmaps",
        f"operator: patch {ROLEBINDINGS}",
        "operator: bind roles.rbac.authorization.k8s.io",
    }


def test_others_earlier_requests_and_half_lines_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "audit-2026.log").write_text(line("list", resource="services"))
    assert found(
        tmp_path,
        line("get", user="here:strandline-prometheus", resource="pods"),
        line("get", resource="pods")[:-3],
    ) == {"broker: list services"}
    assert found(tmp_path, since="2026-01-02T03:04:06") == set()


def test_the_charts_roles_are_what_is_granted() -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["patch"]},
    ]
    roles = [
        {"kind": kind, "metadata": {"name": name}, "rules": rules[part]}
        for kind, name, part in (
            ("Role", "x-broker", slice(0, 1)),
            ("ClusterRole", "here-x-operator-nodes", slice(1, 2)),
            ("Role", "x-prometheus", slice(0, 2)),
            ("RoleBinding", "x-broker", slice(0, 2)),
        )
    ]
    assert {str(each) for each in permissions.granted(roles)} == {
        "broker: get pods",
        "broker: list pods",
        "broker: get pods/log",
        "broker: list pods/log",
        "operator: patch statefulsets.apps",
    }


def test_a_missing_permission_counts_always_and_an_idle_one_in_a_whole_tier() -> None:
    used = {Permission("broker", "get", "pods"), Permission("broker", "list", "pods")}
    allowed = {Permission("broker", "get", "pods"), Permission("broker", "watch", "pods")}
    missing = "used, but the chart does not grant it: broker: list pods"
    idle = "granted by the chart, but never used: broker: watch pods"
    assert permissions.offences(used, allowed, is_whole_tier=False) == [missing]
    assert permissions.offences(used, allowed, is_whole_tier=True) == [missing, idle]


@pytest.mark.processes
def test_a_real_audit_log_is_read(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "serviceaccount", "watched", "-n", namespace)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "watched")
    with pytest.raises(CommandError, match="forbidden"):
        kubectl(kubeconfig, "get", "leases.coordination.k8s.io")
    with pytest.raises(CommandError, match="forbidden"):
        kubectl(kubeconfig, "get", "pods", "a", "--subresource=status")
    accounts = {re.compile("watched"): "watched"}
    found = audited.read(control_plane.audit_log.parent, accounts=accounts)
    assert {
        Permission("watched", "list", "leases.coordination.k8s.io"),
        Permission("watched", "get", "pods/status"),
    } <= found
