"""Adds up outcomes to the table that is printed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .happenings import Happened, Happening
from .plan import FaultKind
from .run import Outcome


@dataclass(slots=True, kw_only=True)
class Summary:
    """The outcomes of a run of many schedules."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def broken(self) -> list[Outcome]:
        """Return the schedules in which a promise did not hold."""
        return [outcome for outcome in self.outcomes if outcome.promise]

    @property
    def telling_share(self) -> float:
        """Return the share of schedules in which enough happened to prove something."""
        telling = sum(1 for outcome in self.outcomes if not outcome.is_vacuous)
        return telling / len(self.outcomes) if self.outcomes else 0.0

    @property
    def handed_over_share(self) -> float:
        """Return the share of schedules in which more than one broker decided as controller."""
        several = sum(1 for outcome in self.outcomes if outcome.deciders > 1)
        return several / len(self.outcomes) if self.outcomes else 0.0

    @property
    def happened(self) -> Happened:
        """Return what happened in all schedules together."""
        return sum((outcome.happened for outcome in self.outcomes), Happened())

    def table(self, seconds: float) -> str:
        """Return the figures as lines of text."""
        count = len(self.outcomes)
        rows: list[tuple[str, str]] = [
            ("schedules", f"{count}"),
            ("schedules per second", f"{count / max(seconds, 0.001):.1f}"),
            ("virtual seconds", f"{sum(o.virtual_ms for o in self.outcomes) / 1000:.0f}"),
            ("events per schedule", _mean([o.events for o in self.outcomes])),
            ("leader elections per schedule", _mean([o.elections for o in self.outcomes])),
            ("controllers per schedule", _mean([o.controllers for o in self.outcomes])),
            ("two brokers decided in", f"{100 * self.handed_over_share:.1f} %"),
            *self._happened_rows(),
            ("crashes with lost data", f"{sum(o.losses for o in self.outcomes)}"),
            ("partitions left offline", f"{sum(o.offline for o in self.outcomes)}"),
            ("records acknowledged per schedule", _mean([o.acknowledged for o in self.outcomes])),
            ("telling schedules", f"{100 * self.telling_share:.1f} %"),
            ("slowest healing", f"{max((o.healed_after_ms for o in self.outcomes), default=0)} ms"),
            ("promises broken", f"{len(self.broken)}"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:>10}" for name, value in rows)

    def _happened_rows(self) -> list[tuple[str, str]]:
        happened = self.happened
        faults = [(f"faults: {kind.value}", f"{happened[kind]}") for kind in FaultKind]
        return faults + [(kind.value, f"{happened[kind]}") for kind in Happening]


def _mean(values: Sequence[int]) -> str:
    return f"{sum(values) / max(len(values), 1):.1f}"


def story(outcome: Outcome) -> str:
    """Return what a reader needs of a schedule that broke a promise."""
    trace = "\n".join(outcome.trace)
    return f"seed {outcome.seed}: {outcome.detail}\nlast events:\n{trace}"
