"""Pods, claims, Events and budgets of a real API server, as the cluster's status shows them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_conditions import led
from tests.reconcile.test_operator_process import apply_orders, ready, topic
from tests.reconcile.test_pod_settings_process import apply
from tests.reconcile.test_refusals_process import conditions, events, shown
from tests.support.commands import REPOSITORY, CommandError
from tests.support.control_plane import ControlPlane
from tests.support.documented import commands

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

HEALTH = REPOSITORY / "docs" / "health.md"
PARTITIONS = "partitions.strandline.dev"


def patch_status(operator: OperatorProcess, kind: str, name: str, status: dict[str, Any]) -> None:
    operator.kubectl(
        *("patch", kind, name, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )


def sentence(operator: OperatorProcess) -> str:
    """Return what the cluster's condition Ready says."""
    return str(ready(operator, "default", "bc").get("message", ""))


def wait_for_sentence(operator: OperatorProcess, *parts: str) -> None:
    operator.wait_for(
        f"{parts} in the sentence",
        lambda: all(part in sentence(operator) for part in parts),
        40_000,
    )


def bind(operator: OperatorProcess, pod: str, node: str) -> None:
    """Give a pod a node, as a scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": operator.namespace},
        "target": target,
    }
    path = f"/api/v1/namespaces/{operator.namespace}/pods/{pod}/binding"
    operator.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def test_an_unbound_claim_is_named_with_what_kubernetes_says_of_it(
    operator: OperatorProcess,
) -> None:
    apply_orders(operator)
    wait_for_sentence(
        operator, "pod default-0 waits for claim data-default-0, which is Pending: FailedBinding: "
    )
    assert ready(operator, "default", "bc")["reason"] == "BrokersNotReady"
    assert "cause not read" not in operator.messages()


def test_a_pod_that_a_quota_refuses_is_named_with_the_event(operator: OperatorProcess) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    }
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(quota))

    def is_counted() -> bool:
        return "used" in (operator.get("resourcequota", "none") or {}).get("status", {})

    operator.wait_for("the quota", is_counted)
    operator.kubectl("apply", "-f", "-", stdin=topic("orders"))
    wait_for_sentence(operator, "there is no pod default-0: FailedCreate: ", "exceeded quota: none")


@pytest.fixture
def volumes(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Provide a volume for each of three claims; no test writes to them."""
    names = [f"{number}.{namespace}" for number in range(3)]
    for number, name in enumerate(names):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/nowhere/{name}"},
            "claimRef": {"namespace": namespace, "name": f"data-default-{number}"},
        }
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        control_plane.apply({**head, "spec": spec})
    yield
    for name in names:
        control_plane.kubectl("delete", "pv", name, "--wait=false")


def bound(operator: OperatorProcess) -> int:
    """Return how many claims have a volume."""
    return sum(each["status"].get("phase") == "Bound" for each in operator.list("pvc"))


