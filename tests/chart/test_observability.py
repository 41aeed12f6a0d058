"""The chart's Prometheus, dashboards and analysis: off by default, restricted, exact."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline import names
from strandline.config.timing import SAFE
from strandline.names import MetricKind
from strandline_analysis.executors import BLOCK_PORT, DRIVER_PORT, Executors
from strandline_analysis.outcome import LITTLE_KNOWN, NO_DATA
from strandline_analysis.task import COVERAGE_MIN, add_options
from strandline_operator.analysis import ANALYSIS_OF_LABEL
from tests.chart import rendered
from tests.support import dashboard
from tests.support.commands import CommandError
from tests.support.strandline_objects import CHART

pytestmark = pytest.mark.processes

ON = ("--set=prometheus.enabled=true", "--set=dashboards.enabled=true")
ANALYSIS = "--set=analysis.enabled=true"
SUMMARY = "strandline-analysis-summary"
OF_THE_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The container's part of the restricted context; the pod's own part has the rest."""
METRIC = re.compile(r"strandline_[a-z]+(?:_[a-z]+)+")
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def objects(*values: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(item["kind"], item["metadata"]["name"]): item for item in rendered.render(*values)}


def pod_of(item: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = item["spec"]["template"]["spec"]
    return pod


def test_observability_is_off_by_default() -> None:
    found = " ".join(name for _, name in objects())
    assert not re.search("prometheus|dashboards|analysis", found)


def test_prometheus_may_find_pods_of_its_namespace_and_nothing_else() -> None:
    found = objects(*ON)
    role = found["Role", "strandline-prometheus"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    binding = found["RoleBinding", "strandline-prometheus"]
    assert binding["roleRef"]["name"] == "strandline-prometheus"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "strandline-prometheus", "namespace": "somewhere"}
    ]
    clusters = [name for kind, name in found if kind in {"ClusterRole", "ClusterRoleBinding"}]
    assert not [name for name in clusters if "prometheus" in name]


def test_prometheus_scrapes_brokers_of_its_namespace_each_second() -> None:
    text = objects(*ON)["ConfigMap", "strandline-prometheus"]["data"]["prometheus.yml"]
    config = yaml.safe_load(text)
    assert config["global"] == {
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "evaluation_interval": "15s",
    }
    assert [job["job_name"] for job in config["scrape_configs"]] == [
        "strandline",
        "strandline-operator",
    ]
    wanted = [{"names": ["somewhere"]}, {"own_namespace": True}]
    for job, namespaces in zip(config["scrape_configs"], wanted, strict=True):
        (discovery,) = job["kubernetes_sd_configs"]
        assert discovery["namespaces"] == namespaces


def test_prometheus_scrapes_the_operators_port_of_metrics() -> None:
    found = objects(*ON)
    config = yaml.safe_load(found["ConfigMap", "strandline-prometheus"]["data"]["prometheus.yml"])
    job = config["scrape_configs"][1]
    (selector,) = job["kubernetes_sd_configs"][0]["selectors"]
    pod = found["Deployment", "strandline-operator"]["spec"]["template"]
    wanted = dict(each.split("=") for each in selector["label"].split(","))
    assert wanted.items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert job["relabel_configs"][0]["regex"] == "metrics"
    assert env["METRICS_PORT"] == str(ports["metrics"])


def test_image_interval_and_retention_of_prometheus_are_values() -> None:
    values = (
        *ON,
        "--set=prometheus.image.repository=prom/prometheus",
        "--set=prometheus.image.tag=v2.53.3",
        "--set=prometheus.scrapeInterval=5s",
        "--set=prometheus.retention.time=2d",
    )
    found = objects(*values)
    container = pod_of(found["Deployment", "strandline-prometheus"])["containers"][0]
    assert container["image"] == "prom/prometheus:v2.53.3"
    assert "--storage.tsdb.retention.time=2d" in container["args"]
    config = found["ConfigMap", "strandline-prometheus"]["data"]["prometheus.yml"]
    assert "scrape_interval: 5s" in config


def test_a_changed_configuration_replaces_the_prometheus_pod() -> None:
    def digest(*values: str) -> str:
        template = objects(*ON, *values)["Deployment", "strandline-prometheus"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["strandline.dev/values"])

    assert digest() == digest()
    assert digest() != digest("--set=prometheus.scrapeInterval=5s")


