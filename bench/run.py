"""One run: a fresh release, a topic from nothing, faults under load, a verdict on every record.

A run that cannot go on keeps what it has measured and says why it ended; the next one begins
with a namespace of its own again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from strandline.checker.judge import HistoryVerdict
from strandline.cli import release
from strandline.cli.cluster_view import ClusterView, TimelineEvent
from strandline.cli.demo import BROKERS, PARTITIONS, RATE
from strandline.cli.demo_screen import Screen
from strandline.cli.faults import (
    WARM_UP_SECONDS,
    NotRecovered,
    is_healthy,
    settle,
    unhealthy,
)
from strandline.cli.kubectl import Kubernetes
from strandline.cli.load_pod import LoadPod
from strandline.cli.verdict import FaultSeen, judge_run, scan, vacuity
from strandline.errors import StrandlineError

from .figures import START_TOGETHER, TOPIC_BROKERS_UP, TOPIC_FROM_NOTHING, Figure, Sample
from .processes import start_of
from .watch import KubectlWatch, TimedWatchEvent

FIRST = "first"
TOPIC = "bench"
LOAD = "load"
READY_SECONDS = 240.0
WATCH_START_SECONDS = 1.0
"""Until a watch of nothing is surely there: it says nothing before there is something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchEnvironment:
    """What all runs share: the cluster, our images on it, and what a person sees."""

    root: Path
    kubernetes: Kubernetes
    images: dict[str, str]
    screen: Screen


@dataclass(slots=True, kw_only=True)
class BenchRun:
    """What one run has measured so far; failures says why it does not count, or broke off."""

    number: int
    environment: BenchEnvironment
    samples: list[Sample] = field(default_factory=list)
    faults: list[FaultSeen] = field(default_factory=list)
    verdict: HistoryVerdict | None = None
    events: list[TimelineEvent] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def note(self, figure: Figure, value: float, **detail: object) -> None:
        """Keep a value, and show it."""
        load = os.getloadavg()[0]
        self.samples.append(
            Sample(key=figure.key, value=value, load_average=load, detail=dict(detail))
        )
        self.environment.screen.say(
            f"  {figure.title}: {value:.3f} {figure.unit} (load {load:.2f})"
        )


UnderLoad = Callable[[BenchRun, ClusterView, LoadPod], None]
"""What is done to a cluster while it is written to."""


def carry_out(
    run: BenchRun, steps: tuple[UnderLoad, ...], after: Callable[[BenchRun], None] | None
) -> None:
    """Measure everything once: the steps under load, and then, in a quiet cluster, the rest."""
    screen, number = run.environment.screen, run.number
    try:
        with screen.step(f"run {number}: a fresh namespace, helm install"):
            release.remove(run.environment.kubernetes)
            chosen = release.values(run.environment.kubernetes, run.environment.images)
            release.install(run.environment.root, run.environment.kubernetes, chosen)
        with screen.step(f"run {number}: topics, the first from nothing"):
            _topics(run)
        with screen.step(f"run {number}: faults under load"):
            _under_load(run, steps)
        if after is not None:
            with screen.step(f"run {number}: the brokers idle"):
                after(run)
    except (StrandlineError, OSError) as error:
        run.failures.append(str(error))
    for failure in run.failures:
        screen.say(f"run {number} FAILED: {failure}")


def apply_topic(kubernetes: Kubernetes, name: str, partitions: int) -> None:
    """Apply a topic like that of the examples."""
    kubernetes.apply(
        {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "ReplicatedTopic",
            "metadata": {"name": name},
            "spec": {"partitions": partitions, "replicationFactor": BROKERS},
        }
    )


def note_starts(run: BenchRun, after: str) -> None:
    """Note the starts of three brokers that were started at once."""
    for broker in range(BROKERS):
        start = start_of(run.environment.kubernetes, broker)
        run.note(
            START_TOGETHER,
            start.seconds,
            broker=broker,
            after=after,
            own_seconds=start.own_seconds,
            evidence=start.evidence,
        )


def _topics(run: BenchRun) -> None:
    with KubectlWatch(run.environment.kubernetes, "rtopic") as watch:
        time.sleep(WATCH_START_SECONDS)
        for figure, name in ((TOPIC_FROM_NOTHING, FIRST), (TOPIC_BROKERS_UP, TOPIC)):
            begun = time.monotonic()
            apply_topic(run.environment.kubernetes, name, PARTITIONS)
            ready = watch.until(partial(_is_ready, name), READY_SECONDS)
            run.note(figure, ready.at - begun)
            if name == FIRST:
                run.environment.kubernetes.kubectl(
                    *("wait", "bc/default", "--for=condition=Ready"),
                    f"--timeout={READY_SECONDS:g}s",
                    limit_seconds=READY_SECONDS + 10,
                )
                note_starts(run, after=figure.key)


def _is_ready(name: str, seen: TimedWatchEvent) -> bool:
    return seen.name == name and seen.ready


def _under_load(run: BenchRun, steps: tuple[UnderLoad, ...]) -> None:
    kubernetes, screen = run.environment.kubernetes, run.environment.screen
    view = ClusterView(kubernetes, topic=TOPIC)
    try:
        image = run.environment.images["client"]
        load = LoadPod(kubernetes, image, name=LOAD, topic=TOPIC, partitions=PARTITIONS, rate=RATE)
        try:
            if not screen.wait(lambda: is_healthy(view, load), WARM_UP_SECONDS):
                raise NotRecovered(f"the load never came to run well: {unhealthy(view, load)}")
            for step in steps:
                step(run, view, load)
            _judge(run, view, load)
        finally:
            load.close()
    finally:
        run.events = view.events()
        view.close()


def _judge(run: BenchRun, view: ClusterView, load: LoadPod) -> None:
    """Judge every record of the run, and whether enough happened to say so."""
    replicas = settle(view, load, wait=run.environment.screen.wait)
    scanned = scan(run.environment.kubernetes, range(BROKERS), topic=TOPIC)
    verdict = judge_run(load.history(), scanned, replicas)
    run.verdict = verdict
    run.environment.screen.say(
        f"  sent {verdict.sent}, acked {verdict.acked}, lost {verdict.lost}, "
        f"unknown {verdict.unknown}, failed {verdict.failed}, read {verdict.read}"
    )
    run.failures += vacuity(verdict.acked, run.faults)
    if not verdict.is_valid:
        run.failures += [
            f"{each.kind} in {TOPIC}-{each.partition}: {each.detail}" for each in verdict.findings
        ]
    if (code := load.exit_code()) != 0:
        run.failures.append(f"the load ended with {code}: not all was answered, or not read")
