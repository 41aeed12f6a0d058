"""What a real API server refuses the operator becomes a condition and an Event, and goes again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders, names, settle, topic
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SENTENCE = "images must come from the registry of this company"


def conditions(operator: OperatorProcess, name: str, kind: str) -> dict[str, Manifest]:
    """Return the conditions of an object by type, {} before its first status."""
    found = (operator.get(kind, name) or {}).get("status", {}).get("conditions", [])
    return {each["type"]: each for each in found}


def shown(operator: OperatorProcess, name: str, kind: str, condition: str) -> str:
    """Return status and reason of a condition, "" if there is none."""
    found = conditions(operator, name, kind).get(condition)
    return f"{found['status']} {found['reason']}" if found else ""


def events(operator: OperatorProcess, name: str, reason: str) -> list[str]:
    """Return the messages of the Events of a reason about an object."""
    return [
        each["message"]
        for each in operator.list("events")
        if each["reason"] == reason and each["involvedObject"]["name"] == name
    ]


@pytest.fixture
def refused_pods(control_plane: ControlPlane, crds: None, namespace: str) -> Iterator[str]:
    """Install a policy that refuses every StatefulSet of the test's namespace; yield its name."""
    name = f"registry.{namespace}"
    labels = {"kubernetes.io/metadata.name": namespace}
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["statefulsets"],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    control_plane.apply(
        {
            **head,
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": SENTENCE}],
            },
        }
    )
    selector = {"namespaceSelector": {"matchLabels": labels}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    control_plane.apply({**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})
    yield name
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        control_plane.kubectl("delete", kind, name, "--ignore-not-found")


def is_refused(operator: OperatorProcess) -> bool:
    """Tell whether the policy is in effect, which takes the API server a moment."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    probe = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "probe"},
        "spec": {
            "serviceName": "a",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                **template,
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
    }
    try:
        operator.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(probe))
    except CommandError as error:
        return SENTENCE in str(error)
    return False


def test_a_policys_refusal_is_a_condition_and_one_event_until_the_policy_goes(
    operator: OperatorProcess, refused_pods: str
) -> None:
    operator.wait_for("the policy", lambda: is_refused(operator))
    operator.kubectl("apply", "-f", "-", stdin=topic("orders"))
    operator.wait_for(
        "the condition",
        lambda: shown(operator, "default", "bc", "Reconciled") == "False Refused",
    )
    found = conditions(operator, "default", "bc")
    assert SENTENCE in found["Reconciled"]["message"]
    assert found["Reconciled"]["message"].startswith("could not apply StatefulSet default")
    assert found["Reconciled"]["observedGeneration"] == 1
    assert shown(operator, "default", "bc", "Ready") == "False Refused"
    assert shown(operator, "default", "bc", "Stalled") == "True Refused"
    (told,) = operator.wait_for("the Event", lambda: events(operator, "default", "Refused"))
    assert SENTENCE in told
    # Everything before the StatefulSet is written, and the status counts on.
    assert names(operator, "pdb") == ["default-brokers"]
    refused = len(operator.failures())
    operator.wait_for("another try", lambda: len(operator.failures()) > refused)
    assert len(events(operator, "default", "Refused")) == 1

    operator.kubectl("delete", "ValidatingAdmissionPolicyBinding", refused_pods)
    operator.wait_for(
        "the recovery",
        lambda: shown(operator, "default", "bc", "Reconciled") == "True AllApplied",
        60_000,
    )
    assert "Stalled" not in conditions(operator, "default", "bc")
    assert operator.get("statefulset", "default") is not None


def test_a_quota_that_refuses_partitions_is_a_condition_of_the_topic(
    operator: OperatorProcess,
) -> None:
    hard = {"count/partitions.strandline.dev": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    operator.kubectl("apply", "-f", "-", stdin=json.dumps({**quota, "spec": {"hard": hard}}))

    def is_counted() -> bool:
        found = operator.get("resourcequota", "small") or {}
        return bool(found.get("status", {}).get("hard") == hard)

    operator.wait_for("the quota", is_counted)
    operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=1))
    operator.wait_for(
        "the condition",
        lambda: shown(operator, "orders", "rtopic", "Reconciled") == "False Forbidden",
        60_000,
    )
    message = conditions(operator, "orders", "rtopic")["Reconciled"]["message"]
    assert "forbidden" in message
    assert "quota: small" in message
    operator.wait_for("the Event", lambda: events(operator, "orders", "Forbidden"))
    assert (operator.get("rtopic", "orders") or {})["status"]["partitionsInitialised"] == 1
    operator.kubectl("delete", "resourcequota", "small")
    operator.wait_for(
        "the recovery",
        lambda: shown(operator, "orders", "rtopic", "Reconciled") == "True AllApplied",
        60_000,
    )
    assert names(operator, "partitions.strandline.dev") == ["orders-0"]


def test_a_missing_permission_is_told_and_a_status_that_is_refused_is_an_event(
    operator: OperatorProcess,
) -> None:
    apply_orders(operator)
    # What is told of a reason is told once: nothing else may be left to be written.
    settle(operator)
    role = operator.get("role", "strandline-operator") or {}
    kept = [
        rule
        for rule in role["rules"]
        if not {"services", "brokerclusters/status"} & set(rule["resources"])
    ]
    readable = {
        "apiGroups": [""],
        "resources": ["services", "configmaps", "serviceaccounts"],
        "verbs": ["get", "list", "watch"],
    }
    operator.kubectl("replace", "-f", "-", stdin=json.dumps({**role, "rules": [*kept, readable]}))
    operator.kubectl("delete", "service", "default-bootstrap")
    (told,) = operator.wait_for("the Event", lambda: events(operator, "default", "Forbidden"))
    assert "default-bootstrap" in told
    assert 'cannot patch resource "services"' in told
    operator.wait_for("more tries", lambda: len(operator.failures()) > 6)
    assert len(events(operator, "default", "Forbidden")) == 1
    del role["metadata"]["resourceVersion"]
    operator.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    operator.wait_for("the recovery", lambda: operator.get("service", "default-bootstrap"), 60_000)
