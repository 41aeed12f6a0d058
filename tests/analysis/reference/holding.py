"""How long a sample holds, by the definition: the base of all references.

Needs nothing of the analysis: a definition that both shared could be wrong in both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]
History = Mapping[Labels, Sequence[tuple[int, float | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What was read, and the scrape interval; all in ms."""

    start_ms: int
    end_ms: int
    interval_ms: int

    @property
    def gap_ms(self) -> float:
        return 2.5 * self.interval_ms

    def edge(self, distance: int) -> str:
        """Tell whether a series begins or ends with the range or within it."""
        return "range" if distance <= self.gap_ms else "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One sample and the time that it holds."""

    at: int
    until: int
    value: float
    start_reason: str
    end_reason: str
    previous: int | None
    """Time of the sample before, if no gap and no stale marker lies between."""


def label(labels: Labels, name: str) -> str:
    """Return the value of a label, "" without it."""
    return dict(labels).get(name, "")


def holding(samples: Sequence[tuple[int, float | None]], of: Range) -> list[Held]:
    """Return the samples of one series with the time that each holds."""
    found = []
    for index, (at, value) in enumerate(samples):
        if value is None:
            continue
        start_reason, previous = _before(samples, index, of)
        end_reason, until = _after(samples, index, of)
        found.append(
            Held(
                at=at,
                until=until,
                value=value,
                start_reason=start_reason,
                end_reason=end_reason,
                previous=previous,
            )
        )
    return found


def _before(
    samples: Sequence[tuple[int, float | None]], index: int, of: Range
) -> tuple[str, int | None]:
    at = samples[index][0]
    if index == 0:
        return of.edge(at - of.start_ms), None
    before, value = samples[index - 1]
    if value is None:
        return "stale", None
    return ("change", before) if at - before <= of.gap_ms else ("gap", None)


def _after(samples: Sequence[tuple[int, float | None]], index: int, of: Range) -> tuple[str, int]:
    at = samples[index][0]
    at_most = min(at + of.interval_ms, of.end_ms)
    if index == len(samples) - 1:
        return of.edge(of.end_ms - at), at_most
    following, value = samples[index + 1]
    if value is None:
        return "stale", min(at_most, following)
    return ("change", following) if following - at <= of.gap_ms else ("gap", at_most)


def series_of(history: History, metric: str) -> dict[Labels, Sequence[tuple[int, float | None]]]:
    """Return the series of one metric."""
    return {labels: found for labels, found in history.items() if ("__name__", metric) in labels}


def exactly(history: History, metric: str, like: Labels) -> dict[int, float]:
    """Return the samples, by time, of a metric of the same process and partition."""
    keys = ("pod", "instance", "topic", "partition")
    return {
        at: value
        for labels, samples in series_of(history, metric).items()
        if all(label(labels, key) == label(like, key) for key in keys)
        for at, value in samples
        if value is not None
    }


def quantile(found: list[float], share: float) -> float:
    """Return the exact quantile, linear between the two values around it."""
    place = share * (len(found) - 1)
    low, high = found[math.floor(place)], found[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))
