"""A real Prometheus Operator takes the chart's PodMonitors and PrometheusRule.

It runs as a process over a real API server. Its first use builds it, which takes minutes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline_cli.kubectl import Kubernetes
from tests.support import pod_monitors
from tests.support import strandline_objects as objects
from tests.support.commands import programs, run
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name
from tests.support.object_reader import Manifest
from tests.support.prometheus_operator import (
    PrometheusOperator,
    install_definitions,
    prepared_operator,
    selecting,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

NAME = "k8s"
SELECTED = {"release": "monitoring"}
VALUES = (
    *("--set=podMonitor.enabled=true", "--set=prometheusRule.enabled=true"),
    *(
        "--set=podMonitor.labels.release=monitoring",
        "--set=prometheusRule.labels.release=monitoring",
    ),
)
EVENT_LIMIT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The chart in a namespace of its own, which a Prometheus object watches."""

    namespace: str
    prometheus: Manifest
    monitors: list[Manifest]
    rule: Manifest

    @property
    def jobs(self) -> set[str]:
        """Return the names of the jobs that the PodMonitors lead to."""
        return {pod_monitors.job_of(each)["job_name"] for each in self.monitors}


@pytest.fixture(scope="module")
def prepared() -> Path:
    """Provide the Prometheus Operator's program and definitions."""
    return prepared_operator()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Iterator[ControlPlane]:
    """Provide a control plane with our definitions and those of the Prometheus Operator."""
    started = ControlPlane.start(tmp_path_factory.mktemp("prometheus-operator") / "state")
    install_definitions(started, prepared)
    objects.install_crds(started)
    yield started
    started.stop()


