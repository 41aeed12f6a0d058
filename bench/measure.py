"""Measure everything, several times, and report: `strandline bench`.

Uses the cluster under hack/ if it is up and starts it otherwise; what was not there before is
gone afterwards. Exit code 1 means that a run showed nothing, lost something or did not recover;
a figure that misses its aim is reported and is no failure.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.errors import StrandlineError
from strandline_cli import clusters, release
from strandline_cli.commands import RunFailed
from strandline_cli.environment import Environment
from strandline_cli.images import NAMES, ImageSource, load_images
from strandline_cli.kubectl import Kubernetes
from strandline_cli.load_pod import RATE
from strandline_cli.screen import Screen
from strandline_cli.topics import PARTITIONS

from . import report
from .deleted_objects import delete_objects
from .failover import break_brokers
from .idle import measure_idle
from .run import BenchRun, carry_out

NAMESPACE = "strandline-bench"


def measure(root: Path, count: int) -> int:
    """Carry out so many runs, show and write what they measured, and return the exit code."""
    host = report.host_info()
    screen = Screen()
    screen.say(str(host))
    runs: list[BenchRun] = []
    path: Path | None = None
    broken = False
    try:
        with _environment(root, screen) as environment:
            try:
                for number in range(1, count + 1):
                    runs.append(BenchRun(number=number, environment=environment))
                    last = number == count
                    carry_out(
                        runs[-1], (break_brokers, delete_objects), measure_idle if last else None
                    )
            finally:
                path = report.write(host, _settings(environment, count), runs)
    except StrandlineError as error:
        print(f"error: {error}", file=sys.stderr)
        broken = True
    if path is not None:
        report.show(host, runs)
        print(f"every value: {path}")
    return 1 if broken or report.failures_of(runs) else 0


@contextmanager
def _environment(root: Path, screen: Screen) -> Iterator[Environment]:
    """Find or start the cluster; leave it as it was found."""
    with screen.step("a Kubernetes"):
        cluster = clusters.hack_cluster(root, screen.say)
    kubernetes = cluster.kubernetes(NAMESPACE)
    try:
        _need_workers(kubernetes)
        with screen.step("images"):
            images = load_images(root, cluster, NAMES, screen.say, source=ImageSource())
        yield Environment(
            root=root, cluster=cluster, kubernetes=kubernetes, images=images, screen=screen
        )
    finally:
        with screen.step("what the bench made goes"):
            if cluster.started:
                clusters.remove_cluster(root, cluster, screen.say)
            else:
                release.remove(kubernetes)
                release.remove_definitions(kubernetes)


def _need_workers(kubernetes: Kubernetes) -> None:
    """Refuse a cluster on which two brokers would share a node: a cluster that was up may be."""
    found = kubernetes.get("nodes", "-l", "!node-role.kubernetes.io/control-plane")["items"]
    if len(found) < clusters.WORKERS:
        raise RunFailed(
            f"the cluster that is up has {len(found)} workers, {clusters.WORKERS} are needed: "
            "make cluster-down first"
        )


def _settings(environment: Environment, runs: int) -> dict[str, object]:
    """Return what the figures depend on beside the machine."""
    return {
        "runs": runs,
        "timing": "demo",
        "partitions": PARTITIONS,
        "records_per_second_and_partition": RATE,
        "images": environment.images,
    }
