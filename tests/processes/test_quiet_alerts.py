"""No alert's expression is true while a healthy cluster with its operator takes records.

Real brokers, a real operator and a real Prometheus with the chart's rules. There is no kubelet: the
test binds the pods of the StatefulSet to nodes and reports them as ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import rendered
from tests.processes.test_monitoring import discovered
from tests.support import strandline_objects as objects
from tests.support.attended_group import BROKERS, AttendedGroup
from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS
from tests.support.clients import SentRecords, producer_of
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.prometheus_program import PrometheusProgram

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

TOPIC = "quiet"
EVALUATIONS = 6
"""How often every alert is judged while records arrive; once a second."""
BEFORE_ALL_ARE_SCRAPED = {"StrandlineOperatorDown", "StrandlineNoActiveController"}
"""What the first judgements miss while the first scrapes are under way: the operator, the one
broker of three that is the controller."""
POD = "__meta_kubernetes_pod"
HEALTHY = ("Ready", "Reconciled", "Available", "MinIsrMet", "DisruptionAllowed")


def make_volumes(plane: ControlPlane, namespace: str) -> list[str]:
    """Make a volume for each broker's claim; no test writes to it."""
    names = [f"{number}.{namespace}" for number in range(BROKERS)]
    for number, name in enumerate(names):
        claim = {"namespace": namespace, "name": f"data-{objects.CLUSTER}-{number}"}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/nowhere/{name}"},
            "claimRef": claim,
        }
        head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        plane.apply({**head, "spec": spec})
    return names


def run_pods(attended: AttendedGroup) -> None:
    """Do with the brokers' pods what a scheduler and a kubelet do."""
    attended.wait_for(
        lambda: len(attended.operator.list("pods")) == BROKERS, "pods", FORMED_LIMIT_MS
    )
    ready = {"type": "Ready", "status": "True"}
    for number in range(BROKERS):
        pod = f"{objects.CLUSTER}-{number}"
        node = f"node-{number}.{attended.namespace}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": attended.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{attended.namespace}/pods/{pod}/binding"
        attended.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
        status = {"phase": "Running", "conditions": [ready]}
        objects.patch_status(attended.plane, attended.namespace, f"pods/{pod}", status)


def is_healthy(attended: AttendedGroup) -> bool:
    """Tell whether the cluster's conditions are as they are most of the time."""
    status = attended.group.get("brokerclusters", objects.CLUSTER)["status"]
    shown = {each["type"]: each["status"] for each in status["conditions"]}
    assert [kind for kind in HEALTHY if shown.get(kind) != "True"] == [], status["conditions"]
    assert shown.get("Rolling") != "True"
    return True


def config(attended: AttendedGroup, alerts: Path) -> dict[str, Any]:
    """Return the configuration of the chart's Prometheus, which judges as often as it scrapes."""
    (found,) = [
        item
        for item in rendered.render("--set=prometheus.enabled=true")
        if item["kind"] == "ConfigMap" and "prometheus.yml" in item["data"]
    ]
    alerts.write_text(found["data"]["alerts.yaml"])
    made: dict[str, Any] = yaml.safe_load(found["data"]["prometheus.yml"])
    labels = {
        "__meta_kubernetes_namespace": attended.namespace,
        f"{POD}_name": "operator-1",
        f"{POD}_ip": "127.0.0.1",
        f"{POD}_phase": "Running",
        f"{POD}_container_port_name": "metrics",
    }
    operator = {"targets": [f"127.0.0.1:{attended.operator.metrics_port}"], "labels": labels}
    targets = {"strandline": discovered(attended.group), "strandline-operator": [operator]}
    for job in made["scrape_configs"]:
        del job["kubernetes_sd_configs"]
        job["static_configs"] = targets.pop(job["job_name"])
    assert not targets
    every = {**made["global"], "evaluation_interval": made["global"]["scrape_interval"]}
    return {**made, "global": every, "rule_files": [str(alerts)]}


