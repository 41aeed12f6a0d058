"""Reference of analysis 12."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from tests.analysis.reference.holding import History, Range, holding, label, series_of
from tests.analysis.reference.leader_states import broker_of

START = "strandline_broker_start_timestamp_seconds"


def coverage(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield the times of which the scrapes of a target tell nothing."""
    for labels, samples in series_of(history, "up").items():
        pod = label(labels, "pod")
        starts = _starts(history, pod)
        good = [held for held in holding(samples, of) if held.value > 0]
        for index, held in enumerate(good):
            last = index == len(good) - 1
            end = of.end_ms if last else good[index + 1].at
            distance = end - held.at
            if held.until >= end or (last and distance <= of.gap_ms):
                continue
            failed = any(held.at < at < end and not value for at, value in samples)
            scraped = [value for at, value in starts if held.at < at <= end]
            before = [value for at, value in starts if at <= held.at]
            restarted = bool(scraped and before and any(v != before[-1] for v in scraped))
            unsure = 0 if last else _unsure(samples, end, of)
            length = end - held.until
            due = math.ceil(distance / of.interval_ms) if last else round(distance / of.interval_ms)
            yield {
                "pod": pod,
                "instance": label(labels, "instance"),
                "start_ms": held.until,
                "end_ms": end,
                "start_err_ms": held.until - held.at,
                "end_err_ms": unsure,
                "duration_low_ms": max(length - unsure, 0),
                "duration_high_ms": end - held.at,
                "kind": "restart" if restarted else "down" if failed else "gap",
                "missing_samples": max(due - 1, 0),
                "ongoing": last,
            }


def restarts(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield when a pod's process was another than before."""
    for labels in series_of(history, "up"):
        pod = label(labels, "pod")
        starts = _starts(history, pod)
        for (before, old), (at, new) in itertools.pairwise(starts):
            if old == new:
                continue
            stated = before < round(new * 1000) <= at
            yield {
                "pod": pod,
                "broker": broker_of(pod),
                "at_ms": round(new * 1000) if stated else at,
                "at_err_ms": 0 if stated else at - before,
                "old_start_ms": round(old * 1000),
                "new_start_ms": round(new * 1000),
                "unclean": _value(history, "strandline_unclean_starts_total", pod, at) > 0,
            }


def _unsure(samples: Sequence[tuple[int, float | None]], at: int, of: Range) -> int:
    """Return for how long a target may have answered when a scrape of it was good again."""
    before, value = max(each for each in samples if each[0] < at)
    known = value is not None and at - before <= of.gap_ms
    return at - before if known else of.interval_ms


def _starts(history: History, pod: str) -> list[tuple[int, float]]:
    return [
        (at, value)
        for labels, samples in series_of(history, START).items()
        if label(labels, "pod") == pod
        for at, value in samples
        if value is not None
    ]


def _value(history: History, metric: str, pod: str, at: int) -> float:
    for labels, samples in series_of(history, metric).items():
        if label(labels, "pod") == pod:
            return dict(samples).get(at) or 0.0
    return 0.0
