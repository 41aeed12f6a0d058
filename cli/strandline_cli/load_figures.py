"""What a load saw, in a size that does not grow with its time: gaps, latencies, a time line.

Records read back are compared with their acknowledgements one by one, so a record that was lost
or lies elsewhere is seen within the time of a fetch, however long the load runs. All times are of
the load's monotonic clock, except those that say that they are wall times.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

COLUMNS_MAX = 120
"""Of the time line; with more, two become one."""
FIRST_COLUMN_MS = 1_000
LATENCY_LEAST_MS = 0.1
LATENCY_STEP = 1.05
"""A percentile is exact to this factor."""
WAITING_MAX = 100_000
"""Acknowledged records that were not read yet, and as many that were read and not acknowledged
yet, in equal parts for all partitions. Beyond it the oldest are not compared, and counted so."""
EXAMPLES_MAX = 10
NO_PARTITION = "-1"
FIGURES_MARK = "figures of load "
"""Begins a record that holds figures of a load (`load_carried`)."""
POD_REPLACED = "POD_REPLACED"
"""Counted as the error of records whose outcome was lost together with the load's pod."""
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


@dataclass(slots=True)
class Latencies:
    """Times from a send to its acknowledgement, counted in steps that grow with the time."""

    counts: Counter[int] = field(default_factory=Counter)
    longest_ms: float = 0.0

    def add(self, ms: float) -> None:
        """Count one acknowledgement."""
        steps = math.log(max(ms, LATENCY_LEAST_MS) / LATENCY_LEAST_MS, LATENCY_STEP)
        self.counts[math.ceil(steps)] += 1
        self.longest_ms = max(self.longest_ms, ms)

    def percentile(self, share: float) -> float:
        """Return the time within which this share was acknowledged, 0 without any."""
        left = math.ceil(share * self.counts.total())
        for step, count in sorted(self.counts.items()):
            left -= count
            if left <= 0:
                return min(LATENCY_LEAST_MS * LATENCY_STEP**step, self.longest_ms)
        return 0.0


