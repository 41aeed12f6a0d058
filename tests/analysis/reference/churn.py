"""Reference of analysis 5."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.analysis.reference.holding import History, Range, label, series_of
from tests.analysis.reference.isr_intervals import MEMBER
from tests.analysis.reference.leader_states import State, Subject, broker_of, leader_states

TEN_MINUTES_MS = 600_000


def _members(history: History, of: Range) -> Iterator[tuple[Subject, list[State]]]:
    for (_, subject), states in leader_states(history, (MEMBER,), of).items():
        yield subject, states


def _edges(history: History, of: Range) -> Iterator[tuple[Subject, State]]:
    for subject, states in _members(history, of):
        for before, now in itertools.pairwise(states):
            if before.value is not None and now.value is not None:
                yield subject, now


def isr_churn(histories: Iterable[History], of: Range) -> Iterator[dict[str, Any]]:
    """Yield how often brokers were removed from ISRs and added, over several topics."""
    counts: Counter[tuple[int, int, str]] = Counter()
    partitions: dict[tuple[int, int], set[tuple[str, int]]] = {}
    for history in histories:
        for (topic, partition, replica), state in _edges(history, of):
            window = state.start_ms - state.start_ms % TEN_MINUTES_MS
            assert state.pod is not None
            assert replica is not None
            what = "shrinks" if state.value == 0 else "expands"
            counts[replica, window, what] += 1
            counts[broker_of(state.pod), window, f"observed_{what}"] += 1
            partitions.setdefault((replica, window), set()).add((topic, partition))
    for broker, window in {key[:2] for key in counts}:
        kinds = ("shrinks", "expands", "observed_shrinks", "observed_expands")
        yield {
            "broker": broker,
            "window_start_ms": window,
            **{kind: counts[broker, window, kind] for kind in kinds},
            "partitions": len(partitions.get((broker, window), ())),
        }


def flapping(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield the episodes in which replicas left and came back again and again."""
    for (topic, partition, replica), states in _members(history, of):
        cycles = [
            out
            for before, out, after in zip(states, states[1:], states[2:], strict=False)
            if (before.value, out.value, after.value) == (1, 0, 1)
        ]
        triples = [
            {first, first + 1, first + 2}
            for first in range(len(cycles) - 2)
            if cycles[first + 2].end_ms - cycles[first].start_ms <= TEN_MINUTES_MS
        ]
        groups: list[set[int]] = []
        for triple in triples:
            if groups and groups[-1] & triple:
                groups[-1] |= triple
            else:
                groups.append(triple)
        for group in groups:
            first, last = cycles[min(group)], cycles[max(group)]
            length = last.end_ms - first.start_ms
            windows = max(length, TEN_MINUTES_MS) / TEN_MINUTES_MS
            yield {
                "topic": topic,
                "partition": partition,
                "replica": replica,
                "start_ms": first.start_ms,
                "end_ms": last.end_ms,
                "start_err_ms": first.start_err_ms,
                "end_err_ms": last.end_err_ms,
                "duration_low_ms": max(length - last.end_err_ms, 0),
                "duration_high_ms": length + first.start_err_ms,
                "cycles": len(group),
                "score": len(group) / (3 * windows),
            }


def missed_edges(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield how many changes of ISRs leaders counted, and scrapes did not see."""
    seen = {
        (state.pod, state.start_ms, "shrinks" if state.value == 0 else "expands")
        for _, state in _edges(history, of)
        if state.start_reason == "change"
    }
    counted: dict[str, dict[str, float]] = {}
    shape: Any = {}
    for kind in ("shrinks", "expands"):
        for labels, samples in series_of(history, f"strandline_isr_{kind}_total").items():
            values = [value for _, value in samples if value is not None]
            steps = [b - a if b >= a else b for a, b in itertools.pairwise(values)]
            counted.setdefault(label(labels, "pod"), {})[kind] = sum(steps)
            shape = {"topic": label(labels, "topic"), "partition": int(label(labels, "partition"))}
    for pod, counts in counted.items():
        row = {**shape, "broker": broker_of(pod)}
        for kind in ("shrinks", "expands"):
            found = sum((who, what) == (pod, kind) for who, _, what in seen)
            row |= {f"seen_{kind}": found, f"counted_{kind}": int(counts[kind])}
            row[f"missed_{kind}"] = max(int(counts[kind]) - found, 0)
        yield row
