"""The operator against a real API server, with the permissions that the chart gives it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from strandline_operator.operator_lease import NAME as OPERATOR_LEASE
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.killed_operator import run_killed_after_each_write
from tests.support.commands import REPOSITORY

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

KILLS_MIN = 10
"""Two passes may write at the same time, so a kill may follow more than one write."""
BACK_LIMIT_MS = 30_000
"""A deleted child is back within a second on an idle machine; this bound is for a loaded one."""


def topic(name: str, **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "ReplicatedTopic",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def apply_orders(operator: OperatorProcess) -> None:
    operator.kubectl("apply", "-f", str(REPOSITORY / "examples" / "orders.yaml"))
    operator.wait_for("StatefulSet", lambda: operator.get("statefulset", "default"))
    operator.wait_for("Partitions", lambda: len(operator.list("partitions")) == 6)


def names(operator: OperatorProcess, kind: str) -> list[str]:
    return sorted(item["metadata"]["name"] for item in operator.list(kind))


def config_maps(operator: OperatorProcess) -> set[str]:
    """Return the names of the ConfigMaps of the cluster's brokers."""
    return {name for name in names(operator, "configmaps") if name.startswith("default-config")}


def ready(operator: OperatorProcess, name: str, kind: str = "rtopic") -> dict[str, Any]:
    """Return the condition Ready of an object, {} if it has none yet."""
    found = operator.get(kind, name) or {}
    for condition in found.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            return dict(condition)
    return {}


def reason(operator: OperatorProcess, name: str, kind: str = "rtopic") -> str:
    return str(ready(operator, name, kind).get("reason", ""))


def versions(operator: OperatorProcess) -> dict[str, str]:
    """Return the resourceVersion of each object that the operator writes."""
    kinds = (
        "rtopic,bc,brokers.strandline.dev,partitions.strandline.dev,leases,services,configmaps,"
        "serviceaccounts,rolebindings,pdb,statefulsets"
    )
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in operator.list(kinds)
        if item["metadata"]["name"] != OPERATOR_LEASE
    }


def settle(operator: OperatorProcess) -> dict[str, str]:
    """Wait until the operator has written nothing for two seconds; return the resourceVersions."""
    seen: dict[str, Any] = {"at": time.monotonic(), "versions": versions(operator)}

    def quiet() -> bool:
        now = versions(operator)
        if now != seen["versions"]:
            seen.update(at=time.monotonic(), versions=now)
        return bool(time.monotonic() - seen["at"] >= 2)

    operator.wait_for("no more writes", quiet, 30_000)
    return dict(seen["versions"])


def test_one_topic_brings_up_a_whole_cluster(operator: OperatorProcess) -> None:
    apply_orders(operator)
    assert names(operator, "brokers.strandline.dev") == [f"default-{n}" for n in range(3)]
    assert names(operator, "leases") == ["default-controller", OPERATOR_LEASE]
    assert names(operator, "services") == ["default-bootstrap", "default-brokers"]
    assert len(config_maps(operator)) == 1
    assert {"default-broker"} <= set(names(operator, "serviceaccounts"))
    assert {"default-strandline-broker"} <= set(names(operator, "rolebindings"))
    assert names(operator, "pdb") == ["default-brokers"]
    for kind, name in (("statefulset", "default"), ("service", "default-brokers")):
        assert "ownerReferences" not in (operator.get(kind, name) or {})["metadata"]
    orders = operator.get("rtopic", "orders") or {}
    partitions = operator.list("partitions.strandline.dev")
    for partition in partitions:
        spec = partition["spec"]
        assert spec["topicId"] == orders["metadata"]["uid"]
        assert sorted(spec["replicas"]) == [0, 1, 2]
        assert spec["recover"] is False
    leaders = [partition["spec"]["replicas"][0] for partition in partitions]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
    operator.wait_for("topic status", lambda: reason(operator, "orders") == "PartitionsOffline")
    status = (operator.get("rtopic", "orders") or {})["status"]
    assert status["topicId"] == orders["metadata"]["uid"]
    assert status["partitionsInitialised"] == 6
    assert status["effectiveConfig"] == {
        "minInsyncReplicas": 2,
        "segmentBytes": 1 << 30,
        "maxMessageBytes": 1_048_588,
        "flushMessages": (1 << 63) - 1,
        "retentionMs": 604_800_000,
        "retentionBytes": -1,
        "segmentMs": 604_800_000,
        "fileDeleteDelayMs": 60_000,
        "deleteTopicEnable": True,
    }
    operator.wait_for(
        "cluster status", lambda: reason(operator, "default", "bc") == "BrokersNotReady"
    )


