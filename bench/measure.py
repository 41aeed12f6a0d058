"""Measure everything, several times, and report: `strandline bench`.

The bench uses the cluster under hack/ if it is up and starts it otherwise; afterwards it removes
all that it made. Each run has a fresh release, a topic from nothing, faults under load, and a
verdict on every record. A run that cannot go on keeps its values and says why it ended; the next
run begins with a fresh namespace.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from strandline.errors import StrandlineError
from strandline_cli import clusters, release, verdict
from strandline_cli.cluster_view import ClusterView
from strandline_cli.commands import RunFailed
from strandline_cli.images import NAMES, ImageSource, load_images
from strandline_cli.kubectl import Kubernetes
from strandline_cli.kubectl_watch import KubectlWatch, TimedWatchEvent
from strandline_cli.load_pod import RATE, LoadPod, manifest
from strandline_cli.release import PARTITIONS, READY_SECONDS, apply_topic
from strandline_cli.screen import Screen
from strandline_cli.under_load import UnderLoad

from . import report
from .deleted_objects import delete_objects
from .failover import break_brokers
from .figures import TOPIC_BROKERS_UP, TOPIC_FROM_NOTHING, Figure
from .idle import measure_idle
from .run import LOAD, TOPIC, BenchRun

NAMESPACE = "strandline-bench"
WATCH_START_SECONDS = 1.0
"""Time for a watch to begin: without an object, kubectl prints nothing that shows it began."""


def measure(root: Path, count: int) -> int:
    """Carry out `count` runs, show and write their values, and return the exit code."""
    host = report.host_info()
    screen = Screen()
    screen.say(str(host))
    runs: list[BenchRun] = []
    path: Path | None = None
    broken = False
    try:
        with _cluster(root, screen) as (kubernetes, images):
            try:
                for number in range(1, count + 1):
                    run = BenchRun(
                        number=number,
                        root=root,
                        kubernetes=kubernetes,
                        images=images,
                        screen=screen,
                    )
                    runs.append(run)
                    _carry_out(run, is_last=number == count)
            finally:
                # The settings on which the figures depend, beside the machine.
                settings = {
                    "runs": count,
                    "timing": "demo",
                    "partitions": PARTITIONS,
                    "records_per_second_and_partition": RATE,
                    "images": images,
                }
                path = report.write(host, settings, runs)
    except StrandlineError as error:
        print(f"error: {error}", file=sys.stderr)
        broken = True
    if path is not None:
        report.show(host, runs)
        print(f"every value: {path}")
    return 1 if broken or report.failures_of(runs) else 0


@contextmanager
def _cluster(root: Path, screen: Screen) -> Iterator[tuple[Kubernetes, dict[str, str]]]:
    """Find or start the cluster and load our images; afterwards leave it as it was."""
    with screen.step("a Kubernetes"):
        cluster = clusters.hack_cluster(root, screen.say)
    kubernetes = cluster.kubernetes(NAMESPACE)
    try:
        # A cluster that was up may have fewer workers, and then two brokers would share a node.
        found = kubernetes.get("nodes", "-l", "!node-role.kubernetes.io/control-plane")["items"]
        if len(found) < clusters.WORKERS:
            raise RunFailed(
                f"the cluster that is up has {len(found)} workers, {clusters.WORKERS} are needed: "
                "make cluster-down first"
            )
        with screen.step("images"):
            images = load_images(root, cluster, NAMES, screen.say, source=ImageSource())
        yield kubernetes, images
    finally:
        with screen.step("what the bench made goes"):
            if cluster.started:
                clusters.remove_cluster(root, cluster, screen.say)
            else:
                release.remove(kubernetes)
                release.remove_definitions(kubernetes)


def _carry_out(run: BenchRun, *, is_last: bool) -> None:
    """Measure the figures of one run; those of idle brokers in the last run alone."""
    screen, kubernetes, number = run.screen, run.kubernetes, run.number
    try:
        with screen.step(f"run {number}: a fresh namespace, helm install"):
            release.remove(kubernetes)
            release.install(run.root, kubernetes, release.values(run.images))
        with screen.step(f"run {number}: topics, the first from nothing"):
            _topics(run)
        with screen.step(f"run {number}: faults under load"):
            _under_load(run)
        if is_last:
            with screen.step(f"run {number}: the brokers idle"):
                measure_idle(run)
    except (StrandlineError, OSError) as error:
        run.failures.append(str(error))
    for failure in run.failures:
        screen.say(f"run {number} FAILED: {failure}")


def _topics(run: BenchRun) -> None:
    kubernetes = run.kubernetes
    with KubectlWatch(kubernetes, "rtopic") as watch:
        time.sleep(WATCH_START_SECONDS)
        _topic(run, watch, TOPIC_FROM_NOTHING, "first")
        kubernetes.wait_ready("bc/default", READY_SECONDS)
        run.note_starts(after=TOPIC_FROM_NOTHING)
        _topic(run, watch, TOPIC_BROKERS_UP, TOPIC)


def _topic(run: BenchRun, watch: KubectlWatch, figure: Figure, name: str) -> None:
    """Apply a topic and note when it was Ready."""

    def is_ready(seen: TimedWatchEvent) -> bool:
        return seen.name == name and seen.ready

    begun = time.monotonic()
    apply_topic(run.kubernetes, name)
    run.note(figure, watch.until(is_ready, READY_SECONDS).at - begun)


def _under_load(run: BenchRun) -> None:
    kubernetes, screen = run.kubernetes, run.screen
    pod = manifest(run.images["client"], name=LOAD, topic=TOPIC)
    with closing(ClusterView(kubernetes, topic=TOPIC)) as view:
        try:
            with closing(LoadPod(kubernetes, pod)) as load:
                loaded = UnderLoad(
                    kubernetes=kubernetes, view=view, load=load, wait=screen.wait, faults=run.faults
                )
                loaded.wait_healthy()
                break_brokers(run, loaded)
                delete_objects(run, loaded)
                run.verdict = loaded.judge(loaded.settle())
                for sentence in verdict.sentences(run.verdict):
                    screen.say(f"  {sentence}")
                run.failures += loaded.vacuity(run.verdict)
                run.failures += verdict.findings(run.verdict, TOPIC)
        finally:
            run.events = view.events()
