"""The values of one run, which the steps of the run fill."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from strandline_checker.judge import HistoryVerdict
from strandline_cli.cluster_view import TimelineEvent
from strandline_cli.commands import NotRecovered
from strandline_cli.kubectl import Kubernetes
from strandline_cli.release import BROKERS
from strandline_cli.screen import Screen
from strandline_cli.verdict import FaultSeen

from .figures import START_TOGETHER, Figure, Sample
from .processes import look, registration_in

TOPIC = "bench"
LOAD = "load"


@dataclass(slots=True, kw_only=True)
class BenchRun:
    """One run: its cluster and its values so far; failures says why it does not count or ended."""

    number: int
    root: Path
    kubernetes: Kubernetes
    images: dict[str, str]
    screen: Screen
    samples: list[Sample] = field(default_factory=list)
    faults: list[FaultSeen] = field(default_factory=list)
    verdict: HistoryVerdict | None = None
    events: list[TimelineEvent] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def note(self, figure: Figure, value: float, **detail: object) -> None:
        """Keep a value, and show it."""
        load = os.getloadavg()[0]
        self.samples.append(Sample(key=figure.key, value=value, load_average=load, detail=detail))
        self.screen.say(f"  {figure.title}: {value:.3f} {figure.unit} (load {load:.2f})")

    def note_start(self, figure: Figure, broker: int, *, after: Figure) -> None:
        """Note how long the newest start of a broker took, from exec to registered.

        own_seconds is the part after the interpreter's start and the imports.

        Raises:  NotRecovered if the broker has not registered
        """
        process = look(self.kubernetes, broker)
        line = registration_in(self.kubernetes.kubectl("logs", f"default-{broker}", "-c", "broker"))
        if line is None:
            raise NotRecovered(f"broker {broker} has not registered")
        self.note(
            figure,
            datetime.fromisoformat(line["time"]).timestamp() - process.started,
            broker=broker,
            after=after.key,
            own_seconds=float(line["seconds"]),
            evidence=line["evidence"],
        )

    def note_starts(self, *, after: Figure) -> None:
        """Note the starts of three brokers that started at once."""
        for broker in range(BROKERS):
            self.note_start(START_TOGETHER, broker, after=after)
