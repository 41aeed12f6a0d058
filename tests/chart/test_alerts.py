"""The alerts: one file for two ways to Prometheus, a runbook for each, and a story for each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline import names
from strandline.names import MetricKind
from tests.chart import rendered
from tests.chart.alert_cases import CASES as PLAIN_CASES
from tests.chart.alert_cases import AlertCase
from tests.chart.slow_alert_cases import SLOW_CASES
from tests.support.commands import REPOSITORY, CommandError, run
from tests.support.strandline_objects import CHART

ALERTS = CHART / "alerts" / "strandline.yaml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
]
BY_NAME = {rule["alert"]: rule for rule in RULES}
RUNBOOKS = REPOSITORY / "docs" / "runbooks.md"
PARTS = ("Means", "Clients", "Look", "Do")
CASES = (*PLAIN_CASES, *SLOW_CASES)
SERVED = "--api-versions=monitoring.coreos.com/v1"
METRIC = re.compile(r"strandline_\w+")
BOTH = ("--set=podMonitor.enabled=true", "--set=prometheusRule.enabled=true")
JOBS = {"strandline", "strandline-operator"}


def sections() -> dict[str, str]:
    """Return the text of each alert's section."""
    parts = re.split(r"^### (\w+)$", RUNBOOKS.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def labels_of(case: AlertCase) -> str:
    """Return what tells the cases of an alert apart."""
    return f"{case.alert} at {case.at}"


def exported() -> dict[str, names.Metric]:
    rows = (*names.ALL_METRICS, *names.OPERATOR_METRICS)
    parts = {
        f"{row.name}{part}": row
        for row in rows
        if row.kind is MetricKind.HISTOGRAM
        for part in ("_bucket", "_count", "_sum")
    }
    return {row.name: row for row in rows if row.kind is not MetricKind.HISTOGRAM} | parts


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    assert list(sections()) == list(BY_NAME)
    assert len(BY_NAME) == len(RULES)
    for name, text in sections().items():
        assert re.findall(r"^- \*\*(\w+):\*\* \S", text, flags=re.MULTILINE) == list(PARTS), name


@pytest.mark.parametrize("name", BY_NAME)
def test_an_alert_says_what_is_amiss_how_bad_it_is_and_what_to_do(name: str) -> None:
    rule = BY_NAME[name]
    assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{name.lower()}"


@pytest.mark.parametrize("name", BY_NAME)
def test_an_alert_asks_for_metrics_that_are_exported(name: str) -> None:
    expression = re.sub(r'"[^"]*"', "", BY_NAME[name]["expr"])
    used = set(METRIC.findall(expression))
    assert used <= exported().keys()
    assert used or 'up{job="' in BY_NAME[name]["expr"]
    # Another way to scrape may give other jobs; only `up` cannot do without.
    assert expression.count("job=") == expression.count("up{job=")


@pytest.mark.parametrize("name", BY_NAME)
def test_an_alert_has_a_story_whose_labels_its_texts_use(name: str) -> None:
    cases = [case for case in CASES if case.alert == name]
    assert cases
    texts = " ".join(BY_NAME[name]["annotations"].values())
    for case in cases:
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= case.labels.keys()
        assert case.fires != case.quiet


def story(name: str, case: AlertCase, series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    """Return a test of promtool: whether the alert fires, and that it did not before its time."""
    query = f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}'
    labels = {
        **case.labels,
        **BY_NAME[case.alert]["labels"],
        "__name__": "ALERTS",
        "alertname": case.alert,
        "alertstate": "firing",
    }
    text = ",".join(f'{key}="{value}"' for key, value in labels.items() if key != "__name__")
    found = [{"labels": f"ALERTS{{{text}}}", "value": 1}] if fires else []
    moments: list[dict[str, Any]] = [{"expr": query, "eval_time": case.at, "exp_samples": found}]
    if "for" in BY_NAME[case.alert]:
        # The first sample is at 0, so nothing can have lasted for long enough.
        early = {"expr": query, "eval_time": "30s", "exp_samples": []}
        moments.insert(0, early)
    return {
        "name": name,
        "interval": "30s",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": moments,
    }


@pytest.mark.processes
@pytest.mark.parametrize("case", CASES, ids=labels_of)
def test_an_alert_fires_in_its_story_and_in_no_other(
    case: AlertCase, prometheus_programs: Path, tmp_path: Path
) -> None:
    stories = [
        story("fires", case, dict(case.fires), fires=True),
        story("does not fire", case, dict(case.quiet), fires=False),
    ]
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "30s", "tests": stories}
    path = tmp_path / "stories.yaml"
    path.write_text(yaml.safe_dump(tests))
    run([str(prometheus_programs / "promtool"), "test", "rules", str(path)])


