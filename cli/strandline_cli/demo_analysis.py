"""The demo's faults as Prometheus and Spark see them, beside the demo's own measurements.

A small Prometheus scrapes every broker once a second while the demo runs; then the Spark job
reads its samples as a Kubernetes Job and prints the elections and ISR intervals it found.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from . import release
from .clusters import KIND_NAME, Cluster
from .commands import RunFailed, Say
from .images import ImageSource, load_images
from .kubectl import Kubernetes
from .verdict import FaultSeen

NAME = "analysis"
NODES = {"hack": "worker1", "kind": f"{KIND_NAME}-worker"}
"""By kind of cluster, the one node that gets the analysis image of 625 MiB."""
OFFICIAL_PROMETHEUS = "prom/prometheus:v2.53.3"
LAG_TIME_MAX_MS = 10_000
"""replica.lag.time.max.ms of the demo's brokers, whose timing is demo."""
JOB_SECONDS = 600.0
PAGE_MARK = "page "
"""Start of the line with report.html, packed, as the analysis prints it."""
PAGE = Path("dist") / "demo-report.html"
"""Where the report for a browser lies, from the root of the repository."""
POLL_SECONDS = 1.0
PAGE_IN_POD = "The report for a browser is "
"""Start of the line with a path that is gone with the pod."""
JOB = f"{release.RELEASE}-analysis"


def observers(*, analysis: bool) -> tuple[str, ...]:
    """Return the names of the images that `load_observers` loads into the cluster under hack/."""
    return ("prometheus", NAME) if analysis else ("prometheus",)


def load_observers(
    root: Path, cluster: Cluster, say: Say, *, source: ImageSource, analysis: bool = True
) -> dict[str, str]:
    """Load the images of Prometheus and, if wished, of the analysis; return name -> reference.

    Where nodes can pull from a registry, the image of Prometheus is the official one.
    """

    def load(*names: str, node: str = "") -> dict[str, str]:
        return load_images(root, cluster, names, say, source=source, node=node)

    official = cluster.kind == "kind" or source.repository
    images = {"prometheus": OFFICIAL_PROMETHEUS} if official else load("prometheus")
    return images | load(NAME, node=NODES.get(cluster.kind, "")) if analysis else images


def chart_values(images: dict[str, str], *, of: str) -> list[str]:
    """Return the values that turn Prometheus on; the analysis writes its summary of `of`."""
    names = [name for name in ("prometheus", NAME) if name in images]
    told = [f"analysis.summaryOf={of}"] if NAME in images else []
    return ["prometheus.enabled=true", *told, *release.image_values(images, *names)]


def node_selector(cluster: Cluster) -> dict[str, str]:
    """Return the selector of nodes on which the analysis may run."""
    node = NODES.get(cluster.kind)
    return {} if node is None else {"kubernetes.io/hostname": node}


def analyse(
    root: Path,
    cluster: Cluster,
    kubernetes: Kubernetes,
    values: Sequence[str],
    faults: Sequence[FaultSeen],
    *,
    since_ms: int,
) -> str:
    """Run the Job over all samples since then, keep its report.html, and return its text.

    The text opens with the incidents, and ends with where report.html lies.

    Raises:  CommandFailed if the Job cannot be made or read; RunFailed if it fails
    """
    given = [
        {
            "name": each.name,
            "atMs": each.at_ms,
            "brokerId": each.broker,
            "gapMs": each.longest_gap_ms,
        }
        for each in faults
    ]
    moment = datetime.fromtimestamp(since_ms / 1000, tz=UTC)
    manifest = kubernetes.helm(
        *("template", release.RELEASE, str(root / "helm" / "strandline")),
        *(f"--set={value}" for value in values),
        *("--set=analysis.enabled=true", f"--set=analysis.start={moment:%Y-%m-%dT%H:%M:%SZ}"),
        f"--set-json=analysis.faults={json.dumps(given)}",
        "--set=analysis.printPage=true",
        f"--set=analysis.lagTimeMaxMs={LAG_TIME_MAX_MS}",
        f"--set-json=analysis.nodeSelector={json.dumps(node_selector(cluster))}",
        *("--show-only", "templates/analysis.yaml", f"--kube-version={_version(kubernetes)}"),
    )
    kubernetes.kubectl("apply", "-f", "-", stdin=manifest)
    outcome = _wait_for_end(kubernetes)
    printed = kubernetes.kubectl("logs", f"job/{JOB}")
    if outcome != "Complete":
        raise RunFailed(f"the analysis failed: {printed[-2000:]}")
    return kept(printed, root / PAGE)


def kept(printed: str, page: Path) -> str:
    """Write the page that the analysis printed, and return the rest with its place.

    The pod's own folder is gone with the pod, and nothing can be copied out of one that ended.

    Raises:  RunFailed if there is no page
    """
    text, packed = [], ""
    for line in printed.splitlines():
        if line.startswith(PAGE_MARK):
            packed = line.removeprefix(PAGE_MARK)
        elif not line.startswith(PAGE_IN_POD):
            text.append(line)
    if not packed:
        raise RunFailed(f"the analysis printed no report.html: {printed[-2000:]}")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_bytes(gzip.decompress(base64.b64decode(packed)))
    return "\n".join([*text, "", f"The report for a browser is {page}"])


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
    """Return the server's version without a provider's suffix, as in 1.31.2."""
    server = json.loads(kubernetes.kubectl("version", "-o", "json"))["serverVersion"]
    return str(server["gitVersion"]).removeprefix("v").split("+")[0].split("-")[0]
