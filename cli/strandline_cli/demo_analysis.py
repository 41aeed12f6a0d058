"""What Prometheus and Spark say of the demo's faults, beside what the demo did and measured.

A small Prometheus scrapes every broker once a second while the demo runs; then the Spark job
reads its samples as a Kubernetes Job and prints the elections and ISR intervals it found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import release
from .clusters import Cluster
from .commands import RunFailed, Say
from .images import ImageSource, load_images
from .kubectl import Kubernetes
from .verdict import FaultSeen

NODE = "worker1"
"""The node under hack/ that has the analysis image: a gigabyte is loaded once."""
OFFICIAL_PROMETHEUS = "prom/prometheus:v2.53.3"
JOB_SECONDS = 600.0
POLL_SECONDS = 1.0
JOB = f"{release.RELEASE}-analysis"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """Images of Prometheus and of the analysis; node is the one that has the latter, or empty."""

    images: dict[str, str]
    node: str = ""

    def chart_values(self) -> list[str]:
        """Return the chart's values that turn Prometheus on."""
        return ["prometheus.enabled=true", *release.image_values(self.images, *self.images)]

    def node_selector(self) -> dict[str, str]:
        """Return where the analysis may run."""
        return {"kubernetes.io/hostname": self.node} if self.node else {}


def load_observers(root: Path, cluster: Cluster, say: Say, *, source: ImageSource) -> Observers:
    """Bring both images; where images come from a registry, Prometheus is the official one."""

    def load(*names: str, node: str = "") -> dict[str, str]:
        return load_images(root, cluster, names, say, source=source, node=node)

    if cluster.kind == "hack":
        return Observers(images=load("prometheus") | load("analysis", node=NODE), node=NODE)
    if cluster.kind == "kind" or source.repository:
        return Observers(images={"prometheus": OFFICIAL_PROMETHEUS} | load("analysis"))
    return Observers(images=load("prometheus", "analysis"))


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

    Raises:  CommandFailed if the Job cannot be made or read; RunFailed if it fails
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
        *("template", release.RELEASE, str(root / "helm" / "strandline")),
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
        raise RunFailed(f"the analysis failed: {printed[-2000:]}")
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
    raise RunFailed(f"the analysis did not end in {JOB_SECONDS:g} s")


def _version(kubernetes: Kubernetes) -> str:
    server = json.loads(kubernetes.kubectl("version", "-o", "json"))["serverVersion"]
    return str(server["gitVersion"]).removeprefix("v").split("+")[0].split("-")[0]
