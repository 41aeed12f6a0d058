"""Reference of analyses 3 and 4."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.analysis.reference.elections import leaderships
from tests.analysis.reference.holding import (
    History,
    Labels,
    Range,
    exactly,
    label,
    quantile,
    series_of,
)
from tests.analysis.reference.leader_states import broker_of

MINUTE_MS = 60_000
STALL_MS = 10_000
LEO, HW = "strandline_partition_log_end_offset", "strandline_partition_high_watermark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What one scrape of the true leader showed."""

    at: int
    pod: str
    labels: Labels
    epoch: int
    leo: float
    hw: float


def scrapes(history: History, of: Range) -> list[Scrape]:
    """Return the scrapes of the partition's true leader, in order."""
    led = leaderships(history, of)
    found = []
    for labels, samples in series_of(history, LEO).items():
        pod = label(labels, "pod")
        marks = exactly(history, HW, labels)
        for at, leo in samples:
            mine = [each for each in led if each.pod == pod and each.first <= at <= each.last]
            if leo is None or at not in marks:
                continue
            for each in mine:
                if not any(o.epoch > each.epoch and o.begun <= at for o in led):
                    scrape = Scrape(
                        at=at, pod=pod, labels=labels, epoch=each.epoch, leo=leo, hw=marks[at]
                    )
                    found.append(scrape)
    return sorted(found, key=lambda each: each.at)


def hw_lag(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield how many offsets were written and not committed, by minute."""
    lags: dict[int, list[float]] = {}
    shape: dict[str, Any] = {}
    for each in scrapes(history, of):
        shape = _shape(each)
        lags.setdefault(each.at - each.at % MINUTE_MS, []).append(each.leo - each.hw)
    for minute, found in lags.items():
        yield {**shape, "minute_ms": minute, **_quantiles(found)}


def follower_lag(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield how far each follower was behind, as its leader saw it, by minute."""
    lags: dict[tuple[int, int], list[float]] = {}
    behind: dict[tuple[int, int], int] = {}
    shape: dict[str, Any] = {}
    for each in scrapes(history, of):
        shape = _shape(each)
        for replica in range(3):
            known = _of_replica(history, "strandline_replica_log_end_offset", each, replica)
            if replica == broker_of(each.pod) or known is None:
                continue
            caught = _of_replica(
                history, "strandline_replica_last_caught_up_timestamp_seconds", each, replica
            )
            key = (replica, each.at - each.at % MINUTE_MS)
            lags.setdefault(key, []).append(max(each.leo - known, 0))
            late = max(each.at - round((caught or 0) * 1000), 0)
            behind[key] = max(behind.get(key, 0), late)
    for (replica, minute), found in lags.items():
        yield {
            **shape,
            "replica": replica,
            "minute_ms": minute,
            **_quantiles(found),
            "behind_max_ms": behind[replica, minute],
        }


def hw_stalls(history: History, of: Range, *, stall_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the times in which records were written and none committed."""
    listed = scrapes(history, of)
    groups: list[list[int]] = []
    for index, each in enumerate(listed):
        before = listed[index - 1] if index else None
        if each.leo <= each.hw:
            continue
        if (
            before is not None
            and before.leo > before.hw
            and before.hw == each.hw
            and each.at - before.at <= of.gap_ms
        ):
            groups[-1].append(index)
        else:
            groups.append([index])
    for group in groups:
        first, last = listed[group[0]], listed[group[-1]]
        grown = any(listed[b].leo > listed[a].leo for a, b in itertools.pairwise(group))
        if not grown or last.at - first.at < stall_ms:
            continue
        earlier = listed[group[0] - 1].at if group[0] else None
        after = listed[group[-1] + 1].at if group[-1] + 1 < len(listed) else None
        held = after is not None and after - last.at <= of.gap_ms
        end = after if held and after is not None else min(last.at + of.interval_ms, of.end_ms)
        near = earlier is not None and first.at - earlier <= of.gap_ms
        start_err = first.at - earlier if near and earlier is not None else of.interval_ms
        cause, culprit = _cause(history, [listed[index] for index in group])
        yield {
            **_shape(first),
            "start_ms": first.at,
            "end_ms": end,
            "start_err_ms": start_err,
            "end_err_ms": end - last.at,
            "duration_low_ms": last.at - first.at,
            "duration_high_ms": end - first.at + start_err,
            "hw": int(first.hw),
            "leo_start": int(first.leo),
            "leo_end": int(last.leo),
            "backlog": int(last.leo - first.hw),
            "leader": broker_of(last.pod),
            "cause": cause,
            "culprit": culprit,
            "ongoing": after is None and of.end_ms - last.at <= of.gap_ms,
        }


def hw_regressions(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield where a leader showed a lower high watermark than the scrape before."""
    for before, now in itertools.pairwise(scrapes(history, of)):
        if now.hw < before.hw:
            yield {
                **_shape(now),
                "broker": broker_of(now.pod),
                "at_ms": now.at,
                "at_err_ms": now.at - before.at,
                "hw_from": int(before.hw),
                "hw_to": int(now.hw),
                "epoch_from": before.epoch,
                "epoch_to": now.epoch,
            }


def _cause(history: History, stall: Sequence[Scrape]) -> tuple[str, int | None]:
    for each in stall:
        size = exactly(history, "strandline_partition_isr_size", each.labels)[each.at]
        least = exactly(history, "strandline_partition_min_insync_replicas", each.labels)[each.at]
        if size < least:
            return "below_min_isr", None
    last = stall[-1]
    slow = [
        replica
        for replica in range(3)
        if replica != broker_of(last.pod)
        and _of_replica(history, "strandline_partition_isr_member", last, replica)
        and _of_replica(history, "strandline_replica_log_end_offset", last, replica) == last.hw
    ]
    size = exactly(history, "strandline_partition_isr_size", last.labels)[last.at]
    if size > 1 and slow:
        return "isr_slow_follower", slow[0] if len(slow) == 1 else None
    return ("leaderless" if len({each.epoch for each in stall}) > 1 else "unknown"), None


def _of_replica(history: History, metric: str, scrape: Scrape, replica: int) -> float | None:
    for labels, samples in series_of(history, metric).items():
        if label(labels, "pod") == scrape.pod and label(labels, "replica") == str(replica):
            return dict(samples).get(scrape.at)
    return None


def _shape(scrape: Scrape) -> dict[str, Any]:
    topic, partition = label(scrape.labels, "topic"), int(label(scrape.labels, "partition"))
    return {"topic": topic, "partition": partition}


def _quantiles(found: list[float]) -> dict[str, Any]:
    return {
        "lag_max": int(max(found)),
        "lag_p50": quantile(sorted(found), 0.5),
        "lag_p99": quantile(sorted(found), 0.99),
        "sample_count": len(found),
    }