@pytest.fixture
def operator(plane: ControlPlane, prepared: Path, tmp_path: Path) -> Iterator[PrometheusOperator]:
    """Provide a running Prometheus Operator."""
    made = PrometheusOperator(plane, prepared, tmp_path)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Provide a fresh namespace."""
    name = namespace_name(request.node.name)
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")


def version_of(prometheus_programs: Path) -> str:
    """Return the version of the Prometheus that this machine has."""
    printed = run([str(prometheus_programs / "prometheus"), "--version"])
    return "v" + printed.partition("version ")[2].split("+")[0].split()[0]


@pytest.fixture
def installed(plane: ControlPlane, namespace: str, prometheus_programs: Path) -> Installed:
    """Provide the chart as a release that Helm made, and a Prometheus that selects its objects."""
    found = Kubernetes(plane.kubeconfig, namespace, programs())
    found.helm("install", "strandline", str(objects.CHART), *objects.IMAGES, *VALUES)
    version = version_of(prometheus_programs)
    prometheus = selecting(namespace, NAME, SELECTED, version=version)
    plane.apply(prometheus)
    (rule,) = plane.get("prometheusrules", "-n", namespace)["items"]
    monitors = plane.get("podmonitors", "-n", namespace)["items"]
    return Installed(namespace=namespace, prometheus=prometheus, monitors=monitors, rule=rule)


def as_its_pod_reads_it(value: Any) -> Any:
    """Return a configuration with variables filled in, as the reloader in a pod does."""
    text = yaml.safe_dump(value)
    for name, meant in {"SHARD": "0", "POD_NAME": pod_monitors.REPLICA}.items():
        text = text.replace(f"$({name})", meant)
    return yaml.safe_load(text)


def configured(operator: PrometheusOperator, installed: Installed, folder: Path) -> dict[str, Any]:
    """Return what the Prometheus Operator made for the Prometheus, with rules in this folder."""
    config = as_its_pod_reads_it(operator.configuration(installed.prometheus, installed.jobs))
    folder.mkdir()
    rules = eventually(lambda: operator.rules(installed.prometheus), EVENT_LIMIT_MS, "rules")
    for name, text in rules.items():
        (folder / name).write_text(text)
    return {**config, "rule_files": [f"{folder}/*.yaml"]}


def check_jobs(config: dict[str, Any], installed: Installed) -> None:
    """Compare each job with its imitation, and take its discovery away."""
    jobs = {each["job_name"]: each for each in config["scrape_configs"]}
    for monitor in installed.monitors:
        imitated = pod_monitors.job_of(monitor)
        made = jobs[imitated["job_name"]]
        (found,) = made.pop("kubernetes_sd_configs")
        assert (found["role"], found["namespaces"]) == ("pod", {"names": [installed.namespace]})
        assert made == imitated


def test_pod_monitors_and_rules_are_taken_and_become_what_other_tests_imitate(
    operator: PrometheusOperator,
    installed: Installed,
    prometheus_programs: Path,
    tmp_path: Path,
) -> None:
    config = configured(operator, installed, tmp_path / "rules")
    assert operator.refused(installed.namespace) == []
    assert operator.complaints() == []
    assert len(installed.monitors) == 2
    check_jobs(config, installed)
    assert config["global"] == pod_monitors.global_settings(f"{installed.namespace}/{NAME}")
    (rules,) = (tmp_path / "rules").iterdir()
    assert yaml.safe_load(rules.read_text()) == installed.rule["spec"]
    path = tmp_path / "prometheus.yml"
    # Debian's promtool knows no discovery of Kubernetes, which is gone from the jobs by now.
    path.write_text(yaml.safe_dump(config))
    promtool = str(prometheus_programs / "promtool")
    run([promtool, "check", "config", "--lint-fatal", str(path)])
    run([promtool, "check", "rules", "--lint-fatal", str(rules)])


def test_the_newest_prometheus_that_it_knows_gets_the_same(
    operator: PrometheusOperator, plane: ControlPlane, installed: Installed
) -> None:
    newest = selecting(installed.namespace, "newest", SELECTED)
    plane.apply(newest)
    check_jobs(as_its_pod_reads_it(operator.configuration(newest, installed.jobs)), installed)
    stateful_set = eventually(
        lambda: plane.get("statefulset", "prometheus-newest", "-n", installed.namespace),
        EVENT_LIMIT_MS,
        "a StatefulSet, which comes after the configuration",
    )
    (image,) = {
        each["image"]
        for each in stateful_set["spec"]["template"]["spec"]["containers"]
        if each["name"] == "prometheus"
    }
    assert ":v3." in image
    assert operator.refused(installed.namespace) == []


def without_label(monitor: Manifest) -> None:
    monitor["spec"]["podMetricsEndpoints"][0]["relabelings"] = [{"action": "replace"}]


def without_bracket(rule: Manifest) -> None:
    rule["spec"]["groups"][0]["rules"][0]["expr"] += "("


def planted(found: Manifest, spoil: Callable[[Manifest], None]) -> Manifest:
    """Return an object beside one that was found, which it spoils."""
    made = copy.deepcopy({**found, "metadata": {}})
    about = found["metadata"]
    made["metadata"] = {**{key: about[key] for key in ("namespace", "labels")}, "name": "spoilt"}
    spoil(made)
    return made


def test_a_spoilt_pod_monitor_and_a_spoilt_rule_are_refused_and_named(
    operator: PrometheusOperator, plane: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    brokers = next(
        each for each in installed.monitors if each["metadata"]["name"].endswith("-brokers")
    )
    plane.apply([planted(brokers, without_label), planted(installed.rule, without_bracket)])

    def refused() -> bool:
        found = operator.refused(installed.namespace)
        assert set(found) == {"PodMonitor/spoilt", "PrometheusRule/spoilt"}
        return True

    eventually(refused, EVENT_LIMIT_MS, "an Event on each")
    assert [line for line in operator.complaints() if "skipping" in line]
    configured(operator, installed, tmp_path / "rules")
    (rules,) = (tmp_path / "rules").iterdir()
    assert yaml.safe_load(rules.read_text()) == installed.rule["spec"]
