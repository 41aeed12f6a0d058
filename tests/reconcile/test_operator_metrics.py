"""What the operator tells Prometheus of its passes, its queue, its requests and all conditions."""

from __future__ import annotations

import json
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline.kube.api import RequestDone
from strandline.names import OPERATOR_METRICS, MetricKind
from strandline_operator.observed import ConditionSample
from strandline_operator.operator_metrics import OperatorMetrics
from tests.chart.analysis_cases import ANALYSIS_STATUS
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders, topic

RUN = ANALYSIS_STATUS["analysis"]
READY = {
    "kind": "BrokerCluster",
    "name": "default",
    "condition": "Ready",
    "reason": "BrokersNotReady",
}


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the value of each sample by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(text: bytes, name: str, /, **labels: str) -> float | None:
    return samples(text).get((name, frozenset(labels.items())))


def condition(name: str, status: str) -> ConditionSample:
    return ConditionSample(
        kind="BrokerCluster",
        name=name,
        condition="Ready",
        status=status,
        reason="BrokersNotReady",
    )


def test_passes_are_there_from_the_start_and_counted_by_kind_and_result() -> None:
    metrics = OperatorMetrics()
    text = metrics.text(is_ready=True, queue_length=0, conditions=())
    total, labels = "strandline_operator_reconciles_total", {"kind": "BrokerCluster"}
    assert value(text, total, **labels, result="failed") == 0
    metrics.pass_ended("BrokerCluster", is_done=False, seconds=0.2)
    metrics.pass_ended("BrokerCluster", is_done=True, seconds=0.2)
    text = metrics.text(is_ready=True, queue_length=4, conditions=())
    assert value(text, total, **labels, result="failed") == 1
    assert value(text, total, **labels, result="done") == 1
    assert value(text, "strandline_operator_reconcile_seconds_count", **labels) == 2
    assert value(text, "strandline_operator_queue_length") == 4


@pytest.mark.parametrize("is_ready", [True, False])
def test_readiness_is_a_gauge(is_ready: bool) -> None:
    text = OperatorMetrics().text(is_ready=is_ready, queue_length=0, conditions=())
    assert value(text, "strandline_operator_ready") == is_ready


def test_requests_are_counted_as_brokers_count_theirs() -> None:
    metrics = OperatorMetrics()
    metrics.request_done(RequestDone(verb="apply", resource="services", code="403", seconds=0.1))
    text = metrics.text(is_ready=True, queue_length=0, conditions=())
    labels = {"verb": "apply", "resource": "services", "code": "403"}
    assert value(text, "strandline_kubernetes_requests_total", **labels) == 1


@pytest.mark.parametrize(("status", "shown"), [("True", 1), ("False", 0), ("Unknown", -1)])
def test_a_condition_is_a_gauge_that_goes_with_its_object(status: str, shown: int) -> None:
    metrics = OperatorMetrics()
    name = "strandline_operator_condition"
    text = metrics.text(is_ready=True, queue_length=0, conditions=[condition("default", status)])
    assert value(text, name, **READY) == shown
    text = metrics.text(is_ready=True, queue_length=0, conditions=[condition("other", "True")])
    assert value(text, name, **READY) is None


@pytest.mark.processes
@pytest.mark.timeout(240)
def test_an_operator_exports_every_row_of_its_list(operator: OperatorProcess) -> None:
    def text() -> bytes:
        url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as response:
            whole: bytes = response.read()
            return whole

    apply_orders(operator)
    operator.kubectl("apply", "-f", "-", stdin=topic("wide", replicationFactor=5))
    operator.wait_for(
        "a condition", lambda: value(text(), "strandline_operator_condition", **READY) == 0
    )
    labels = {"strandline.dev/analysis-of": "default"}
    told = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a-summary", "labels": labels},
        "data": {"summary.json": json.dumps({"version": 1, "cluster": "default", **RUN})},
    }
    operator.kubectl("apply", "-f", "-", stdin=json.dumps(told))
    operator.wait_for(
        "the analysis",
        lambda: value(text(), "strandline_analysis_elections", cluster="default") == 3,
    )
    whole = text()
    exported = {name for name, _ in samples(whole)}
    assert not any(name.endswith("_created") for name in exported)
    for row in OPERATOR_METRICS:
        suffix = "_count" if row.kind is MetricKind.HISTOGRAM else ""
        assert f"{row.name}{suffix}" in exported
    done = value(whole, "strandline_operator_reconciles_total", kind="BrokerCluster", result="done")
    assert done is not None
    assert done >= 1
    applied = {"verb": "apply", "resource": "statefulsets", "code": "201"}
    assert value(whole, "strandline_kubernetes_requests_total", **applied) == 1
    operator.wait_for(
        "the refused topic",
        lambda: (
            value(
                text(),
                "strandline_operator_condition",
                kind="ReplicatedTopic",
                name="wide",
                condition="Stalled",
                reason="InvalidReplicationFactor",
            )
            == 1
        ),
    )