def test_pods_are_named_with_what_keeps_them_and_with_the_node_that_they_share(
    operator: OperatorProcess, volumes: None
) -> None:
    apply_orders(operator)
    operator.wait_for("pods", lambda: len(operator.list("pods")) == 3)
    operator.wait_for("bound claims", lambda: bound(operator) == 3)
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    patch_status(
        operator, "pod", "default-1", {"conditions": [{**unplaced, "message": "0/1 nodes"}]}
    )
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    container = {"name": "broker", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    patch_status(
        operator,
        "pod",
        "default-2",
        {"containerStatuses": [{**container, "state": {"waiting": waiting}}]},
    )
    wait_for_sentence(
        operator,
        "pod default-1: Unschedulable: 0/1 nodes",
        "pod default-2: ImagePullBackOff: Back-off pulling image",
    )
    assert shown(operator, "default", "bc", "SpreadMet") == "Unknown NoPods"
    assert shown(operator, "default", "bc", "PodsCurrent") == "True AllCurrent"
    assert shown(operator, "default", "bc", "ConfigApplied") == "Unknown NotRegistered"
    for pod, node in (("default-0", "here"), ("default-1", "there"), ("default-2", "here")):
        bind(operator, pod, f"{node}.{operator.namespace}")
    operator.wait_for(
        "the shared node",
        lambda: shown(operator, "default", "bc", "SpreadMet") == "False NodeShared",
    )
    message = conditions(operator, "default", "bc")["SpreadMet"]["message"]
    assert f"default-0 and default-2 on here.{operator.namespace}" in message


@pytest.fixture
def late_class(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """Provide a StorageClass whose volumes wait for a node for the pod, as most platforms' do."""
    name = f"late.{namespace}"
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    late = {"provisioner": "strandline.test/none", "volumeBindingMode": "WaitForFirstConsumer"}
    control_plane.apply({**head, **late})
    yield name
    control_plane.kubectl("delete", "storageclass", name)


def test_a_pod_without_a_node_is_told_of_although_its_claim_waits_for_the_pod(
    operator: OperatorProcess, late_class: str
) -> None:
    storage = {"size": "1Gi", "storageClassName": late_class}
    apply(operator, "default", storage=storage)
    claim = "pod default-0 waits for claim data-default-0, which is Pending: WaitForPodScheduled: "
    wait_for_sentence(operator, claim)
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said = "0/4 nodes are available"
    patch_status(operator, "pod", "default-0", {"conditions": [{**unplaced, "message": said}]})
    wait_for_sentence(operator, f"pod default-0: Unschedulable: {said}", "pod default-1 waits for")


def test_the_budget_follows_min_isr_and_changes_are_events(operator: OperatorProcess) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=2))
    operator.wait_for("Partitions", lambda: len(operator.list(PARTITIONS)) == 2)

    def say(number: int, isr: list[int], leader: int, epoch: int, version: int) -> None:
        status = led(0, isr=isr, leader=leader)["status"]
        status |= {"leaderEpoch": epoch, "partitionEpoch": version, "recovery": "Clean"}
        patch_status(operator, PARTITIONS, f"orders-{number}", status)

    def may_lose() -> int | None:
        found = operator.get("pdb", "default-brokers")
        return None if found is None else int(found["spec"]["maxUnavailable"])

    def row(broker_id: int) -> dict[str, Any]:
        status = (operator.get("bc", "default") or {}).get("status", {})
        rows = {each["id"]: each for each in status.get("brokers", [])}
        return dict(rows.get(broker_id, {}))

    for number in range(2):
        say(number, [0, 1, 2], leader=0, epoch=0, version=0)
    operator.wait_for("the first state", lambda: "the others keep" in row(2).get("because", ""))
    operator.wait_for("an open budget", lambda: may_lose() == 1)
    assert row(2)["safeToRestart"] is True

    say(1, [1, 2], leader=1, epoch=1, version=1)
    operator.wait_for("a closed budget", lambda: may_lose() == 0)
    operator.wait_for("the row of 2", lambda: row(2).get("safeToRestart") is False)
    assert row(0)["because"] == "it is not in sync yet: orders-1"
    assert shown(operator, "default", "bc", "DisruptionAllowed") == "False WouldBreakMinIsr"
    (page,) = [each for each in commands(HEALTH) if each.heading == "May this broker restart?"]
    printed = operator.kubectl(*shlex.split(page.line.replace("NAME", "default"))[1:])
    assert printed.splitlines()[0] == "0 false it is not in sync yet: orders-1"
    budget = operator.get("pdb", "default-brokers") or {}
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    (told,) = operator.wait_for("the Event", lambda: events(operator, "orders-1", "LeaderElected"))
    assert told == "broker 1 leads epoch 1; before it broker 0 led epoch 0; ISR [0, 1, 2] -> [1, 2]"

    say(1, [0, 1, 2], leader=1, epoch=1, version=2)
    operator.wait_for("an open budget", lambda: may_lose() == 1)
    operator.wait_for("an Event of the ISR", lambda: events(operator, "orders-1", "IsrChanged"))
    assert events(operator, "orders-0", "LeaderElected") == []


def test_an_eviction_is_refused_while_the_budget_is_closed(operator: OperatorProcess) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=1))
    operator.wait_for("Partition", lambda: operator.get(PARTITIONS, "orders-0"))
    operator.wait_for("pods", lambda: len(operator.list("pods")) == 3)
    held = [{"type": "Ready", "status": "True"}]
    for number in range(3):
        bind(operator, f"default-{number}", f"node-{number}.{operator.namespace}")
        status = {"phase": "Running", "conditions": held}
        patch_status(operator, "pod", f"default-{number}", status)

    def evict(pod: str) -> str:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": operator.namespace},
            "deleteOptions": {"dryRun": ["All"]},
        }
        path = f"/api/v1/namespaces/{operator.namespace}/pods/{pod}/eviction"
        try:
            operator.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
        except CommandError as error:
            return str(error)
        return ""

    refusal = "would violate the pod's disruption budget"
    operator.wait_for("an eviction that is allowed", lambda: evict("default-1") == "")
    tight = {**led(0, isr=[0, 1])["status"], "leaderEpoch": 0, "partitionEpoch": 0}
    patch_status(operator, PARTITIONS, "orders-0", {**tight, "recovery": "Clean"})
    operator.wait_for("a refusal", lambda: refusal in evict("default-1"))

    # A pod that is not ready serves nobody: the closed budget does not keep it on its node.
    unready = [{"type": "Ready", "status": "False"}]
    patch_status(operator, "pod", "default-2", {"conditions": unready})
    assert evict("default-2") == ""
    assert refusal in evict("default-1")
