"""The figures, their aims, and the rows of the report. Pure.

The median judges a figure; the report also names single values over the aim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

FAR_RATIO = 2.0
"""A median that misses its aim by more than this factor is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the report; aim is the most that the median should be."""

    key: str
    title: str
    aim: float | None = None
    unit: str = "s"

    @property
    def is_gap(self) -> bool:
        """True for a time without acknowledgements after a fault."""
        return self.key.startswith("gap.") and self.key != "gap.quiet"


FIGURES = (
    QUIET := Figure(key="gap.quiet", title="longest gap without acks, nothing broken"),
    GRACEFUL_LEADER := Figure(
        key="gap.graceful-leader", title="gap: graceful delete of a leader's pod", aim=1.0
    ),
    GRACEFUL_CONTROLLER := Figure(
        key="gap.graceful-controller", title="gap: graceful delete of the controller's pod", aim=1.0
    ),
    KILLED_LEADER := Figure(
        key="gap.killed-leader", title="gap: kill -9 of a leader, not the controller", aim=1.5
    ),
    KILLED_CONTROLLER := Figure(
        key="gap.killed-controller", title="gap: kill -9 of the controller", aim=3.0
    ),
    START_ALONE := Figure(
        key="start.alone", title="a broker from exec to registered, alone under load", aim=3.0
    ),
    START_TOGETHER := Figure(
        key="start.together", title="a broker from exec to registered, three at once", aim=3.0
    ),
    TOPIC_BROKERS_UP := Figure(
        key="topic.brokers-up", title="topic apply to Ready, brokers up", aim=5.0
    ),
    TOPIC_FROM_NOTHING := Figure(
        key="topic.from-nothing", title="topic apply to Ready, from nothing", aim=60.0
    ),
    SERVICE_BACK := Figure(key="back.service", title="a deleted Service is back", aim=1.0),
    SET_BACK := Figure(
        key="back.statefulset", title="a StatefulSet deleted with --cascade=orphan is back", aim=1.0
    ),
    CASCADE_READY := Figure(
        key="cascade.ready", title="StatefulSet deleted with its pods: topic Ready, ISRs full again"
    ),
    CASCADE_GAP := Figure(key="gap.cascade", title="the same: longest gap without acks"),
    IDLE_CPU := Figure(
        key="cpu.idle",
        title="CPU of three idle broker processes, 100 partitions",
        aim=10.0,
        unit="% of a core",
    ),
)
"""All figures, in the order of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured value; load_average is the machine's one-minute load just after it."""

    key: str
    value: float
    load_average: float
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure over all its samples; ratio is the median divided by the aim.

    over_quiet is the median of a gap divided by that of the gaps without a fault in this bench.
    """

    figure: Figure
    least: float
    median: float
    most: float
    count: int
    ratio: float | None
    loads: tuple[float, float]
    over_quiet: float | None = None

    @property
    def remark(self) -> str:
        """Whether the figure met its aim, in a few words."""
        if self.figure.aim is None or self.ratio is None:
            return ""
        if self.ratio > FAR_RATIO:
            return "MISSED BY MORE THAN DOUBLE"
        if self.ratio > 1:
            return "missed"
        return "met" if self.most <= self.figure.aim else "met, not every time"


def row_of(figure: Figure, samples: Iterable[Sample]) -> Row | None:
    """Return the row of a figure, None if it was never measured."""
    found = [sample for sample in samples if sample.key == figure.key]
    if not found:
        return None
    values = [sample.value for sample in found]
    loads = [sample.load_average for sample in found]
    middle = median(values)
    return Row(
        figure=figure,
        least=min(values),
        median=middle,
        most=max(values),
        count=len(values),
        ratio=None if figure.aim is None else middle / figure.aim,
        loads=(min(loads), max(loads)),
    )


def rows_of(samples: Sequence[Sample]) -> list[Row]:
    """Return the rows of all measured figures, in the order of the report."""
    rows = [row for figure in FIGURES if (row := row_of(figure, samples)) is not None]
    quiet = row_of(QUIET, samples)
    if quiet is None or quiet.median <= 0:
        return rows
    return [
        replace(row, over_quiet=row.median / quiet.median) if row.figure.is_gap else row
        for row in rows
    ]


def unmeasured(samples: Iterable[Sample]) -> list[str]:
    """Return the titles of the figures without a value; the bench shows nothing of them."""
    keys = {sample.key for sample in samples}
    return [figure.title for figure in FIGURES if figure.key not in keys]