def test_the_analysis_job_connects_to_prometheus_alone() -> None:
    found = objects(
        ANALYSIS,
        "--set=analysis.name=tuesday",
        "--set=analysis.summaryOf=",
        "--set=analysis.start=2026-01-01T00:00:00Z",
        '--set-json=analysis.faults=[{"name":"a","atMs":1790000000123}]',
        "--set=analysis.cluster=strandline/orders",
    )
    pod = pod_of(found["Job", "strandline-tuesday"])
    assert pod["automountServiceAccountToken"] is False
    of_run = [kind for kind, name in found if "tuesday" in name]
    assert sorted(of_run) == ["ConfigMap", "Job", "ServiceAccount"]
    args = pod["containers"][0]["args"]
    assert args[:3] == ["python", "-m", "strandline_analysis.job"]
    assert "--prometheus=http://strandline-prometheus:9090" in args
    assert "--start=2026-01-01T00:00:00Z" in args
    assert not [each for each in args if each.startswith(("--end", "--summary"))]
    assert f"--lag-time-max-ms={SAFE.replica_lag_time_max_ms}" in args
    assert f"--coverage-min={COVERAGE_MIN}" in args
    assert "--cluster=strandline/orders" in args
    (rule,) = found["Job", "strandline-tuesday"]["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == [NO_DATA, LITTLE_KNOWN]
    assert rule["onExitCodes"]["containerName"] == pod["containers"][0]["name"]
    faults = found["ConfigMap", "strandline-tuesday"]["data"]["faults.json"]
    assert json.loads(faults) == [{"name": "a", "atMs": 1790000000123}]


def test_another_prometheus_can_be_analysed() -> None:
    job = objects(ANALYSIS, "--set=analysis.prometheusUrl=http://other:1")[
        "Job", "strandline-analysis"
    ]
    assert "--prometheus=http://other:1" in pod_of(job)["containers"][0]["args"]


@pytest.mark.parametrize("schedule", ["", "5 * * * *"])
def test_the_job_may_patch_the_one_config_map_that_tells_the_operator(schedule: str) -> None:
    values = (ANALYSIS, "--set=analysis.summaryOf=east", f"--set=analysis.schedule={schedule}")
    found = objects(*values)
    job = found["CronJob" if schedule else "Job", "strandline-analysis"]["spec"]
    pod = (job["jobTemplate"]["spec"] if schedule else job)["template"]["spec"]
    (container,) = pod["containers"]
    assert {"--summary-of=east", f"--summary-config-map={SUMMARY}"} < set(container["args"])
    assert pod["automountServiceAccountToken"] is True
    (rule,) = found["Role", "strandline-analysis"]["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [SUMMARY],
        "verbs": ["patch"],
    }
    made = found["ConfigMap", SUMMARY]
    assert made["metadata"]["labels"][ANALYSIS_OF_LABEL] == "east"
    assert "data" not in made
    assert not [name for kind, name in found if "Policy" in kind and name == "strandline-analysis"]


def test_the_job_asks_for_a_summary_as_it_reads_its_options() -> None:
    args = pod_of(objects(ANALYSIS)["Job", "strandline-analysis"])["containers"][0]["args"]
    parser = argparse.ArgumentParser()
    add_options(parser)
    given = parser.parse_args(args[3:])
    assert (given.summary_config_map, given.summary_of) == (SUMMARY, "default")
    outside = parser.parse_args(["--prometheus=http://p", "--out=o"])
    assert outside.summary_config_map == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_one_value_asks_for_the_tables_that_the_report_does_not_show(wanted: bool) -> None:
    value = f"--set=analysis.allTables={str(wanted).lower()}"
    args = pod_of(objects(ANALYSIS, value)["Job", "strandline-analysis"])["containers"][0]["args"]
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert parser.parse_args(args[3:]).all_tables is wanted


SCHEDULE = "5 * * * *"


def test_a_schedule_lands_samples_in_a_lake_before_each_run() -> None:
    found = objects(
        *(ANALYSIS, f"--set=analysis.schedule={SCHEDULE}", "--set=analysis.window=6h"),
        *("--set=analysis.lake.sliceMinutes=30", "--set=analysis.lake.keep=7d"),
    )
    assert not [name for kind, name in found if kind == "Job"]
    spec = found["CronJob", "strandline-analysis"]["spec"]
    assert (spec["schedule"], spec["timeZone"], spec["concurrencyPolicy"]) == (
        SCHEDULE,
        "Etc/UTC",
        "Forbid",
    )
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (ingest,), (analysis,) = pod["initContainers"], pod["containers"]
    assert ingest["args"][2] == "strandline_analysis.ingest"
    assert {"--lake=/lake", "--slice-ms=1800000", "--keep=7d"} < set(ingest["args"])
    assert {"--lake=/lake", "--window=6h"} < set(analysis["args"])
    assert not [each for each in analysis["args"] if each.startswith("--prometheus")]
    for container, may_write in ((ingest, True), (analysis, False)):
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "lake"]
        assert mount.get("readOnly", False) is not may_write
        assert container["securityContext"] == OF_THE_CONTAINER
    (lake,) = [each for each in pod["volumes"] if each["name"] == "lake"]
    claim = lake["persistentVolumeClaim"]["claimName"]
    kept = found["PersistentVolumeClaim", claim]["metadata"]["annotations"]
    assert kept == {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("analysis.executors=1", "a lake is read in the Job's own pod alone"),
        ("analysis.start=2026-01-01T00:00:00Z", "start, end and faults must be empty"),
    ],
)
def test_what_a_schedule_cannot_have_is_refused(value: str, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        objects(ANALYSIS, f"--set=analysis.schedule={SCHEDULE}", f"--set={value}")


EXECUTORS = (ANALYSIS, "--set=analysis.executors=2", "--set=analysis.executor.memoryMiB=512")


def test_one_value_lets_pods_of_the_same_image_do_the_work() -> None:
    found = objects(*EXECUTORS, "--set=imagePullSecrets[0].name=pull")
    pod = pod_of(found["Job", "strandline-analysis"])
    container = pod["containers"][0]
    assert pod["automountServiceAccountToken"] is True
    assert "--executors=/etc/strandline/executors.json" in container["args"]
    assert {each["name"] for each in container["env"]} == {"POD_NAME", "POD_NAMESPACE", "POD_IP"}
    data = found["ConfigMap", "strandline-analysis"]["data"]
    told = Executors(**json.loads(data["executors.json"]))
    assert (told.count, told.memory_mib, told.image) == (2, 512, container["image"])
    template = yaml.safe_load(data["executor.yaml"])
    assert template["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert told.template == "/etc/strandline/executor.yaml"


def test_the_driver_may_handle_pods_of_its_namespace_and_nothing_else() -> None:
    found = objects(*EXECUTORS)
    rule, summary = found["Role", "strandline-analysis"]["rules"]
    assert rule["apiGroups"] == [""]
    assert rule["resources"] == ["pods"]
    assert summary["resources"] == ["configmaps"]
    (alone,) = objects(*EXECUTORS, "--set=analysis.summaryOf=")["Role", "strandline-analysis"][
        "rules"
    ]
    assert alone == rule
    binding = found["RoleBinding", "strandline-analysis"]
    assert [each["name"] for each in binding["subjects"]] == ["strandline-analysis"]


def test_the_pods_of_executors_are_restricted_and_have_no_token() -> None:
    data = objects(*EXECUTORS)["ConfigMap", "strandline-analysis"]["data"]
    pod = yaml.safe_load(data["executor.yaml"])["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == OF_THE_CONTAINER
    assert pod["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_only_pods_of_one_analysis_reach_each_other_at_sparks_ports() -> None:
    found = objects(*EXECUTORS)
    policy = found["NetworkPolicy", "strandline-analysis"]["spec"]
    labels = policy["podSelector"]["matchLabels"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": labels}}]
    assert {each["port"] for each in rule["ports"]} == {DRIVER_PORT, BLOCK_PORT}
    driver = found["Job", "strandline-analysis"]["spec"]["template"]["metadata"]["labels"]
    data = found["ConfigMap", "strandline-analysis"]["data"]
    executor = yaml.safe_load(data["executor.yaml"])["metadata"]["labels"]
    assert driver == executor == labels
    other = objects(*EXECUTORS, "--set=analysis.name=tuesday")
    assert other["NetworkPolicy", "strandline-tuesday"]["spec"]["podSelector"] != {
        "matchLabels": labels
    }


@pytest.mark.parametrize(
    "value", ["executors=-1", "executors=1.5", "executor.memoryMiB=100", "executor.cores=0"]
)
def test_executors_that_spark_would_refuse_are_refused_by_the_chart(value: str) -> None:
    with pytest.raises(CommandError, match="analysis"):
        objects(ANALYSIS, f"--set=analysis.{value}")


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_their_pods_are_restricted(kind: str) -> None:
    name = {"Deployment": "strandline-prometheus", "Job": "strandline-analysis"}[kind]
    pod = pod_of(objects(*ON, ANALYSIS)[kind, name])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == OF_THE_CONTAINER


def test_the_dashboard_is_found_by_its_label() -> None:
    found = objects(*ON)["ConfigMap", "strandline-dashboards"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["strandline.json"])["uid"] == "strandline"


@pytest.mark.parametrize(
    "path", sorted((CHART / "dashboards").glob("*.json")), ids=lambda p: p.name
)
def test_dashboards_use_declared_names_with_declared_labels(path: Path) -> None:
    rows = {row.name: row for row in names.ALL_METRICS}
    parts = {
        f"{row.name}{part}": row
        for row in names.ALL_METRICS
        if row.kind is MetricKind.HISTOGRAM
        for part in HISTOGRAM_PARTS
    }
    text = path.read_text()
    used = set(METRIC.findall(text))
    assert len(used) >= 15
    assert used <= rows.keys() | parts.keys()
    counters = {name for name in used if name.endswith("_total")}
    dashboard = json.loads(text)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            plain = counters & set(METRIC.findall(expression))
            rated = re.search(r"rate\(|increase\(", expression)
            assert not plain or rated or panel["description"].startswith("Since"), expression
            by_topic = "topic=~" in expression
            for name in METRIC.findall(expression):
                row = parts.get(name) or rows[name]
                assert not by_topic or "topic" in row.labels, expression


def test_queries_of_the_dashboard_tell_clusters_apart_and_suit_any_scrape_interval() -> None:
    for query in (*dashboard.panel_queries(), *dashboard.variable_queries()):
        expression = query.expression
        selectors = re.findall(r"\b(?:up|strandline_\w+)\b(\{[^}]*\})?", expression)
        assert selectors, query
        wanted = {"namespace": [], "cluster": ['namespace="$namespace"']}.get(
            query.asked_by, ['namespace="$namespace"', 'cluster="$cluster"']
        )
        for selector in selectors:
            assert [each for each in wanted if each not in selector] == [], query
        windows = re.findall(r"\[([^]]*)\]", expression)
        assert set(windows) <= {"$__rate_interval"}, query
    names_of = [variable["name"] for variable in dashboard.dashboard()["templating"]["list"]]
    assert names_of == ["datasource", "namespace", "cluster", "topic"]


@pytest.mark.parametrize(
    ("scrape_seconds", "range_seconds", "expected"),
    [(30, 900, 120), (1, 900, 4), (30, 86_400, 138), (15, 3600, 60)],
)
def test_the_rate_interval_is_grafanas(
    scrape_seconds: int, range_seconds: int, expected: int
) -> None:
    found = dashboard.rate_interval_seconds(
        scrape_seconds=scrape_seconds, range_seconds=range_seconds
    )
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        "prometheus.enabled=maybe",
        "prometheus.scrapeInterval=often",
        "prometheus.retention.size=5",
        "analysis.start=yesterday",
        "analysis.name=Upper",
        "analysis.deadlineSeconds=1",
        "analysis.cluster=orders/",
        "analysis.lagTimeMaxMs=0",
        "analysis.coverageMin=1.5",
        "analysis.window=a day",
        "analysis.summaryOf=Upper",
        "analysis.lake.sliceMinutes=0",
        "analysis.prometheusUrl=nowhere",
        "dashboards.colour=red",
    ],
)
def test_wrong_values_are_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="values don't meet the specifications"):
        rendered.render(f"--set={wrong}")
