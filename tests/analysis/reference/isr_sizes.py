"""Reference of analysis 2, moment by moment between the edges of the gauges."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.analysis.reference.holding import History, Range
from tests.analysis.reference.isr_intervals import MEMBER, edges
from tests.analysis.reference.leader_states import State, Subject, leader_states

GAUGES = (
    "strandline_partition_isr_size",
    "strandline_partition_replicas",
    "strandline_partition_min_insync_replicas",
)
BAD: dict[str, Callable[[int, int, int], bool]] = {
    "ur_episodes": lambda size, replicas, _: size < replicas,
    "umi_episodes": lambda size, _, least: size < least,
    "at_min_isr": lambda size, _, least: size == least,
}
USED = {"ur_episodes": (0, 1), "umi_episodes": (0, 2), "at_min_isr": (0, 2)}
Sizes = tuple[float | None, ...]


@dataclass(slots=True)
class Interval:
    """A time of equal sizes."""

    sizes: Sizes
    start: tuple[int, int, str]
    end: tuple[int, int, str]
    """Time, error and reason."""


def isr_size_intervals(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield the size of each ISR with the sizes that it is measured by."""
    for (topic, partition), intervals in _sizes(history, of):
        for each in intervals:
            size, replicas, least = (None if s is None else int(s) for s in each.sizes)
            yield {
                "topic": topic,
                "partition": partition,
                "isr_size": size,
                "replicas": replicas,
                "min_isr": least,
                **_columns(each.start, each.end),
            }


def episodes(
    history: History, of: Range, *, table: str, merge_gap_ms: int
) -> Iterator[dict[str, Any]]:
    """Yield the episodes of one table."""
    for (topic, partition), intervals in _sizes(history, of):
        groups: list[list[Interval]] = []
        for each in intervals:
            if is_bad(table, each.sizes):
                hole = each.start[0] - groups[-1][-1].end[0] if groups else None
                if hole is not None and (hole == 0 or hole < merge_gap_ms):
                    groups[-1].append(each)
                else:
                    groups.append([each])
        for group in groups:
            start, end = group[0].start, group[-1].end
            inside = [i for i in intervals if start[0] <= i.start[0] and i.end[0] <= end[0]]
            unknown = [i for i in inside if is_bad(table, i.sizes) is None]
            yield {
                "topic": topic,
                "partition": partition,
                **_columns(start, end),
                "bad_ms": sum(i.end[0] - i.start[0] for i in group),
                "unknown_ms": sum(i.end[0] - i.start[0] for i in unknown),
                "min_size": min(int(i.sizes[0] or 0) for i in group),
                "missing_replicas": _missing(history, of, start[0], end[0]),
                "ongoing": end[0] >= of.end_ms,
            }


def is_bad(table: str, sizes: Sizes) -> bool | None:
    """Tell whether sizes make an episode of a table, None if that is not known."""
    if any(sizes[index] is None for index in USED[table]):
        return None
    size, replicas, least = (int(each or 0) for each in sizes)
    return BAD[table](size, replicas, least)


def _missing(history: History, of: Range, start: int, end: int) -> list[int]:
    absent: Counter[int] = Counter()
    for (_, (_, _, replica)), states in leader_states(history, (*GAUGES, MEMBER), of).items():
        for state in states:
            if replica is not None and state.value == 0:
                overlap = min(end, state.end_ms) - max(start, state.start_ms)
                absent[replica] += max(overlap, 0)
    return sorted((r for r in absent if absent[r] > 0), key=lambda r: (-absent[r], r))


def _sizes(history: History, of: Range) -> Iterator[tuple[tuple[str, int], list[Interval]]]:
    states = leader_states(history, (*GAUGES, MEMBER), of)
    partitions = {subject[:2] for gauge, subject in states if gauge == GAUGES[0]}
    for topic, partition in sorted(partitions):
        subject: Subject = (topic, partition, None)
        by_gauge = [states[gauge, subject] for gauge in GAUGES]
        moments = sorted({s.start_ms for each in by_gauge for s in each} | {of.end_ms})
        found: list[Interval] = []
        for start, end in itertools.pairwise(moments):
            now = [next(s for s in each if s.start_ms <= start < s.end_ms) for each in by_gauge]
            sizes = tuple(state.value for state in now)
            begin = next((s for s in now if s.start_ms == start), now[0])
            finish = next((s for s in now if s.end_ms == end), now[0])
            if found and found[-1].sizes == sizes:
                found[-1].end = _end(finish)
            else:
                found.append(Interval(sizes, _start(begin), _end(finish)))
        yield (topic, partition), found


def _start(state: State) -> tuple[int, int, str]:
    return state.start_ms, state.start_err_ms, state.start_reason


def _end(state: State) -> tuple[int, int, str]:
    return state.end_ms, state.end_err_ms, state.end_reason


def _columns(start: tuple[int, int, str], end: tuple[int, int, str]) -> dict[str, Any]:
    state = State(
        value=None,
        start_ms=start[0],
        end_ms=end[0],
        start_err_ms=start[1],
        end_err_ms=end[1],
        start_reason=start[2],
        end_reason=end[2],
    )
    return edges(state)
