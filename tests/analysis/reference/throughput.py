"""Reference of analysis 7."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.analysis.reference.holding import History, Range, exactly, holding, label, series_of
from tests.analysis.reference.leader_states import broker_of

START = "strandline_broker_start_timestamp_seconds"
COUNTERS = (
    "strandline_produced_bytes_total",
    "strandline_produced_records_total",
    "strandline_replication_bytes_total",
)
MINUTE_MS = 60_000


def replication_throughput(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield what each broker moved, by minute, for minutes in which it moved something."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for metric in COUNTERS:
        for labels, samples in series_of(history, metric).items():
            direction = label(labels, "direction")
            flow = f"replicated_{direction}" if direction else "produced"
            unit = "records" if "records" in metric else "bytes"
            pod, topic = label(labels, "pod"), label(labels, "topic") or None
            for at, increase, reset, across in _increases(history, pod, samples, of):
                minute = at - at % MINUTE_MS
                row = rows.setdefault(
                    (pod, topic, minute, flow),
                    {
                        "broker": broker_of(pod),
                        "topic": topic,
                        "minute_ms": minute,
                        "flow": flow,
                        "bytes": 0,
                        "records": 0 if flow == "produced" else None,
                        "across_gap": False,
                        "resets": 0,
                    },
                )
                row[unit] += int(increase)
                row["across_gap"] |= across and increase > 0
                row["resets"] += reset and unit == "bytes"
    yield from (row for row in rows.values() if row["bytes"] or row["records"] or row["resets"])


def _increases(
    history: History, pod: str, samples: Any, of: Range
) -> Iterator[tuple[int, float, bool, bool]]:
    """Yield (time, increase, whether the counter began anew, whether across a gap)."""
    starts = {
        at: value
        for labels, found in series_of(history, START).items()
        if label(labels, "pod") == pod
        for at, value in found
        if value is not None
    }
    counted = holding(samples, of)
    if counted[0].at > min(starts):
        yield counted[0].at, counted[0].value, False, False
    for before, now in itertools.pairwise(counted):
        between = [value for at, value in starts.items() if before.at < at <= now.at]
        reset = any(value != starts[before.at] for value in between) or now.value < before.value
        increase = now.value if reset else now.value - before.value
        yield now.at, increase, reset, now.previous is None


def truncations(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield where a replica lost the end of its log: the offset fell, or its counter rose."""
    for labels, samples in series_of(history, "strandline_partition_log_end_offset").items():
        pod = label(labels, "pod")
        epochs = exactly(history, "strandline_partition_leader_epoch", labels)
        counted: dict[int, float] = {}
        for other, found in series_of(history, "strandline_truncated_records_total").items():
            if all(label(other, key) == label(labels, key) for key in ("pod", "topic")):
                for at, value in found:
                    counted[at] = counted.get(at, 0) + (value or 0)
        starts = {
            at: value
            for other, found in series_of(history, START).items()
            if label(other, "pod") == pod
            for at, value in found
        }
        for before, now in itertools.pairwise(holding(samples, of)):
            old, new = counted.get(before.at, 0), counted.get(now.at, 0)
            anew = new < old or starts.get(before.at) != starts.get(now.at)
            lost = max(before.value - now.value, new if anew else new - old)
            if lost > 0:
                yield {
                    "topic": label(labels, "topic"),
                    "partition": int(label(labels, "partition")),
                    "broker": broker_of(pod),
                    "at_ms": now.at,
                    "at_err_ms": now.at - before.at,
                    "leo_from": int(before.value),
                    "leo_to": int(now.value),
                    "records_low": int(lost),
                    "leader_epoch": int(epochs[now.at]),
                }
