"""Measure everything, RUNS times, and report: `make bench RUNS=5`.

Uses the cluster under hack/ if it is up and starts it otherwise; what was not there before is
gone afterwards. Exit code 1 means that a run showed nothing, lost something or did not recover;
a figure that misses its aim is told and is no failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.cli import demo_cluster as places
from strandline.cli import release
from strandline.cli.demo import PARTITIONS, RATE
from strandline.cli.demo_screen import Screen
from strandline.cli.kubectl import Kubernetes
from strandline.errors import StrandlineError

from . import report
from .failover import break_brokers
from .idle import measure_idle
from .objects import delete_objects
from .run import Run, Site, carry_out

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
    machine = report.this_machine()
    screen = Screen()
    screen.say(str(machine))
    runs: list[Run] = []
    path: Path | None = None
    broken = False
    try:
        with _site(root, screen) as site:
            try:
                for number in range(1, options.runs + 1):
                    runs.append(Run(number=number, site=site))
                    last = number == options.runs
                    carry_out(
                        runs[-1], (break_brokers, delete_objects), measure_idle if last else None
                    )
            finally:
                path = report.write(machine, _settings(site, options.runs), runs)
    except StrandlineError as error:
        print(f"error: {error}", file=sys.stderr)
        broken = True
    if path is not None:
        report.show(machine, runs)
        print(f"every value: {path}")
    return 1 if broken or report.failures_of(runs) else 0


@contextmanager
def _site(root: Path, screen: Screen) -> Iterator[Site]:
    """Find or start the cluster; leave it as it was found."""
    with screen.step("a Kubernetes"):
        place = places.hack_cluster(root, screen.say)
    kubernetes = Kubernetes(Path(place.kubeconfig), NAMESPACE, Path(place.programs))
    try:
        _need_workers(kubernetes)
        with screen.step("images"):
            images = places.load_images(root, place, places.IMAGES, screen.say)
        yield Site(root=root, kubernetes=kubernetes, images=images, screen=screen)
    finally:
        with screen.step("what the bench made goes"):
            if place.started:
                places.remove_cluster(root, place, screen.say)
            else:
                release.remove(kubernetes)
                release.remove_definitions(kubernetes)


def _need_workers(kubernetes: Kubernetes) -> None:
    """Refuse a cluster on which two brokers would share a node: a cluster that was up may be."""
    found = kubernetes.get("nodes", "-l", "!node-role.kubernetes.io/control-plane")["items"]
    if len(found) < places.WORKERS:
        raise places.DemoFailed(
            f"the cluster that is up has {len(found)} workers, {places.WORKERS} are needed: "
            "make cluster-down first"
        )


def _settings(site: Site, runs: int) -> dict[str, object]:
    """Return what the figures depend on beside the machine."""
    return {
        "runs": runs,
        "timing": "demo",
        "partitions": PARTITIONS,
        "records_per_second_and_partition": RATE,
        "images": site.images,
    }


if __name__ == "__main__":
    sys.exit(main())
