"""The figures of the comparison, their goals, and how rounds become ratios. Pure.

A figure is judged by the median over rounds of the ratio within a round, Strandline's value divided
by Kafka's: what the machine does from one round to the next then hits both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

OURS: Final = "Strandline"
THEIRS: Final = "Kafka"

Values = Mapping[str, Sequence[float]]
"""By cluster, one value a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table.

    trial and name: where its values come from. goal: what the ratio should be, at least where more
    is better, else at most. aim: the same for our value alone, where the goal is no ratio.
    """

    trial: str
    name: str
    title: str
    unit: str
    more_is_better: bool = False
    goal: float | None = None
    aim: float | None = None


def _bulk(trial: str, title: str, speed: float | None, cpu: float | None) -> tuple[Figure, ...]:
    return (
        Figure(
            trial=trial,
            name="produce",
            title=f"produce {title}",
            unit="MB/s",
            more_is_better=True,
            goal=speed,
        ),
        Figure(trial=trial, name="cpu", title="  brokers' CPU", unit="s/GB", goal=cpu),
    )


def _consumed(trial: str, partitions: int, goal: float | None) -> Figure:
    return Figure(
        trial=trial,
        name="consume",
        title=f"consume x{partitions}",
        unit="MB/s",
        more_is_better=True,
        goal=goal,
    )


def _latency(trial: str, title: str, *, p99_goal: float | None) -> tuple[Figure, ...]:
    return (
        Figure(trial=trial, name="p50", title=f"p50 at {title}", unit="ms", goal=1.0),
        Figure(trial=trial, name="p99", title="  p99", unit="ms", goal=p99_goal),
        Figure(trial=trial, name="cpu", title="  brokers' CPU per record", unit="ms", goal=1.0),
    )


def _kill(trial: str, title: str, aim: float) -> tuple[Figure, ...]:
    return (
        Figure(trial=trial, name="longest", title=f"kill -9 of {title}", unit="s", aim=aim),
        Figure(trial=trial, name="before", title="  longest wait before it", unit="s"),
    )


FIGURES: Final = (
    *_bulk("bulk-1", "1 KiB x1", 1.5, 0.7),
    *_bulk("bulk-6", "1 KiB x6", 1.5, 0.7),
    *_bulk("bulk-12", "1 KiB x12", 1.5, 0.7),
    *_bulk("bulk-333", "1 KiB x333", 1.5, 0.7),
    *_bulk("small-1", "100 B x1", None, None),
    *_bulk("small-6", "100 B x6", 1.0, 1.0),
    *_bulk("small-12", "100 B x12", None, None),
    *_bulk("small-333", "100 B x333", None, None),
    _consumed("bulk-1", 1, 1.0),
    _consumed("bulk-6", 6, 1.0),
    _consumed("bulk-12", 12, 1.0),
    *_latency("latency-100", "100/s", p99_goal=1.0),
    *_latency("latency-1000", "1,000/s", p99_goal=None),
    Figure(trial="idle-12", name="cpu", title="idle, 12 partitions", unit="% of a core"),
    Figure(trial="idle-12", name="rss", title="  resident memory of a broker", unit="MiB"),
    *_kill("kill-leader-6", "a leader, x6", 0.3),
    *_kill("kill-leader-100", "a leader, x100", 0.3),
    *_kill("kill-controller", "the controller", 0.5),
    Figure(trial="start", name="first", title="cold start to the first ack", unit="s", aim=3.0),
    *_latency("beside-100", "100/s beside 1,000 idle partitions", p99_goal=1.0),
    *_latency("beside-1000", "1,000/s beside 1,000 idle partitions", p99_goal=None),
    Figure(
        trial="idle-1000", name="cpu", title="idle, 1,000 partitions", unit="% of a core", aim=3.0
    ),
    Figure(trial="idle-1000", name="rss", title="  resident memory of a broker", unit="MiB"),
    Figure(trial="scrape-1000", name="cpu", title="a scrape of 1,000", unit="ms", aim=10),
    Figure(
        trial="failover-1000",
        name="last",
        title="334 leaders lost: the last one",
        unit="s",
        aim=1.5,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure over its rounds: medians of values and of ratios, least and greatest ratio."""

    figure: Figure
    ours: float
    theirs: float | None
    ratio: float | None
    ratios: tuple[float, float] | None
    rounds: int

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none, or nothing to compare with."""
        figure = self.figure
        if figure.aim is not None:
            return self.ours <= figure.aim
        if figure.goal is None or self.ratio is None:
            return None
        return self.ratio >= figure.goal if figure.more_is_better else self.ratio <= figure.goal


def row_of(figure: Figure, values: Values) -> Row | None:
    """Return the row of a figure; None where our cluster has no value."""
    ours, theirs = values.get(OURS, ()), values.get(THEIRS, ())
    if not ours:
        return None
    ratios = [a / b for a, b in zip(ours, theirs, strict=False) if b > 0]
    return Row(
        figure=figure,
        ours=median(ours),
        theirs=median(theirs) if theirs else None,
        ratio=median(ratios) if ratios else None,
        ratios=(min(ratios), max(ratios)) if ratios else None,
        rounds=len(ours),
    )
