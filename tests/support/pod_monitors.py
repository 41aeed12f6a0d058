"""What the Prometheus Operator makes of the chart's PodMonitors, for tests that run without it.

tests/long/test_prometheus_operator.py compares this with what a real one makes.
"""

from __future__ import annotations

from typing import Any

from tests.support.object_reader import Manifest

POD = "__meta_kubernetes_pod"
HASH = "__tmp_hash"
REPLICA = "prometheus-k8s-0"
"""The pod of kube-prometheus's Prometheus."""
FIELDS = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
"""A PodMonitor's spelling, and Prometheus's."""

Relabelling = dict[str, Any]


def job_of(monitor: Manifest) -> dict[str, Any]:
    """Return the scrape configuration of a PodMonitor's only endpoint, without the discovery.

    Source:  prometheus-operator, pkg/prometheus/promcfg.go, generatePodMonitorConfig
    """
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    about = monitor["metadata"]
    name = f"{about['namespace']}/{about['name']}"
    return {
        "job_name": f"podMonitor/{name}/0",
        "honor_labels": False,
        "scrape_interval": endpoint["interval"],
        "metrics_path": endpoint["path"],
        "relabel_configs": [
            *_selection(monitor["spec"]["selector"]["matchLabels"], endpoint["port"]),
            *_labels(name, endpoint["port"]),
            *(_relabelling(each) for each in endpoint["relabelings"]),
            *_sharding(),
        ],
    }


def global_settings(prometheus: str) -> dict[str, Any]:
    """Return the global section for a Prometheus, given as namespace/name."""
    outside = {"prometheus": prometheus, "prometheus_replica": REPLICA}
    return {"scrape_interval": "30s", "evaluation_interval": "30s", "external_labels": outside}


def _selection(match_labels: dict[str, str], port: str) -> list[Relabelling]:
    """Return what drops the targets that are not meant."""
    found: list[Relabelling] = [
        {"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"},
        {"action": "drop", "source_labels": [f"{POD}_phase"], "regex": "(Failed|Succeeded)"},
    ]
    for key, value in sorted(match_labels.items()):
        label = key.translate(str.maketrans("./-", "___"))
        source = [f"{POD}_label_{label}", f"{POD}_labelpresent_{label}"]
        found.append({"action": "keep", "source_labels": source, "regex": f"({value});true"})
    source = [f"{POD}_container_port_name"]
    return [*found, {"action": "keep", "source_labels": source, "regex": port}]


def _labels(name: str, port: str) -> list[Relabelling]:
    """Return what gives each target its labels."""
    return [
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": [f"{POD}_container_name"], "target_label": "container"},
        {"source_labels": [f"{POD}_name"], "target_label": "pod"},
        {"target_label": "job", "replacement": name},
        {"target_label": "endpoint", "replacement": port},
    ]


def _relabelling(given: dict[str, Any]) -> Relabelling:
    """Return a PodMonitor's own relabelling; the API server fills in the action."""
    return {"action": "replace"} | {FIELDS.get(key, key): value for key, value in given.items()}


def _sharding() -> list[Relabelling]:
    """Return what shares targets among Prometheuses, here one."""
    return [
        {
            "action": "replace",
            "source_labels": ["__address__", HASH],
            "target_label": HASH,
            "regex": "(.+);",
            "replacement": "$1",
        },
        {"action": "hashmod", "source_labels": [HASH], "target_label": HASH, "modulus": 1},
        {
            "action": "keep",
            "source_labels": [HASH, "__tmp_disable_sharding"],
            "regex": "0;|.+;.+",
        },
    ]