def test_a_topic_with_leaders_becomes_ready(operator: OperatorProcess) -> None:
    operator.kubectl(
        "apply", "-f", "-", stdin=topic("one", partitions=1, config={"minInsyncReplicas": 1})
    )
    created = operator.wait_for(
        "Partition", lambda: operator.get("partitions.strandline.dev", "one-0")
    )
    spec = created["spec"]
    status = {
        "replicas": [0, 1, 2],
        "leader": 0,
        "leaderEpoch": 0,
        "partitionEpoch": 0,
        "isr": [0],
        "isrBrokerEpochs": [1],
        "minInsyncReplicas": 1,
        "controllerEpoch": 1,
        "recovery": "Clean",
    }
    operator.kubectl(
        "patch",
        "partitions.strandline.dev",
        "one-0",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )
    operator.wait_for("Ready", lambda: reason(operator, "one") == "AllPartitionsOnline")
    assert ready(operator, "one")["status"] == "True"
    counts = (operator.get("rtopic", "one") or {})["status"]["partitions"]
    assert counts == {
        "total": 1,
        "online": 1,
        "offline": 0,
        "underReplicated": 1,
        "underMinIsr": 0,
        "atMinIsr": 1,
        "moving": 0,
    }
    printed = operator.kubectl("get", "part", "one-0", "--no-headers").split()
    replicas = json.dumps(spec["replicas"], separators=(",", ":"))
    assert printed[:-1] == ["one-0", "one", "0", "0", "0", "[0]", replicas]


def test_deleted_children_come_back(operator: OperatorProcess) -> None:
    apply_orders(operator)
    before = {
        (kind, name): (operator.get(kind, name) or {})["metadata"]["uid"]
        for kind, name in (
            ("service", "default-brokers"),
            ("statefulset", "default"),
            ("lease", "default-controller"),
            ("configmap", next(iter(config_maps(operator)))),
        )
    }
    for (kind, name), uid in before.items():
        operator.kubectl("delete", kind, name, "--cascade=orphan", "--wait=false")

        def back(kind: str = kind, name: str = name, uid: str = uid) -> bool:
            found = operator.get(kind, name)
            return found is not None and found["metadata"]["uid"] != uid

        operator.wait_for(f"{kind} back", back, BACK_LIMIT_MS)


def test_changed_children_are_corrected_and_foreign_fields_stay(
    operator: OperatorProcess,
) -> None:
    apply_orders(operator)
    operator.kubectl(
        "patch", "statefulset", "default", "-p", '{"spec":{"replicas":1}}', "--type=merge"
    )
    operator.kubectl("annotate", "service", "default-brokers", "example.com/mine=yes")

    def corrected() -> bool:
        found = operator.get("statefulset", "default") or {}
        return bool(found["spec"]["replicas"] == 3)

    operator.wait_for("replicas corrected", corrected, BACK_LIMIT_MS)
    service = operator.get("service", "default-brokers") or {}
    assert service["metadata"]["annotations"]["example.com/mine"] == "yes"


def test_a_foreign_object_of_a_wanted_name_is_not_touched(operator: OperatorProcess) -> None:
    operator.kubectl("create", "service", "clusterip", "default-brokers", "--tcp=80")
    operator.kubectl("apply", "-f", "-", stdin=topic("orders"))
    operator.wait_for("refusal", lambda: reason(operator, "default", "bc") == "NameTaken")
    spec = (operator.get("service", "default-brokers") or {})["spec"]
    assert [port["port"] for port in spec["ports"]] == [80]
    assert operator.get("statefulset", "default") is None
    events = operator.list("events")
    assert any(event["reason"] == "NameTaken" for event in events)
    operator.kubectl("delete", "service", "default-brokers")
    operator.wait_for("StatefulSet", lambda: operator.get("statefulset", "default"))


