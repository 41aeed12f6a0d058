"""The screen of a demo or a bench: steps with elapsed seconds, a live table, a time line.

On a terminal rich redraws the table; in a pipe events are lines, and callers print the table once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from . import tables
from .cluster_view import ClusterSeen, ClusterView, PartitionSeen
from .load_pod import LoadPod

EVENTS_SHOWN = 12
DRAW_SECONDS = 0.2
COLUMNS = ("partition", "leader", "epoch", "ISR", "HW", "LEO", "acks/s", "silent ms")


class Screen:
    """Prints all output of a running demo or bench."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._live: Live | None = None
        self._watched: tuple[ClusterView, LoadPod] | None = None
        self._shown_until_seconds = -1.0

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        line = f"[{time.monotonic() - self._started:6.1f}s] {text}"
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(line, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print a step, and at its end how long it took."""
        begun = time.monotonic()
        self.say(f"{text} ...")
        yield
        self.say(f"{text}: {time.monotonic() - begun:.1f} s")

    @contextmanager
    def watching(self, view: ClusterView, load: LoadPod) -> Iterator[None]:
        """Show partitions and events until the block ends."""
        self._watched = (view, load)
        self._shown_until_seconds = -1.0
        try:
            if sys.stdout.isatty():
                with Live(console=Console(), refresh_per_second=5) as self._live:
                    yield
                    self._draw()
            else:
                yield
        finally:
            self._live = None
            self._watched = None

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition and draw meanwhile; tell whether it came true in time."""
        deadline = time.monotonic() + seconds
        while True:
            self._draw()
            if condition():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(DRAW_SECONDS)

    def table(self, view: ClusterView, load: LoadPod) -> None:
        """Print the table once, unless a terminal redraws it anyway."""
        if self._live is None:
            tables.show(COLUMNS, _rows(view.seen(), load))

    def _draw(self) -> None:
        if self._watched is None:
            return
        view, load = self._watched
        if self._live is not None:
            self._live.update(_drawing(view, load))
            return
        # By time: the view keeps only the last events.
        for event in view.events():
            if event.at_seconds > self._shown_until_seconds:
                self.say(f"  {event.text}")
                self._shown_until_seconds = event.at_seconds


def _rows(seen: ClusterSeen, load: LoadPod) -> list[Sequence[str]]:
    """Return the cells of the table, one row a partition."""
    report, rates = load.last(), load.acks_per_second()
    silent = {} if report is None else report.silent_ms
    rows: list[Sequence[str]] = []
    for number, each in sorted(seen.partitions.items()):
        leader = "none" if each.leader < 0 else str(each.leader)
        isr = ",".join(str(broker) for broker in each.isr)
        offsets = seen.offsets.get((each.leader, number), (None, None))
        figures = (*offsets, rates.get(number), silent.get(number))
        cells = ("-" if value is None else f"{value:.0f}" for value in figures)
        rows.append((str(number), leader, str(each.leader_epoch), isr, *cells))
    return rows


def _style(each: PartitionSeen) -> str:
    if each.leader < 0:
        return "red"
    return "" if each.has_full_isr else "yellow"


def _drawing(view: ClusterView, load: LoadPod) -> Group:
    seen = view.seen()
    table = tables.drawn(
        COLUMNS,
        _rows(seen, load),
        styles=[_style(each) for _, each in sorted(seen.partitions.items())],
        title=view.topic,
        caption=f"controller: broker {seen.controller}",
    )
    events = [f"{event.at_seconds:7.1f}s  {event.text}" for event in view.events()]
    return Group(table, Text("\n".join(events[-EVENTS_SHOWN:])))
