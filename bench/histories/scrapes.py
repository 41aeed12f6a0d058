"""What a scraper sees of a history: samples at its own times, with jitter, failures and gaps.

Called by `written`. As Prometheus does, a failed scrape writes up = 0 and a stale marker for each
series that the scrape before it had, and a series that is gone gets one, too; where Prometheus did
not run there is nothing. Series come one at a time, so that memory does not grow with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from strandline_analysis.xor_chunk import STALE_BITS

from .brokers import ClusterHistory, Scrape
from .lines import Line
from .signals import UP, Signal

JITTER_MS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSeries:
    """The samples of one series."""

    labels: dict[str, str]
    timestamps: np.ndarray
    """int64, ms since 1970, strictly rising."""
    bits: np.ndarray
    """uint64, the bits of IEEE doubles; STALE_BITS is a stale marker."""


class Scraper:
    """Scrapes the brokers of one cluster every interval_ms, each at a phase of its own."""

    def __init__(
        self, cluster: ClusterHistory, *, interval_ms: int, jitter_ms: int = JITTER_MS
    ) -> None:
        """Lay down the times of all scrapes.

        Units:   ms; jitter_ms is at most a third of the interval, so that scrapes stay in order
        """
        if not 0 <= jitter_ms <= interval_ms // 3:
            accepted = f"0 to {interval_ms // 3}, a third of interval_ms"
            raise ValueError(f"jitter_ms is {jitter_ms}; it accepts {accepted}")
        plan = cluster.plan
        self._attempts: list[np.ndarray] = []
        self._reached: list[np.ndarray] = []
        for broker in range(plan.brokers):
            chance = plan.chance("scrapes", broker, interval_ms)
            begin = plan.start_ms + chance.randrange(interval_ms)
            planned = [
                max(at + chance.randint(-jitter_ms, jitter_ms), plan.start_ms)
                for at in range(begin, plan.end_ms - jitter_ms, interval_ms)
            ]
            found = [(at, cluster.scrape(broker, at)) for at in planned]
            tried = [(at, how) for at, how in found if how != Scrape.NOTHING]
            self._attempts.append(np.array([at for at, _ in tried], np.int64))
            reached = [how == Scrape.SAMPLES for _, how in tried]
            self._reached.append(np.array(reached, bool))

    def successes(self, broker: int) -> list[int]:
        """Return when scrapes of a broker got samples, in ms."""
        times: list[int] = self._attempts[broker][self._reached[broker]].tolist()
        return times

    def sampled(self, signal: Signal) -> SampledSeries:
        """Return what the scrapes show of one series."""
        at, reached = self._attempts[signal.broker], self._reached[signal.broker]
        if signal.labels["__name__"] == UP:
            return SampledSeries(
                labels=signal.labels, timestamps=at, bits=reached.astype(np.float64).view(np.uint64)
            )
        there = reached & _present(signal, at)
        stale = np.zeros(len(at), bool)
        stale[1:] = there[:-1] & ~there[1:]
        total = np.zeros(len(at), np.int64)
        for line in signal.lines:
            total += _values(line, at)
        bits = (total * signal.times / signal.per).view(np.uint64)
        bits[stale] = STALE_BITS
        kept = there | stale
        return SampledSeries(labels=signal.labels, timestamps=at[kept], bits=bits[kept])


def _present(signal: Signal, at: np.ndarray) -> np.ndarray:
    begins = np.array([begin for begin, _ in signal.presence], np.int64)
    shown = np.array([False, *(there for _, there in signal.presence)], bool)
    return shown[np.searchsorted(begins, at, "right")]


def _values(line: Line, at: np.ndarray) -> np.ndarray:
    pieces = np.array(line.pieces, np.int64)
    place = np.maximum(np.searchsorted(pieces[:, 0], at, "right") - 1, 0)
    begin, base, rise, per_ms = pieces[place].T
    return base + (at - begin) * rise // per_ms
