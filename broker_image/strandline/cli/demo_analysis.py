"""What Prometheus and Spark say of the demo's faults, beside what the demo did and measured.

A small Prometheus scrapes every broker once a second while the demo runs; then the Spark job
reads its samples as a Kubernetes Job and prints the elections and ISR intervals it found.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import demo_cluster
from .kubectl import Kubernetes
from .verdict import FaultSeen

NODE = "worker1"
"""The node under hack/ that has the analysis image: a gigabyte is loaded once."""
OFFICIAL_PROMETHEUS = "prom/prometheus:v2.53.3"
JOB_SECONDS = 600.0
POLL_SECONDS = 1.0
JOB = f"{demo_cluster.RELEASE}-analysis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """Images of Prometheus and of the analysis; node is the one that has the latter, or empty."""

    images: dict[str, str]
    node: str = ""

    def chart_values(self) -> list[str]:
        """Return the chart's values that turn Prometheus on."""
        values = ["prometheus.enabled=true"]
        for name, reference in self.images.items():
            repository, _, tag = reference.rpartition(":")
            values += [f"{name}.image.repository={repository}", f"{name}.image.tag={tag}"]
        return values

    def node_selector(self) -> dict[str, str]:
        """Return where the analysis may run."""
        return {"kubernetes.io/hostname": self.node} if self.node else {}


def load_images(
    root: Path, environment: demo_cluster.DemoEnvironment, say: Callable[[str], None]
) -> Observers:
    """Bring both images; where images come from a registry, Prometheus is the official one."""
    if environment.kind == "hack":
        prometheus = demo_cluster.load_images(root, environment, ["prometheus"], say)
        analysis = demo_cluster.load_images(root, environment, ["analysis"], say, node=NODE)
        return Observers(images=prometheus | analysis, node=NODE)
    if environment.kind == "kind" or os.environ.get("IMAGES"):
        analysis = demo_cluster.load_images(root, environment, ["analysis"], say)
        return Observers(images={"prometheus": OFFICIAL_PROMETHEUS} | analysis)
    return Observers(
        images=demo_cluster.load_images(root, environment, ["prometheus", "analysis"], say)
    )


def analyse(
    root: Path,
    kubernetes: Kubernetes,
    values: Sequence[str],
    faults: Sequence[FaultSeen],
    *,
    observers: Observers,
    since_ms: int,
) -> str:
    """Run the Job over everything since then and return what it printed.

    Raises:  CommandFailed if the Job cannot be made or read; DemoFailed if it fails
    """
    given = [
        {
            "name": fault.name,
            "atMs": fault.at_ms,
            "brokerId": fault.broker,
            "gapMs": fault.longest_gap_ms,
        }
        for fault in faults
    ]
    moment = datetime.fromtimestamp(since_ms / 1000, tz=UTC)
    manifest = kubernetes.helm(
        *("template", demo_cluster.RELEASE, str(root / "helm" / "strandline")),
        *(f"--set={value}" for value in values),
        *("--set=analysis.enabled=true", f"--set=analysis.start={moment:%Y-%m-%dT%H:%M:%SZ}"),
        f"--set-json=analysis.faults={json.dumps(given)}",
        f"--set-json=analysis.nodeSelector={json.dumps(observers.node_selector())}",
        *("--show-only", "templates/analysis.yaml", f"--kube-version={_version(kubernetes)}"),
    )
    kubernetes.kubectl("apply", "-f", "-", stdin=manifest)
    outcome = _wait_for_end(kubernetes)
    printed = kubernetes.kubectl("logs", f"job/{JOB}")
    if outcome != "Complete":
        raise demo_cluster.DemoFailed(f"the analysis failed: {printed[-2000:]}")
    return printed


def _wait_for_end(kubernetes: Kubernetes) -> str:
    """Wait for the Job; return the condition in which it ended."""
    deadline = time.monotonic() + JOB_SECONDS
    while time.monotonic() < deadline:
        status = kubernetes.get(f"job/{JOB}")["status"]
        for condition in status.get("conditions", []):
            if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
                return str(condition["type"])
        time.sleep(POLL_SECONDS)
    raise demo_cluster.DemoFailed(f"the analysis did not end in {JOB_SECONDS:g} s")


def _version(kubernetes: Kubernetes) -> str:
    server = json.loads(kubernetes.kubectl("version", "-o", "json"))["serverVersion"]
    return str(server["gitVersion"]).removeprefix("v").split("+")[0].split("-")[0]
