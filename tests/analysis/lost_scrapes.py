"""Drawn histories without some of their scrapes.

A scrape is lost that stands close between two others of its pod, where all three show the same
series, leaders, epochs and process. Another one may be the only witness of an election or of a
restart, and what nobody has seen no table can tell.
"""

from __future__ import annotations

import random

from strandline import names
from tests.analysis.generated import UP, History, Labels
from tests.analysis.reference.holding import Range, label

OF_STRUCTURE = (
    UP,
    *(
        metric.name
        for metric in (
            names.PARTITION_IS_LEADER,
            names.PARTITION_LEADER_EPOCH,
            names.BROKER_START_TIMESTAMP_SECONDS,
            names.CONTROLLER_EPOCH,
            names.CONTROLLER_ACTIVE,
        )
    ),
)
"""Metrics that show the same in a scrape that is lost and in those around it."""
LOST_SHARE = 0.1
"""Of the scrapes that may be lost, ten times what tables must bear: then few histories do."""
NEAR_INTERVALS = 2.4
"""Between the scrapes around a lost one: fewer than make a gap."""

Moment = tuple[str, int]
"""The pod that was scraped, and when."""
Scrape = dict[Labels, float | None]
"""By series: what a scrape showed; None: that it was gone."""


def without_some(history: History, of: Range, *, seed: int) -> tuple[History, set[Moment]]:
    """Return a history without drawn scrapes, and which these are."""
    chance = random.Random(seed)
    lost: set[Moment] = set()
    for pod, shown in _shown(history).items():
        times = sorted(shown)
        for before, at, after in zip(times, times[1:], times[2:], strict=False):
            first, second, third = (_structure(shown[each]) for each in (before, at, after))
            ordinary = first == second == third and (pod, before) not in lost
            near = after - before <= NEAR_INTERVALS * of.interval_ms
            if ordinary and near and chance.random() < LOST_SHARE:
                lost.add((pod, at))
    left = {
        labels: [each for each in samples if (label(labels, "pod"), each[0]) not in lost]
        for labels, samples in history.items()
    }
    return left, lost


def _shown(history: History) -> dict[str, dict[int, Scrape]]:
    """Return what each scrape showed, by pod and time."""
    shown: dict[str, dict[int, Scrape]] = {}
    for labels, samples in history.items():
        for at, value in samples:
            shown.setdefault(label(labels, "pod"), {}).setdefault(at, {})[labels] = value
    return shown


def _structure(scrape: Scrape) -> dict[Labels, float]:
    return {
        labels: value if label(labels, "__name__") in OF_STRUCTURE else 0.0
        for labels, value in scrape.items()
        if value is not None
    }