@pytest.fixture
def attended(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[AttendedGroup]:
    """Provide a healthy cluster with a topic and an operator."""
    volumes = make_volumes(control_plane, namespace)
    made = AttendedGroup(control_plane, namespace, tmp_path)
    try:
        made.start()
        run_pods(made)
        made.create_topic(TOPIC)
        made.wait_for(lambda: is_healthy(made), "a healthy cluster", FORMED_LIMIT_MS)
        yield made
    finally:
        made.stop()
        control_plane.kubectl("delete", "pv", *volumes, "--wait=false")


@pytest.fixture
def prometheus(
    attended: AttendedGroup, prometheus_programs: Path, tmp_path: Path
) -> Iterator[PrometheusProgram]:
    """Provide a Prometheus that scrapes brokers and operator."""
    program = PrometheusProgram(prometheus_programs, tmp_path / "prometheus")
    program.start_with(config(attended, tmp_path / "alerts.yaml"))
    yield program
    program.stop()


def now_seconds(program: PrometheusProgram) -> float:
    """Return the clock of Prometheus."""
    return float(program.query("vector(time())")[0]["value"][1])


def true_since(program: PrometheusProgram, began: float) -> set[str]:
    """Return the alerts whose expression was true in a judgement since then.

    An expression that is true for less than its `for` is a pending alert, and counts too.
    """
    seconds = int(now_seconds(program) - began)
    found = program.query(f"count by (alertname) (count_over_time(ALERTS[{max(seconds, 1)}s]))")
    return {each["metric"]["alertname"] for each in found}


def all_scraped(program: PrometheusProgram) -> bool:
    """Tell whether Prometheus reaches each broker and the operator."""
    return sorted(each["value"][1] for each in program.query("up")) == ["1"] * (BROKERS + 1)


def judge_while_records_arrive(attended: AttendedGroup, program: PrometheusProgram) -> float:
    """Send records until every rule was judged some more times; return when that began."""
    sent = SentRecords(producer_of(attended.group.bootstrap()), TOPIC)
    judged: dict[str, set[str]] = {}
    began = now_seconds(program)

    def often_enough() -> bool:
        sent.send(20)
        rules = program.rules()
        assert [rule for rule in rules if rule["health"] == "err"] == []
        for rule in rules:
            judged.setdefault(rule["name"], set()).add(rule["lastEvaluation"])
        return all(len(moments) > EVALUATIONS for moments in judged.values())

    eventually(often_enough, FORMED_LIMIT_MS, "judgements of every alert")
    sent.settle()
    assert {rule["health"] for rule in program.rules()} == {"ok"}
    return began


def test_no_alert_is_pending_on_a_healthy_cluster_and_some_are_after_a_fault(
    attended: AttendedGroup, prometheus: PrometheusProgram
) -> None:
    def is_quiet() -> bool:
        return all_scraped(prometheus) and not prometheus.query("ALERTS")

    eventually(is_quiet, FAULT_LIMIT_MS, "a scrape of everything")
    assert true_since(prometheus, 0) <= BEFORE_ALL_ARE_SCRAPED
    began = judge_while_records_arrive(attended, prometheus)
    assert true_since(prometheus, began) == set()
    assert prometheus.query("sum(strandline_produced_records_total)")[0]["value"][1] != "0"
    assert prometheus.query('strandline_operator_condition{kind="BrokerCluster"}')

    began = now_seconds(prometheus)
    attended.group.brokers[2].kill()
    attended.operator.stop()
    wanted = {"StrandlineBrokerDown", "StrandlineUnderReplicated", "StrandlineOperatorDown"}

    def are_told() -> bool:
        assert wanted <= true_since(prometheus, began)
        return True

    eventually(are_told, FAULT_LIMIT_MS, "alerts of the faults", retry_on=(AssertionError,))