def test_partitions_grow_and_the_old_ones_stay(operator: OperatorProcess) -> None:
    apply_orders(operator)
    before = {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in operator.list("partitions.strandline.dev")
    }
    operator.kubectl("patch", "rtopic", "orders", "--type=merge", "-p", '{"spec":{"partitions":8}}')
    operator.wait_for("growth", lambda: len(operator.list("partitions.strandline.dev")) == 8)
    after = {item["metadata"]["name"]: item for item in operator.list("partitions.strandline.dev")}
    assert {name: after[name]["metadata"]["uid"] for name in before} == before
    assert [after[f"orders-{n}"]["spec"]["recover"] for n in (6, 7)] == [False, False]


def test_a_lost_partition_comes_back_to_be_recovered(operator: OperatorProcess) -> None:
    apply_orders(operator)
    lost = operator.get("partitions.strandline.dev", "orders-3") or {}
    operator.kubectl("delete", "partitions.strandline.dev", "orders-3")
    found = operator.wait_for(
        "Partition back", lambda: operator.get("partitions.strandline.dev", "orders-3")
    )
    assert found["metadata"]["uid"] != lost["metadata"]["uid"]
    assert found["spec"] == {**lost["spec"], "recover": True}


def test_a_topic_made_again_under_its_name_is_a_new_one(operator: OperatorProcess) -> None:
    apply_orders(operator)
    old = (operator.get("rtopic", "orders") or {})["metadata"]["uid"]
    operator.kubectl("delete", "rtopic", "orders")
    operator.kubectl("apply", "-f", str(REPOSITORY / "examples" / "orders.yaml"))
    new = (operator.get("rtopic", "orders") or {})["metadata"]["uid"]
    assert new != old

    def all_new() -> bool:
        found = operator.list("partitions.strandline.dev")
        return [item["spec"]["topicId"] for item in found] == [new] * 6

    operator.wait_for("new Partitions", all_new, 60_000)
    found = operator.list("partitions.strandline.dev")
    assert [item["spec"]["recover"] for item in found] == [False] * 6


def test_a_deleted_topic_takes_its_partitions_along(operator: OperatorProcess) -> None:
    apply_orders(operator)
    operator.kubectl("delete", "rtopic", "orders")
    operator.wait_for(
        "no Partitions", lambda: not operator.list("partitions.strandline.dev"), 60_000
    )
    assert operator.get("statefulset", "default") is not None


def test_the_older_of_two_topics_with_one_name_wins(operator: OperatorProcess) -> None:
    apply_orders(operator)
    operator.kubectl("apply", "-f", "-", stdin=topic("other", topicName="orders"))
    operator.wait_for("conflict", lambda: reason(operator, "other") == "Conflict")
    other = operator.get("rtopic", "other") or {}
    assert {c["type"]: c["status"] for c in other["status"]["conditions"]} == {
        "Ready": "False",
        "Reconciled": "False",
        "Stalled": "True",
        "Conflict": "True",
        "ConfigApplied": "Unknown",
    }
    assert "ReplicatedTopic orders is older" in ready(operator, "other")["message"]
    assert operator.get("partitions.strandline.dev", "other-0") is None
    operator.kubectl("delete", "rtopic", "orders")
    operator.wait_for(
        "the other's turn", lambda: operator.get("partitions.strandline.dev", "other-0"), 60_000
    )
    operator.wait_for("no conflict", lambda: reason(operator, "other") == "PartitionsOffline")


def test_a_second_object_of_a_partition_is_reported(operator: OperatorProcess) -> None:
    apply_orders(operator)
    copied = operator.get("partitions.strandline.dev", "orders-0") or {}
    manifest = {key: copied[key] for key in ("apiVersion", "kind", "spec")}
    manifest["metadata"] = {"name": "copy-0"}
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def told() -> bool:
        events = [each for each in operator.list("events") if each["reason"] == "PartitionsCopied"]
        return len(events) == 1 and "copy-0" in events[0]["message"]

    operator.wait_for("an Event", told)
    always = {"Ready", "Reconciled", "ConfigApplied"}

    def types() -> set[str]:
        conditions = (operator.get("rtopic", "orders") or {})["status"]["conditions"]
        return {each["type"] for each in conditions}

    operator.wait_for("a condition", lambda: types() == {*always, "PartitionsCopied"})
    operator.kubectl("delete", "partitions.strandline.dev", "copy-0")
    operator.wait_for("no condition", lambda: types() == always)


