"""What the API server lets a person delete, and what a deleted cluster leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart import rendered
from tests.chart.cases import COMPLETE
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders, names, reason, settle, topic
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

GARBAGE_LIMIT_MS = 90_000
BROKERS = "brokers.strandline.dev"
PARTITIONS = "partitions.strandline.dev"
ALLOW = "strandline.dev/deletion=allowed"


@pytest.fixture
def policy(control_plane: ControlPlane, crds: None, namespace: str) -> Iterator[None]:
    """Install the chart's policy on deletions for the test's namespace alone."""
    items = rendered.render_definitions()
    found = {item["kind"]: item for item in items if "deletion." in item["metadata"]["name"]}
    name = f"deletion.{namespace}"
    rules = found["ValidatingAdmissionPolicy"]
    binding = found["ValidatingAdmissionPolicyBinding"]
    assert binding["spec"]["policyName"] == rules["metadata"]["name"]
    labels = {"kubernetes.io/metadata.name": namespace}
    binding["spec"] |= {
        "policyName": name,
        "matchResources": {"namespaceSelector": {"matchLabels": labels}},
    }
    for item in (rules, binding):
        control_plane.apply({**item, "metadata": {"name": name}})
    yield
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        control_plane.kubectl("delete", kind, name)


def refusal(operator: OperatorProcess, kind: str, name: str) -> str:
    """Return why an object may not be deleted, "" if it may."""
    try:
        operator.kubectl("delete", kind, name, "--dry-run=server")
    except CommandError as error:
        return str(error)
    return ""


def merge_status(operator: OperatorProcess, kind: str, name: str, status: dict[str, Any]) -> None:
    operator.kubectl(
        *("patch", kind, name, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )


def register(operator: OperatorProcess) -> None:
    """Give every Broker a registration, and a Partition a leader."""
    for name in names(operator, BROKERS):
        merge_status(operator, BROKERS, name, COMPLETE["Broker"]["status"])
    state = {**COMPLETE["Partition"]["status"], "replicas": [0, 1, 2], "reason": ""}
    merge_status(operator, PARTITIONS, "orders-0", state)


def uids(operator: OperatorProcess, *kinds: str) -> set[str]:
    return {item["metadata"]["uid"] for kind in kinds for item in operator.list(kind)}


def test_what_holds_data_is_not_deleted_by_hand(operator: OperatorProcess, policy: None) -> None:
    apply_orders(operator)
    register(operator)
    operator.wait_for("policy", lambda: refusal(operator, PARTITIONS, "orders-0"))
    settle(operator)
    for kind, name, sentence in (
        ("bc", "default", "BrokerCluster default has topics; delete them first"),
        (PARTITIONS, "orders-0", "delete its ReplicatedTopic instead"),
        (BROKERS, "default-0", "holds the registration of a broker"),
    ):
        assert sentence in refusal(operator, kind, name)
        operator.kubectl("annotate", kind, name, ALLOW)
        assert refusal(operator, kind, name) == ""


def test_a_protected_topic_is_deleted_only_without_its_protection(
    operator: OperatorProcess, policy: None
) -> None:
    protected = topic("kept", partitions=1, deletionProtection=True)
    operator.kubectl("apply", "-f", "-", stdin=protected)
    sentence = "ReplicatedTopic kept has spec.deletionProtection; set it to false first"
    operator.wait_for("policy", lambda: sentence in refusal(operator, "rtopic", "kept"))
    patch = '{"spec":{"deletionProtection":false}}'
    operator.kubectl("patch", "rtopic", "kept", "--type=merge", "-p", patch)
    operator.kubectl("delete", "rtopic", "kept")
    operator.wait_for("no Partitions", lambda: not operator.list(PARTITIONS), GARBAGE_LIMIT_MS)


def test_topics_of_a_cluster_without_deletions_are_deleted_once_it_allows_them(
    operator: OperatorProcess, policy: None
) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("kept", partitions=1))
    operator.wait_for("BrokerCluster", lambda: operator.get("bc", "default"))

    def allow(value: str) -> None:
        patch = f'{{"spec":{{"deleteTopicEnable":{value}}}}}'
        operator.kubectl("patch", "bc", "default", "--type=merge", "-p", patch)

    allow("false")
    sentence = "belongs to BrokerCluster default, whose spec.deleteTopicEnable is false"
    operator.wait_for("refusal", lambda: sentence in refusal(operator, "rtopic", "kept"))
    operator.kubectl("apply", "-f", "-", stdin=topic("annotated", partitions=1))
    operator.wait_for("refusal", lambda: sentence in refusal(operator, "rtopic", "annotated"))
    operator.kubectl("annotate", "rtopic", "annotated", ALLOW)
    assert refusal(operator, "rtopic", "annotated") == ""
    with pytest.raises(CommandError, match="deleteTopicEnable"):
        allow('"no"')
    allow("true")
    operator.wait_for("permission", lambda: refusal(operator, "rtopic", "kept") == "")
    operator.kubectl("delete", "rtopic", "kept")


def test_a_namespace_with_all_that_is_protected_goes(
    operator: OperatorProcess, policy: None
) -> None:
    apply_orders(operator)
    register(operator)
    operator.kubectl("apply", "-f", "-", stdin=topic("kept", deletionProtection=True))
    operator.wait_for("policy", lambda: refusal(operator, "rtopic", "kept"))
    operator.plane.kubectl("delete", "namespace", operator.namespace, "--wait=false")

    def gone() -> bool:
        found = operator.plane.kubectl("get", "ns", operator.namespace, "--ignore-not-found")
        return found == ""

    operator.wait_for("the namespace gone", gone, GARBAGE_LIMIT_MS)
    operator.plane.kubectl("create", "namespace", operator.namespace)


def test_a_cluster_deleted_with_topics_goes_on_and_is_adopted_when_it_is_created_again(
    operator: OperatorProcess, policy: None
) -> None:
    apply_orders(operator)
    register(operator)
    settle(operator)
    running = ("statefulsets", "pods", "services", BROKERS, PARTITIONS, "leases", "configmaps")
    before = uids(operator, *running)
    cluster = operator.get("bc", "default") or {}
    operator.kubectl("annotate", "bc", "default", ALLOW)
    operator.kubectl("delete", "bc", "default")
    operator.kubectl("apply", "-f", "-", stdin=topic("later", partitions=1))
    operator.wait_for("ClusterLost", lambda: reason(operator, "later") == "ClusterLost")
    assert operator.list("bc") == []
    assert uids(operator, *running) == before

    manifest = {key: cluster[key] for key in ("apiVersion", "kind", "spec")}
    manifest["metadata"] = {"name": "default"}
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    operator.wait_for("adopted", lambda: reason(operator, "default", "bc") == "BrokersNotReady")
    operator.wait_for("the later topic", lambda: operator.get(PARTITIONS, "later-0"))
    assert before < uids(operator, *running)
    again = operator.get("bc", "default") or {}
    assert again["metadata"]["uid"] != cluster["metadata"]["uid"]
    assert again["spec"] == cluster["spec"]


def test_a_cluster_without_topics_takes_all_along_but_the_registrations(
    operator: OperatorProcess, policy: None
) -> None:
    apply_orders(operator)
    register(operator)
    operator.kubectl("delete", "rtopic", "orders")
    operator.wait_for(
        "the policy's consent",
        lambda: refusal(operator, "bc", "default") == "",
        GARBAGE_LIMIT_MS,
    )
    operator.kubectl("delete", "bc", "default")
    operator.wait_for("no StatefulSet", lambda: not operator.list("statefulsets"), GARBAGE_LIMIT_MS)
    operator.wait_for("no Service", lambda: not operator.list("services"), GARBAGE_LIMIT_MS)
    assert names(operator, BROKERS) == [f"default-{n}" for n in range(3)]
    before = uids(operator, BROKERS)
    operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=1))
    operator.wait_for("a new cluster", lambda: operator.get("statefulset", "default"))
    assert uids(operator, BROKERS) == before
