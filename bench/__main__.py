"""Measure everything, RUNS times, and report: `make bench RUNS=5`.

Uses the cluster under hack/ if it is up and starts it otherwise; what was not there before is
gone afterwards. Exit code 1 means that a run showed nothing, lost something or did not recover;
a figure that misses its aim is reported and is no failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.cli import demo_cluster, release
from strandline.cli.demo import PARTITIONS, RATE
from strandline.cli.demo_screen import Screen
from strandline.cli.kubectl import Kubernetes
from strandline.errors import StrandlineError

from . import report
from .deleted_objects import delete_objects
from .failover import break_brokers
from .idle import measure_idle
from .run import BenchEnvironment, BenchRun, carry_out

NAMESPACE = "strandline-bench"
RUNS = 5


def main(arguments: list[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how often, {RUNS} by default")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    root = Path.cwd()
    if not (root / "helm" / "strandline").is_dir():
        print("error: run this from the repository's root: make bench", file=sys.stderr)
        return 2
    host = report.host_info()
    screen = Screen()
    screen.say(str(host))
    runs: list[BenchRun] = []
    path: Path | None = None
    broken = False
    try:
        with _environment(root, screen) as environment:
            try:
                for number in range(1, options.runs + 1):
                    runs.append(BenchRun(number=number, environment=environment))
                    last = number == options.runs
                    carry_out(
                        runs[-1], (break_brokers, delete_objects), measure_idle if last else None
                    )
            finally:
                path = report.write(host, _settings(environment, options.runs), runs)
    except StrandlineError as error:
        print(f"error: {error}", file=sys.stderr)
        broken = True
    if path is not None:
        report.show(host, runs)
        print(f"every value: {path}")
    return 1 if broken or report.failures_of(runs) else 0


@contextmanager
def _environment(root: Path, screen: Screen) -> Iterator[BenchEnvironment]:
    """Find or start the cluster; leave it as it was found."""
    with screen.step("a Kubernetes"):
        cluster = demo_cluster.hack_cluster(root, screen.say)
    kubernetes = Kubernetes(Path(cluster.kubeconfig), NAMESPACE, Path(cluster.programs))
    try:
        _need_workers(kubernetes)
        with screen.step("images"):
            images = demo_cluster.load_images(root, cluster, demo_cluster.IMAGES, screen.say)
        yield BenchEnvironment(root=root, kubernetes=kubernetes, images=images, screen=screen)
    finally:
        with screen.step("what the bench made goes"):
            if cluster.started:
                demo_cluster.remove_cluster(root, cluster, screen.say)
            else:
                release.remove(kubernetes)
                release.remove_definitions(kubernetes)


def _need_workers(kubernetes: Kubernetes) -> None:
    """Refuse a cluster on which two brokers would share a node: a cluster that was up may be."""
    found = kubernetes.get("nodes", "-l", "!node-role.kubernetes.io/control-plane")["items"]
    if len(found) < demo_cluster.WORKERS:
        raise demo_cluster.DemoFailed(
            f"the cluster that is up has {len(found)} workers, {demo_cluster.WORKERS} are needed: "
            "make cluster-down first"
        )


def _settings(environment: BenchEnvironment, runs: int) -> dict[str, object]:
    """Return what the figures depend on beside the machine."""
    return {
        "runs": runs,
        "timing": "demo",
        "partitions": PARTITIONS,
        "records_per_second_and_partition": RATE,
        "images": environment.images,
    }


if __name__ == "__main__":
    sys.exit(main())
