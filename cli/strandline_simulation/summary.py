"""Adds up results to the table that is printed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .fault_counts import Anomaly, FaultCounts
from .nemesis import KINDS
from .run import ScheduleResult


@dataclass(slots=True, kw_only=True)
class Summary:
    """The results of a run of many schedules."""

    results: list[ScheduleResult] = field(default_factory=list)

    def add(self, result: ScheduleResult) -> None:
        """Count one more schedule."""
        self.results.append(result)

    @property
    def broken(self) -> list[ScheduleResult]:
        """Return the schedules in which an invariant did not hold."""
        return [result for result in self.results if result.broken_invariant]

    @property
    def conclusive_share(self) -> float:
        """Return the share of schedules that prove something about elections."""
        conclusive = sum(1 for result in self.results if not result.is_vacuous)
        return conclusive / len(self.results) if self.results else 0.0

    @property
    def handed_over_share(self) -> float:
        """Return the share of schedules in which more than one broker decided as controller."""
        several = sum(1 for result in self.results if result.deciding_brokers > 1)
        return several / len(self.results) if self.results else 0.0

    @property
    def fault_counts(self) -> FaultCounts:
        """Return the counts of all schedules together."""
        return sum((result.fault_counts for result in self.results), FaultCounts())

    def table(self, seconds: float) -> str:
        """Return the figures as lines of text."""
        count, fault_counts = len(self.results), self.fault_counts
        shown = [word for word, kind in KINDS.items() if kind.weight or fault_counts[word]]
        rows: list[tuple[str, str]] = [
            ("schedules", f"{count}"),
            ("schedules per second", f"{count / max(seconds, 0.001):.1f}"),
            ("virtual seconds", f"{sum(o.virtual_ms for o in self.results) / 1000:.0f}"),
            ("events per schedule", _mean([o.events for o in self.results])),
            ("leader elections per schedule", _mean([o.elections for o in self.results])),
            ("eligible leaders elected", f"{sum(o.eligible_elections for o in self.results)}"),
            ("moves finished", f"{sum(o.moves_finished for o in self.results)}"),
            ("controllers per schedule", _mean([o.controllers for o in self.results])),
            ("two brokers decided in", f"{100 * self.handed_over_share:.1f} %"),
            *((f"faults: {word}", f"{fault_counts[word]}") for word in shown),
            *((kind.value, f"{fault_counts[kind]}") for kind in Anomaly),
            ("crashes with lost data", f"{sum(o.data_losses for o in self.results)}"),
            ("partitions left offline", f"{sum(o.offline for o in self.results)}"),
            ("records acknowledged per schedule", _mean([o.acknowledged for o in self.results])),
            ("conclusive schedules", f"{100 * self.conclusive_share:.1f} %"),
            ("slowest healing", f"{max((o.healed_after_ms for o in self.results), default=0)} ms"),
            ("invariants broken", f"{len(self.broken)}"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:>10}" for name, value in rows)


def _mean(values: Sequence[int]) -> str:
    return f"{sum(values) / max(len(values), 1):.1f}"


def failure_report(result: ScheduleResult) -> str:
    """Return what a reader needs of a schedule that broke an invariant."""
    trace = "\n".join(result.trace)
    return f"seed {result.seed}: {result.detail}\nlast events:\n{trace}"
