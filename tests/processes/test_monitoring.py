"""Alerts and dashboard on two Prometheuses that scrape the same brokers in their own ways.

One is configured as the chart configures its own, one as the Prometheus Operator configures
kube-prometheus for the chart's PodMonitor. Only the discovery of pods is replaced, by targets that
carry the labels which discovery would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import rendered
from tests.processes.conftest import MakeGroup
from tests.support import dashboard, pod_monitors, strandline_objects
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of
from tests.support.eventually import eventually
from tests.support.prometheus_program import PrometheusProgram

TIMEOUT_SECONDS = 400
pytestmark = [pytest.mark.processes, pytest.mark.timeout(TIMEOUT_SECONDS)]

TOPIC = "watched"
OURS, THEIRS = "ours", "kube-prometheus"
SHOWN_SECONDS = 900
"""Range of the dashboard when it opens."""
SCRAPED_TWICE_WITHIN_MS = 150_000
"""A rate needs two scrapes; each target begins at a moment of its own in the interval of 30 s."""
WITHOUT_OPERATOR = {"StrandlineOperatorDown"}
"""Alerts of brokers that nobody operates, as here."""
POD = "__meta_kubernetes_pod"
SELECTED = {"app_kubernetes_io_name": "strandline", "app_kubernetes_io_component": "broker"}
VALUES = (
    *("--set=prometheus.enabled=true", "--set=podMonitor.enabled=true"),
    *("--set=prometheusRule.enabled=true", "--api-versions=monitoring.coreos.com/v1"),
)


@dataclass
class Scraped:
    """A Prometheus, and how often it scrapes."""

    program: PrometheusProgram
    namespace: str
    scrape_seconds: int

    def without_series(self) -> list[str]:
        """Return the panels and variables whose query has no series at present."""
        return [
            query.asked_by
            for query in (*dashboard.panel_queries(), *dashboard.variable_queries())
            if not self.program.query(
                dashboard.filled_in(
                    query.expression,
                    namespace=self.namespace,
                    cluster=strandline_objects.CLUSTER,
                    scrape_seconds=self.scrape_seconds,
                    range_seconds=SHOWN_SECONDS,
                )
            )
        ]


def discovered(group: BrokerGroup) -> list[dict[str, Any]]:
    """Return what Prometheus's discovery says of the pods: a target for each port that is named."""
    found = []
    for broker in group.brokers:
        http = broker.wait_for("http listening")["port"]
        ports = {"http": http, "grpc": 1}
        for name, port in ports.items():
            labels = {
                "__meta_kubernetes_namespace": group.namespace,
                f"{POD}_name": f"{strandline_objects.CLUSTER}-{broker.folder.name}",
                f"{POD}_ip": "127.0.0.1",
                f"{POD}_phase": "Running",
                f"{POD}_container_name": "broker",
                f"{POD}_container_port_name": name,
                f"{POD}_label_strandline_dev_cluster": strandline_objects.CLUSTER,
            }
            for key, value in SELECTED.items():
                labels |= {f"{POD}_label_{key}": value, f"{POD}_labelpresent_{key}": "true"}
            found.append({"targets": [f"127.0.0.1:{port}"], "labels": labels})
    return found


def our_config(targets: list[dict[str, Any]], alerts: Path) -> dict[str, Any]:
    """Return the configuration of the chart's Prometheus, for the brokers alone."""
    (found,) = [
        item
        for item in rendered.render(*VALUES)
        if item["kind"] == "ConfigMap" and "prometheus.yml" in item["data"]
    ]
    alerts.write_text(found["data"]["alerts.yaml"])
    config: dict[str, Any] = yaml.safe_load(found["data"]["prometheus.yml"])
    job = config["scrape_configs"][0]
    del job["kubernetes_sd_configs"]
    job["static_configs"] = targets
    return {**config, "scrape_configs": [job], "rule_files": [str(alerts)]}


