"""What a person sees of the demo: steps with elapsed seconds, a live table, a time line.

On a terminal the table is drawn with rich and moves; in a pipe, or without rich, events come
as lines and the table is printed where it matters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .cluster_view import ClusterView, PartitionSeen
from .load_pod import LoadPod

try:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ImportError:  # a development dependency: without it the output is plain
    HAS_RICH = False
else:
    HAS_RICH = True

EVENTS_SHOWN = 12
DRAW_SECONDS = 0.2
COLUMNS = ("partition", "leader", "epoch", "ISR", "HW", "LEO", "acks/s", "silent ms")


class Screen:
    """Everything the demo prints goes through here."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._moves = HAS_RICH and sys.stdout.isatty()
        self._live: Live | None = None
        self._watched: tuple[ClusterView, LoadPod] | None = None
        self._events_shown = 0

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        line = f"[{time.monotonic() - self._started:6.1f}s] {text}"
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(line, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Announce a step, and at its end how long it took."""
        begun = time.monotonic()
        self.say(f"{text} ...")
        yield
        self.say(f"{text}: {time.monotonic() - begun:.1f} s")

    @contextmanager
    def watching(self, view: ClusterView, load: LoadPod) -> Iterator[None]:
        """Show partitions and events for as long as this lasts."""
        self._watched = (view, load)
        self._events_shown = 0
        try:
            if self._moves:
                with Live(console=Console(), refresh_per_second=5, transient=False) as self._live:
                    yield
                    self._draw()
            else:
                yield
        finally:
            self._live = None
            self._watched = None

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition, drawing meanwhile; tells whether it came true in time."""
        deadline = time.monotonic() + seconds
        while True:
            self._draw()
            if condition():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(DRAW_SECONDS)

    def table(self, view: ClusterView, load: LoadPod) -> None:
        """Print the table once, where it does not move anyway."""
        if self._live is None:
            for row in (COLUMNS, *rows(view, load)):
                print("  " + " ".join(f"{cell:>9}" for cell in row), flush=True)

    def _draw(self) -> None:
        if self._watched is None:
            return
        view, load = self._watched
        if self._live is not None:
            self._live.update(_drawing(view, load))
            return
        events = view.events()
        for event in events[self._events_shown :]:
            self.say(f"  {event.text}")
        self._events_shown = len(events)


def rows(view: ClusterView, load: LoadPod) -> list[Sequence[str]]:
    """Return the cells of the table, one row a partition."""
    report, rates = load.last(), load.acks_per_second()
    silent = {} if report is None else report.silent_ms
    return [
        _row(each, rates.get(number), silent.get(number))
        for number, each in sorted(view.seen().partitions.items())
    ]


def _row(each: PartitionSeen, rate: float | None, silent_ms: int | None) -> Sequence[str]:
    return (
        str(each.number),
        "none" if each.leader < 0 else str(each.leader),
        str(each.leader_epoch),
        ",".join(str(broker) for broker in each.isr),
        _number(each.high_watermark),
        _number(each.log_end_offset),
        "-" if rate is None else f"{rate:.0f}",
        _number(silent_ms),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _drawing(view: ClusterView, load: LoadPod) -> Group:
    seen = view.seen()
    table = Table(title="orders", caption=f"controller: broker {seen.controller}")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for partition, row in zip(sorted(seen.partitions), rows(view, load), strict=False):
        each = seen.partitions[partition]
        style = "red" if each.leader < 0 else "" if each.has_full_isr else "yellow"
        table.add_row(*row, style=style)
    events = [f"{event.at_seconds:7.1f}s  {event.text}" for event in view.events()]
    return Group(table, Text("\n".join(events[-EVENTS_SHOWN:])))