@dataclass(slots=True)
class LoadTimeline:
    """Acknowledgements over the time since the start, in at most COLUMNS_MAX columns."""

    width_ms: int = FIRST_COLUMN_MS
    acked: list[int] = field(default_factory=list)

    def add(self, passed_ms: float, count: int = 1) -> None:
        """Count acknowledgements so long after the start."""
        while passed_ms >= self.width_ms * COLUMNS_MAX:
            self.width_ms *= 2
            pairs = range(0, len(self.acked), 2)
            self.acked = [sum(self.acked[first : first + 2]) for first in pairs]
        column = int(passed_ms // self.width_ms)
        self.acked += [0] * (column + 1 - len(self.acked))
        self.acked[column] += count


@dataclass(slots=True, kw_only=True)
class ReadBack:
    """Compares what a consumer gets with what was acknowledged; name begins our own values.

    checked records lay at their offsets, not_there did not; deleted ones were too old before they
    were read; unchecked ones waited too long; again counts records that were read before.
    """

    name: str
    next_offset: dict[int, int] = field(default_factory=dict)
    checked: int = 0
    not_there: int = 0
    deleted: int = 0
    unchecked: int = 0
    again: int = 0
    examples: list[str] = field(default_factory=list)
    _acked: dict[int, dict[int, str]] = field(default_factory=dict)
    _read: dict[int, dict[int, str]] = field(default_factory=dict)
    _forgotten: dict[int, int] = field(default_factory=dict)

    def on_ack(self, partition: int, offset: int, value: str) -> None:
        """Take an acknowledgement; the record may have been read before it."""
        if offset >= self.next_offset.get(partition, 0):
            waiting = self._acked.setdefault(partition, {})
            waiting[offset] = value
            if len(waiting) > self._waiting_max():
                del waiting[next(iter(waiting))]
                self.unchecked += 1
            return
        found = self._read.get(partition, {}).pop(offset, None)
        if found is None and offset <= self._forgotten.get(partition, -1):
            self.unchecked += 1
        else:
            self._compare(partition, offset, value, found)

    def on_read(
        self, partition: int, offset: int, value: str, log_start: Callable[[], int]
    ) -> None:
        """Take a record that the consumer got; log_start is asked for if offsets were skipped."""
        if offset < self.next_offset.get(partition, 0):
            self.again += 1
            return
        waiting = self._acked.setdefault(partition, {})
        skipped = []
        # Acknowledgements of a partition come in the order of its offsets.
        while waiting and (first := next(iter(waiting))) < offset:
            skipped.append((first, waiting.pop(first)))
        begins = log_start() if skipped else 0
        for before, acked in skipped:
            if before < begins:
                self.deleted += 1
            else:
                self._compare(partition, before, acked, None)
        self.next_offset[partition] = offset + 1
        if offset in waiting:
            self._compare(partition, offset, waiting.pop(offset), value)
        elif value.startswith(self.name):
            early = self._read.setdefault(partition, {})
            early[offset] = value
            if len(early) > self._waiting_max():
                self._forgotten[partition] = next(iter(early))
                del early[self._forgotten[partition]]

    def _waiting_max(self) -> int:
        return WAITING_MAX // len(self.next_offset)

    def _compare(self, partition: int, offset: int, acked: str, found: str | None) -> None:
        if acked == found:
            self.checked += 1
            return
        self.not_there += 1
        if len(self.examples) < EXAMPLES_MAX:
            what = "nothing of ours" if found is None else found
            self.examples.append(f"partition {partition}, offset {offset}: {what}, not {acked}")


@dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of one load. A gap is a time without an acknowledgement of a partition.

    gaps holds the longest by partition, as milliseconds and the wall time at which it began.
    """

    started_ms: float
    started_wall_ms: int
    sent: Counter[int] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    retried_before: int = 0
    retry_counts: int = 0
    """How often the library told of its retries."""
    latencies: Latencies = field(default_factory=Latencies)
    timeline: LoadTimeline = field(default_factory=LoadTimeline)
    gaps: dict[int, tuple[float, int]] = field(default_factory=dict)
    _last_ack_ms: dict[int, float] = field(default_factory=dict)
    _last_sent_ms: dict[int, float] = field(default_factory=dict)

    def on_sent(self, partition: int, at_ms: float) -> None:
        """Take a send; the first gap of a partition begins with its first send."""
        self.sent[partition] += 1
        self._last_sent_ms[partition] = at_ms
        self._last_ack_ms.setdefault(partition, at_ms)

    def on_acked(self, partition: int, sent_ms: float, at_ms: float) -> None:
        """Take an acknowledgement."""
        self.ended[partition] += 1
        self.latencies.add(at_ms - sent_ms)
        self.timeline.add(at_ms - self.started_ms)
        self.gaps[partition] = self._longest(partition, at_ms)
        self._last_ack_ms[partition] = at_ms

    def on_not_acked(self, partition: int, error: str) -> None:
        """Take a send that failed, or whose outcome nobody knows."""
        self.ended[partition] += 1
        self.errors[error] += 1

    def on_retries(self, count: int) -> None:
        """Take how many records the library has sent again since its start."""
        self.retry_counts += 1
        # What waits to be sent for the first time hides some of them for a while.
        self.retried = max(self.retried, self.retried_before + count)

    def state(self) -> dict[str, Any]:
        """Return all that another process needs to go on, as JSON has it."""
        return {
            "started_wall_ms": self.started_wall_ms,
            "sent": _named(self.sent),
            "ended": _named(self.ended),
            "errors": dict(self.errors),
            "retried": self.retried,
            "latencies": {
                "counts": _named(self.latencies.counts),
                "longest_ms": self.latencies.longest_ms,
            },
            "timeline": {"width_ms": self.timeline.width_ms, "acked": self.timeline.acked},
            "gaps": _named(self.gaps),
        }

    @classmethod
    def going_on(cls, state: dict[str, Any], *, now_ms: float, wall_ms: int) -> Figures:
        """Return the figures of a process that ended, to go on with now.

        Time goes on by the wall clock; no gap reaches over the time between the processes. What
        was outstanding then has no outcome that anybody knows.
        """
        passed_ms = max(0, wall_ms - int(state["started_wall_ms"]))
        latencies, timeline = state["latencies"], state["timeline"]
        sent = Counter(_numbered(state["sent"]))
        lost = sent.total() - sum(state["ended"].values())
        return cls(
            started_ms=now_ms - passed_ms,
            started_wall_ms=wall_ms - passed_ms,
            sent=sent,
            ended=Counter(sent),
            errors=Counter(state["errors"]) + Counter({POD_REPLACED: lost}),
            retried=state["retried"],
            retried_before=state["retried"],
            latencies=Latencies(
                counts=Counter(_numbered(latencies["counts"])), longest_ms=latencies["longest_ms"]
            ),
            timeline=LoadTimeline(width_ms=timeline["width_ms"], acked=list(timeline["acked"])),
            gaps={number: (ms, at) for number, (ms, at) in _numbered(state["gaps"]).items()},
        )

    def summary(self, now_ms: float) -> dict[str, Any]:
        """Return the figures as JSON has them; a gap that goes on counts while sends wait."""
        self.timeline.add(now_ms - self.started_ms, 0)
        gaps = {}
        for partition in sorted(self.gaps.keys() | self._last_ack_ms.keys()):
            if partition not in self._last_ack_ms:
                ms, from_ms = self.gaps[partition]
                gaps[str(partition)] = {"ms": round(ms), "from_ms": from_ms}
                continue
            waits = self.sent[partition] > self.ended[partition]
            until_ms = now_ms if waits else self._last_sent_ms[partition]
            ms, from_ms = self._longest(partition, until_ms)
            gaps[str(partition)] = {"ms": round(ms), "from_ms": from_ms}
        return {
            "started_wall_ms": self.started_wall_ms,
            "seconds": round((now_ms - self.started_ms) / 1000, 1),
            "sent": self.sent.total(),
            "outstanding": self.sent.total() - self.ended.total(),
            "retried": self.retried,
            "errors": dict(self.errors),
            "latency_ms": {
                **{
                    name: round(self.latencies.percentile(share), 1)
                    for name, share in PERCENTILES.items()
                },
                "max": round(self.latencies.longest_ms, 1),
            },
            "gaps": gaps,
            "timeline": {"width_ms": self.timeline.width_ms, "acked": self.timeline.acked},
        }

    def _longest(self, partition: int, until_ms: float) -> tuple[float, int]:
        """Return the partition's longest gap if the present one ends now."""
        last_ms = self._last_ack_ms[partition]
        from_ms = self.started_wall_ms + round(last_ms - self.started_ms)
        before = self.gaps.get(partition, (0.0, from_ms))
        present = (until_ms - last_ms, from_ms)
        return max(before, present, key=lambda gap: gap[0])


def records_sent_again(statistics: Mapping[str, Any]) -> int:
    """Return how often records were transmitted beyond their first time, from librdkafka's figures.

    Records that wait for metadata count in partition -1, which transmits none, and in their own.
    """
    return sum(
        partition["txmsgs"] - partition["msgs"]
        for topic in statistics["topics"].values()
        for number, partition in topic["partitions"].items()
        if number != NO_PARTITION
    )


def _named(counts: Mapping[int, Any]) -> dict[str, Any]:
    """Return a mapping by number as JSON has it."""
    return {str(number): each for number, each in sorted(counts.items())}


def _numbered(counts: Mapping[str, Any]) -> dict[int, Any]:
    """Return a mapping by number from what JSON has."""
    return {int(number): each for number, each in counts.items()}
