"""One run: a fresh release, a topic from nothing, faults under load, a verdict on every record.

A run that cannot go on keeps its values and says why it ended; the next run begins with a fresh
namespace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from strandline.errors import StrandlineError
from strandline_checker.judge import HistoryVerdict
from strandline_cli import release, verdict
from strandline_cli.cluster_view import ClusterView, TimelineEvent
from strandline_cli.environment import Environment
from strandline_cli.kubectl_watch import KubectlWatch, TimedWatchEvent
from strandline_cli.load_pod import LoadPod
from strandline_cli.topics import BROKERS, READY_SECONDS, apply_topic, wait_ready
from strandline_cli.under_load import UnderLoad
from strandline_cli.verdict import FaultSeen

from .figures import START_TOGETHER, TOPIC_BROKERS_UP, TOPIC_FROM_NOTHING, Figure, Sample
from .processes import start_of

FIRST = "first"
TOPIC = "bench"
LOAD = "load"
WATCH_START_SECONDS = 1.0
"""Time for a watch to begin: without an object, kubectl prints nothing that shows it began."""


@dataclass(slots=True, kw_only=True)
class BenchRun:
    """The values of one run so far; failures says why it does not count or broke off."""

    number: int
    environment: Environment
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


Step = Callable[[BenchRun, UnderLoad], None]
"""An action on a cluster under load."""


def carry_out(
    run: BenchRun, steps: tuple[Step, ...], after: Callable[[BenchRun], None] | None
) -> None:
    """Measure every figure once: the steps under load, then the rest in a quiet cluster."""
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


def note_starts(run: BenchRun, after: str) -> None:
    """Note the starts of three brokers that started at once."""
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
            apply_topic(run.environment.kubernetes, name)
            ready = watch.until(partial(_is_ready, name), READY_SECONDS)
            run.note(figure, ready.at - begun)
            if name == FIRST:
                wait_ready(run.environment.kubernetes, "bc/default")
                note_starts(run, after=figure.key)


def _is_ready(name: str, seen: TimedWatchEvent) -> bool:
    return seen.name == name and seen.ready


def _under_load(run: BenchRun, steps: tuple[Step, ...]) -> None:
    kubernetes, wait = run.environment.kubernetes, run.environment.screen.wait
    with closing(ClusterView(kubernetes, topic=TOPIC)) as view:
        try:
            client = run.environment.images["client"]
            with closing(LoadPod(kubernetes, client, name=LOAD, topic=TOPIC)) as load:
                loaded = UnderLoad(
                    kubernetes=kubernetes,
                    topic=TOPIC,
                    view=view,
                    load=load,
                    wait=wait,
                    faults=run.faults,
                )
                loaded.wait_healthy()
                for step in steps:
                    step(run, loaded)
                _judge(run, loaded)
        finally:
            run.events = view.events()


def _judge(run: BenchRun, loaded: UnderLoad) -> None:
    """Judge every record of the run, and whether enough happened for a verdict."""
    run.verdict = loaded.judge(loaded.settle())
    for sentence in verdict.sentences(run.verdict):
        run.environment.screen.say(f"  {sentence}")
    run.failures += loaded.vacuity(run.verdict)
    run.failures += verdict.findings(run.verdict, TOPIC)