def test_impossible_topics_are_refused_with_a_reason_and_an_event(
    operator: OperatorProcess,
) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("wide", replicationFactor=5))
    operator.kubectl("apply", "-f", "-", stdin=topic("astray", clusterRef="nowhere"))
    operator.wait_for("too wide", lambda: reason(operator, "wide") == "InvalidReplicationFactor")
    operator.wait_for("astray", lambda: reason(operator, "astray") == "ClusterMissing")

    def posted() -> bool:
        reasons = {event["reason"] for event in operator.list("events")}
        return {"InvalidReplicationFactor", "ClusterMissing"} <= reasons

    operator.wait_for("events", posted)
    assert operator.list("partitions.strandline.dev") == []


@pytest.mark.timeout(300)
def test_an_operator_killed_after_each_of_its_writes_brings_up_a_whole_cluster(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    def begin() -> None:
        operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=2))

    def is_whole() -> bool:
        waits = reason(operator, "orders") == "WaitingForBrokers"
        return waits and reason(operator, "default", "bc") == "BrokersNotReady"

    killed = run_killed_after_each_write(operator, tmp_path, begin, is_whole, within_ms=60_000)
    assert killed >= KILLS_MIN
    assert names(operator, "partitions.strandline.dev") == ["orders-0", "orders-1"]
    assert operator.get("statefulset", "default") is not None


def test_a_restarted_operator_changes_nothing(operator: OperatorProcess) -> None:
    apply_orders(operator)
    before = settle(operator)
    operator.stop()
    done = len(operator.actions())
    operator.start()
    operator.kubectl("delete", "service", "default-bootstrap")
    operator.wait_for("Service back", lambda: operator.get("service", "default-bootstrap"))
    after = settle(operator)
    new = operator.actions()[done:]
    assert new == ["apply Service default-bootstrap: it is missing"]
    del before["Service/default-bootstrap"], after["Service/default-bootstrap"]
    assert after == before


def test_the_operator_has_every_permission_that_it_uses(operator: OperatorProcess) -> None:
    apply_orders(operator)
    settle(operator)
    assert [cause for cause in operator.failures() if "forbidden" in cause] == []


def test_brokers_and_operator_pass_the_restricted_pod_standard(operator: OperatorProcess) -> None:
    operator.plane.kubectl(
        "label", "namespace", operator.namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    apply_orders(operator)
    operator.apply_deployment()

    def pods() -> set[str]:
        found = operator.list("pods")
        return {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in found}

    operator.wait_for("pods of both kinds", lambda: pods() == {"broker", "operator"})
    brokers = operator.kubectl("get", "pods", "-l", "strandline.dev/cluster=default", "-o", "name")
    assert sorted(brokers.split()) == [f"pod/default-{n}" for n in range(3)]


def test_the_operator_outlives_an_outage_of_the_api_server(operator: OperatorProcess) -> None:
    apply_orders(operator)
    operator.plane.stop_api()
    operator.plane.start_api()
    operator.kubectl("apply", "-f", "-", stdin=topic("later", partitions=1))
    operator.wait_for(
        "the later topic",
        lambda: operator.get("partitions.strandline.dev", "later-0"),
        60_000,
    )
    assert operator.process is not None
    assert operator.process.poll() is None


def test_two_topics_of_one_second_and_one_name_get_partitions_once(
    operator: OperatorProcess,
) -> None:
    pairs = range(5)
    manifests = [
        json.loads(topic(f"{side}-{pair}", topicName=f"pair-{pair}", partitions=1))
        for pair in pairs
        for side in "ab"
    ]
    whole = {"apiVersion": "v1", "kind": "List", "items": manifests}
    operator.kubectl("create", "-f", "-", stdin=json.dumps(whole))

    def settled() -> bool:
        reasons = [{reason(operator, f"{side}-{pair}") for side in "ab"} for pair in pairs]
        return reasons == [{"Conflict", "PartitionsOffline"}] * len(pairs)

    operator.wait_for("one of each pair", settled)
    names_of = [item["spec"]["topicName"] for item in operator.list("partitions.strandline.dev")]
    assert sorted(names_of) == [f"pair-{pair}" for pair in pairs]


def test_liveness_probe_succeeds(operator: OperatorProcess) -> None:
    operator.wait_for("/live", lambda: operator.probe("/live")[0] == 200)