@pytest.mark.processes
def test_a_story_that_ends_otherwise_is_told(prometheus_programs: Path, tmp_path: Path) -> None:
    wrong = story("wrong", CASES[0], dict(CASES[0].quiet), fires=True)
    path = tmp_path / "stories.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [wrong]}))
    with pytest.raises(CommandError):
        run([str(prometheus_programs / "promtool"), "test", "rules", str(path)])


@pytest.mark.processes
def test_both_ways_to_prometheus_have_the_alerts_of_the_file(
    prometheus_programs: Path, tmp_path: Path
) -> None:
    items = rendered.render(*BOTH, SERVED, "--set=prometheus.enabled=true")
    found = {(item["kind"], item["metadata"]["name"]): item for item in items}
    rule = found["PrometheusRule", "strandline"]
    ours = found["ConfigMap", "strandline-prometheus"]["data"]
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())
    assert yaml.safe_load(ours["alerts.yaml"]) == rule["spec"]
    assert yaml.safe_load(ours["prometheus.yml"])["rule_files"] == ["/etc/strandline/alerts.yaml"]
    path = tmp_path / "alerts.yaml"
    path.write_text(ours["alerts.yaml"])
    printed = run([str(prometheus_programs / "promtool"), "check", "rules", str(path)])
    assert f"{len(RULES)} rules found" in printed


@pytest.mark.processes
def test_the_place_of_the_runbooks_is_a_value() -> None:
    items = rendered.render(*BOTH, SERVED, "--set=prometheusRule.runbooks=https://wiki/strandline")
    (rule,) = [item for item in items if item["kind"] == "PrometheusRule"]
    first = rule["spec"]["groups"][0]["rules"][0]
    assert (
        first["annotations"]["runbook_url"] == f"https://wiki/strandline#{first['alert'].lower()}"
    )


@pytest.mark.processes
def test_pod_monitors_select_brokers_and_operator_and_give_the_labels_of_our_prometheus() -> None:
    items = rendered.render(
        *(*BOTH, SERVED, "--set=watchNamespaces={one,two}", "--set=podMonitor.interval=15s"),
        *("--set=podMonitor.labels.release=kps", "--set=prometheusRule.labels.role=rules"),
    )
    monitors = {
        item["metadata"]["name"]: item["spec"] for item in items if item["kind"] == "PodMonitor"
    }
    labels = {
        item["kind"]: item["metadata"]["labels"]
        for item in items
        if item["apiVersion"] == "monitoring.coreos.com/v1"
    }
    assert labels["PodMonitor"]["release"] == "kps"
    assert labels["PrometheusRule"]["role"] == "rules"
    brokers, operator = monitors["strandline-brokers"], monitors["strandline-operator"]
    assert brokers["namespaceSelector"] == {"matchNames": ["one", "two"]}
    assert "namespaceSelector" not in operator
    (deployment,) = [
        item
        for item in items
        if item["kind"] == "Deployment" and item["metadata"]["name"] == "strandline-operator"
    ]
    template = deployment["spec"]["template"]
    wanted = operator["selector"]["matchLabels"]
    assert wanted.items() <= template["metadata"]["labels"].items()
    given: dict[str, dict[str, Any]] = {}
    for spec in (brokers, operator):
        (endpoint,) = spec["podMetricsEndpoints"]
        assert endpoint["interval"] == "15s"
        given |= {each["targetLabel"]: each for each in endpoint["relabelings"]}
        assert given["job"]["replacement"] in JOBS
    assert given["cluster"]["sourceLabels"] == [
        "__meta_kubernetes_pod_label_strandline_dev_cluster"
    ]
    (endpoint,) = operator["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}


@pytest.mark.processes
@pytest.mark.parametrize("value", ["podMonitor", "prometheusRule"])
def test_where_nobody_would_read_them_a_sentence_refuses_them(value: str) -> None:
    with pytest.raises(CommandError, match=rf"{value}.enabled needs the API monitoring.coreos.com"):
        rendered.render(f"--set={value}.enabled=true")
    assert rendered.render(f"--set={value}.enabled=true", SERVED)


@pytest.mark.processes
@pytest.mark.parametrize(
    "wrong",
    [
        "podMonitor.enabled=maybe",
        "podMonitor.interval=often",
        "podMonitor.labels.a=1",
        "podMonitor.colour=red",
        "prometheusRule.enabled=maybe",
        "prometheusRule.runbooks=",
        "prometheusRule.colour=red",
    ],
)
def test_wrong_values_are_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="values don't meet the specifications"):
        rendered.render(f"--set={wrong}")