def their_config(targets: list[dict[str, Any]], alerts: Path) -> dict[str, Any]:
    """Return what the Prometheus Operator makes of the PodMonitor and the PrometheusRule.

    Source:  kube-prometheus's Prometheus
    """
    items = rendered.render(*VALUES)
    (rule,) = [item for item in items if item["kind"] == "PrometheusRule"]
    alerts.write_text(yaml.safe_dump(rule["spec"]))
    (monitor,) = [
        item
        for item in items
        if item["kind"] == "PodMonitor" and item["metadata"]["name"].endswith("-brokers")
    ]
    return {
        "global": pod_monitors.global_settings("monitoring/k8s"),
        "scrape_configs": [{**pod_monitors.job_of(monitor), "static_configs": targets}],
        "rule_files": [str(alerts)],
    }


def send_and_lose_a_leader(group: BrokerGroup) -> None:
    """Do what gives each panel a series: records, another leader, a change of the ISR."""
    sent = SentRecords(producer_of(group.bootstrap()), TOPIC)
    sent.send(100)
    sent.settle()
    leader = group.wait_leader(TOPIC)
    group.brokers[leader].freeze()
    eventually(lambda: group.wait_leader(TOPIC) != leader, FAULT_LIMIT_MS, "another leader")
    group.brokers[leader].thaw()
    group.wait_full_isr(TOPIC, 3)


@pytest.fixture
def both(
    make_group: MakeGroup, prometheus_programs: Path, tmp_path: Path
) -> Iterator[tuple[BrokerGroup, dict[str, Scraped]]]:
    """Provide a group of brokers with a topic, and two Prometheuses that scrape it."""
    group = make_group()
    group.start()
    group.create_topic(TOPIC, partitions=3)
    group.wait_full_isr(TOPIC, 3)
    targets = discovered(group)
    found = {}
    with ExitStack() as programs:
        for name, make, seconds in ((OURS, our_config, 1), (THEIRS, their_config, 30)):
            program = PrometheusProgram(prometheus_programs, tmp_path / name)
            programs.callback(program.stop)
            program.start_with(make(targets, tmp_path / f"{name}-alerts.yaml"))
            found[name] = Scraped(program, group.namespace, seconds)
        yield group, found


def test_panels_have_series_and_alerts_are_silent_on_both_prometheuses(
    both: tuple[BrokerGroup, dict[str, Scraped]],
) -> None:
    group, prometheuses = both
    send_and_lose_a_leader(group)
    for name, scraped in prometheuses.items():

        def complete(scraped: Scraped = scraped) -> bool:
            assert scraped.without_series() == []
            return True

        eventually(complete, SCRAPED_TWICE_WITHIN_MS, f"a series for each query in {name}")
        up = scraped.program.query("up")
        assert [each["value"][1] for each in up] == ["1"] * len(group.brokers)
        assert {each["metric"]["job"] for each in up} == {"strandline"}
        clusters = {(each["metric"]["namespace"], each["metric"]["cluster"]) for each in up}
        assert clusters == {(group.namespace, strandline_objects.CLUSTER)}

        def judged(scraped: Scraped = scraped) -> bool:
            rules = scraped.program.rules()
            assert [rule for rule in rules if rule["health"] != "ok"] == []
            return True

        eventually(judged, SCRAPED_TWICE_WITHIN_MS, f"every rule evaluated in {name}")
        fires = {rule["name"] for rule in scraped.program.rules() if rule["state"] == "firing"}
        assert fires <= WITHOUT_OPERATOR
    theirs = prometheuses[THEIRS].program.query("strandline_broker_partitions")
    fixed = "rate(strandline_produced_records_total[10s])"
    assert prometheuses[OURS].program.query(fixed)
    assert not prometheuses[THEIRS].program.query(fixed), "a window of 10 s has no two scrapes"
    extra = {"container", "endpoint", "instance", "job", "namespace", "pod", "cluster"}
    assert all(extra < set(each["metric"]) for each in theirs)
