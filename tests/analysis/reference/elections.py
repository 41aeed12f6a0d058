"""Reference of analysis 6, without the controllers' counter."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.analysis.reference.holding import (
    History,
    Range,
    exactly,
    holding,
    label,
    quantile,
    series_of,
)
from tests.analysis.reference.leader_states import broker_of

CAUSES = {"change": "alive", "stale": "stale", "gap": "gap", "range": "alive"}


@dataclass(slots=True)
class Leadership:
    """What scrapes saw of one leader epoch."""

    epoch: int
    pod: str
    topic: str
    partition: int
    first: int
    last: int
    until: int
    reason: str
    begun: int
    error: int
    shown: list[Shown]


@dataclass(frozen=True, slots=True)
class Shown:
    """One scrape of a leader."""

    at: int
    until: int | None
    """The first scrape that no longer showed it; None if nobody knows when it ended."""
    reason: str
    goes_on: bool
    """Whether the next scrape shows the same, without a gap."""


def leaderships(history: History, of: Range) -> list[Leadership]:
    """Return the leaderships of one partition's history, by epoch."""
    found: dict[int, Leadership] = {}
    for labels, samples in series_of(history, "strandline_partition_is_leader").items():
        epochs = exactly(history, "strandline_partition_leader_epoch", labels)
        since = exactly(history, "strandline_partition_leader_since_timestamp_seconds", labels)
        scrapes = holding(samples, of)
        for held, after in zip(scrapes, [*scrapes[1:], None], strict=True):
            if not held.value:
                continue
            epoch = int(epochs[held.at])
            goes_on = (
                after is not None
                and held.end_reason == "change"
                and bool(after.value)
                and int(epochs[after.at]) == epoch
            )
            ended = {
                "change": held.until,
                "stale": next((at for at, _ in samples if at > held.at), None),
            }
            until = ended.get(held.end_reason)
            shown = Shown(held.at, until, held.end_reason, goes_on)
            known = found.get(epoch)
            if known is not None:
                known.shown.append(shown)
            if known is not None:
                known.last, known.until, known.reason = held.at, held.until, held.end_reason
                continue
            stated = round(since[held.at] * 1000)
            exact = stated <= held.at
            found[epoch] = Leadership(
                epoch=epoch,
                pod=label(labels, "pod"),
                topic=label(labels, "topic"),
                partition=int(label(labels, "partition")),
                first=held.at,
                last=held.at,
                until=held.until,
                reason=held.end_reason,
                begun=stated if exact else held.at,
                error=0 if exact else of.interval_ms,
                shown=[shown],
            )
    return [found[epoch] for epoch in sorted(found)]


def elections(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield which leader followed which, when, and how long the partition had none."""
    known = leaderships(history, of)
    for old, new in itertools.pairwise(known):
        if not of.start_ms <= new.begun < of.end_ms:
            continue
        skipped = new.epoch > old.epoch + 1
        last_old, until, reason, ran_on = _last_led(old, new)
        unseen = new.begun - last_old + (int(of.gap_ms) if ran_on else 0)
        cause = "restart" if _restarted(history, old, last_old, new) else CAUSES[reason]
        common = {
            "topic": new.topic,
            "partition": new.partition,
            "t_last_old_ms": last_old,
            "t_first_new_ms": new.begun,
            "t_first_new_err_ms": new.error,
            "cause": cause,
        }
        signs = "controlled" if cause == "alive" else "broker_failure"
        yield {
            **common,
            "epoch": new.epoch,
            "old_leader": None if skipped else broker_of(old.pod),
            "new_leader": broker_of(new.pod),
            "no_leader_low_ms": 0 if skipped else _least(new, until),
            "no_leader_high_ms": max(min(unseen, new.begun - old.begun), 0),
            "kind": "unclean" if _outside(history, old, last_old, new) else signs,
            "observed": True,
        }
        for epoch in range(old.epoch + 1, new.epoch):
            yield {
                **common,
                "epoch": epoch,
                "old_leader": broker_of(old.pod) if epoch == old.epoch + 1 else None,
                "new_leader": None,
                "no_leader_low_ms": None,
                "no_leader_high_ms": None,
                "kind": None,
                "observed": False,
            }


def failover_quantiles(histories: Iterable[History], of: Range) -> Iterator[dict[str, Any]]:
    """Yield how long partitions had no leader, by kind of election, over several topics."""
    by_kind: dict[str, list[tuple[int, int]]] = {}
    for history in histories:
        for row in elections(history, of):
            if row["observed"]:
                bounds = (row["no_leader_low_ms"], row["no_leader_high_ms"])
                by_kind.setdefault(row["kind"], []).append(bounds)
    for kind, known in by_kind.items():
        row = {"kind": kind, "elections": len(known)}
        for index, side in enumerate(("low", "high")):
            found = sorted(float(each[index]) for each in known)
            row[f"p50_{side}_ms"] = quantile(found, 0.5)
            row[f"p99_{side}_ms"] = quantile(found, 0.99)
            row[f"max_{side}_ms"] = int(found[-1])
        yield row


def zombie_leaders(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield which brokers showed themselves as leaders after a later leader had begun."""
    known = leaderships(history, of)
    for index, old in enumerate(known):
        later = known[index + 1 :]
        newer = min(later, key=lambda each: (each.begun, each.error, each.epoch), default=None)
        if newer is None or old.last <= newer.begun:
            continue
        length = old.until - newer.begun
        yield {
            "topic": old.topic,
            "partition": old.partition,
            "broker": broker_of(old.pod),
            "epoch": old.epoch,
            "newer_leader": broker_of(newer.pod),
            "newer_epoch": newer.epoch,
            "start_ms": newer.begun,
            "end_ms": old.until,
            "start_err_ms": newer.error,
            "end_err_ms": old.until - old.last,
            "duration_low_ms": max(length - (old.until - old.last), 0),
            "duration_high_ms": length + newer.error,
            "finding": length > 2 * of.interval_ms,
        }


def _least(new: Leadership, until: int | None) -> int:
    """Return how long there was no leader at least."""
    return 0 if until is None else max(new.begun - new.error - until, 0)


def _last_led(old: Leadership, new: Leadership) -> tuple[int, int | None, str, bool]:
    """Return until when the old leader showed itself, what scrape no longer did, and why.

    The last one tells whether it showed itself before and after the new one began, without a gap.
    """
    before = [each for each in old.shown if each.at <= new.begun]
    if not before:
        return min(old.begun, new.begun), new.begun, "change", False
    last = max(before, key=lambda each: each.at)
    return new.begun if last.goes_on else last.at, last.until, last.reason, last.goes_on


def _restarted(history: History, old: Leadership, last_old: int, new: Leadership) -> bool:
    """Tell whether the old leader's process was replaced before the new one was seen leading."""
    for labels, samples in series_of(history, "strandline_broker_start_timestamp_seconds").items():
        if label(labels, "pod") == old.pod:
            seen = [round(value * 1000) for _, value in samples if value is not None]
            return any(last_old < began <= new.first for began in seen[1:] if began != seen[0])
    return False


def _outside(history: History, old: Leadership, last_old: int, new: Leadership) -> bool:
    """Tell whether the old leader last showed the new one outside the ISR."""
    for labels, samples in series_of(history, "strandline_partition_isr_member").items():
        if label(labels, "pod") == old.pod and label(labels, "replica") == new.pod[-1]:
            known = [value for at, value in samples if at <= last_old and value is not None]
            return known[-1:] == [0]
    return False
