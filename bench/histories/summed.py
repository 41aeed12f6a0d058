"""True tables that the true rows of partitions add up to: churn, flapping, failovers and slo.

Called by whoever takes the rows of `truth`, one partition at a time; keeps sums, not rows. What is
said here is said of the cluster, not of its scrapes: the whole time is known.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from .plan import Plan
from .replicas import PartitionHistory
from .scores import united
from .truth import Named, Row, span_of

WINDOW_MS: Final = 600_000
CYCLES: Final = 3
"""Times out and in again within WINDOW_MS that make flapping."""
DAY_MS: Final = 86_400_000
TARGET: Final = 0.999
"""Availability that the error budget of the analysis stands for."""
TABLES: Final = ("isr_churn", "flapping", "failover_quantiles", "slo")
SHARES: Final = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
Span = tuple[int, int]


@dataclass(slots=True)
class Day:
    """What is added up of one topic on one day, ms times partitions."""

    partitions: int = 0
    total_ms: int = 0
    leaderless_ms: int = 0
    refused_ms: int = 0
    """Without a leader or with too few replicas in sync for acks=all."""
    ur_ms: int = 0
    at_risk: int = 0
    """Offsets that one broker alone committed."""
    committed: int = 0
    failovers: list[float] = field(default_factory=list)


class Summed:
    """The sums over the partitions of one cluster."""

    def __init__(self, plan: Plan) -> None:
        """Begin without a partition."""
        self._plan = plan
        self._churn: Counter[tuple[int, int, str]] = Counter()
        self._changed: defaultdict[tuple[int, int], set[tuple[str, int]]] = defaultdict(set)
        self._failovers: defaultdict[str, list[float]] = defaultdict(list)
        self._days: defaultdict[tuple[str, int], Day] = defaultdict(Day)

    def added(self, history: PartitionHistory, rows: Iterable[Named]) -> Iterator[Named]:
        """Yield the rows of one partition, and those of flapping, and add them up."""
        by_table: defaultdict[str, list[Row]] = defaultdict(list)
        for name, row in rows:
            by_table[name].append(row)
            yield name, row
        states = sorted(by_table["isr_intervals"], key=lambda r: (r["replica"], r["start_ms"]))
        for _, of_replica in itertools.groupby(states, key=lambda row: row["replica"]):
            told = list(of_replica)
            self._add_churn(history, told)
            yield from (("flapping", row) for row in _flapping(told))
        for row in by_table["elections"]:
            self._failovers[row["kind"]].append(float(row["no_leader_low_ms"]))
        self._add_days(history, by_table)

    def rows(self) -> Iterator[Named]:
        """Yield the rows that all partitions add up to."""
        kinds = ("shrinks", "expands", "observed_shrinks", "observed_expands")
        for broker, window in sorted({key[:2] for key in self._churn}):
            row = {"broker": broker, "window_start_ms": window}
            counts = {kind: self._churn[broker, window, kind] for kind in kinds}
            changed = len(self._changed[broker, window])
            yield "isr_churn", {**row, **counts, "partitions": changed}
        for kind, lengths in sorted(self._failovers.items()):
            found = {name: quantile(lengths, share) for name, share in SHARES}
            found["max"] = int(found["max"])
            bounds = {
                f"{name}_{bound}_ms": value
                for name, value in found.items()
                for bound in ("low", "high")
            }
            yield "failover_quantiles", {"kind": kind, "elections": len(lengths), **bounds}
        for (topic, day_ms), day in sorted(self._days.items()):
            yield "slo", {"topic": topic, "day_ms": day_ms, **_slo(day)}

    def _add_churn(self, history: PartitionHistory, states: Sequence[Row]) -> None:
        for row in states[1:]:
            at_ms, broker = row["start_ms"], row["replica"]
            window, leader = at_ms - at_ms % WINDOW_MS, history.at(at_ms).leader
            kind = "expands" if row["in_isr"] else "shrinks"
            self._churn[broker, window, kind] += 1
            self._churn[leader, window, f"observed_{kind}"] += 1
            self._changed[broker, window].add((history.topic, history.partition))

    def _add_days(self, history: PartitionHistory, rows: dict[str, list[Row]]) -> None:
        plan = self._plan
        elections = rows["elections"]
        lost = [(row["t_last_old_ms"], row["t_first_new_ms"]) for row in elections]
        few, under = (
            [(row["start_ms"], row["end_ms"]) for row in rows[name]]
            for name in ("umi_episodes", "ur_episodes")
        )
        for day_ms in range(plan.start_ms - plan.start_ms % DAY_MS, plan.end_ms, DAY_MS):
            begin, end = max(day_ms, plan.start_ms), min(day_ms + DAY_MS, plan.end_ms)
            day = self._days[history.topic, day_ms]
            day.partitions += 1
            day.total_ms += end - begin
            day.leaderless_ms += _within(lost, begin, end)
            day.refused_ms += _within([*lost, *few], begin, end)
            day.ur_ms += _within(under, begin, end)
            here = [row for row in elections if begin <= row["t_first_new_ms"] < end]
            day.failovers += [float(row["no_leader_high_ms"]) for row in here]
            risky = rows["data_at_risk"]
            day.at_risk += sum(r["offsets"] for r in risky if begin <= r["start_ms"] < end)
            day.committed += history.committed.before(end) - history.committed.at(begin)
            # What an unclean election threw away had been committed, too.
            day.committed += sum(history.lost_by_epoch.get(row["epoch"], 0) for row in here)


def quantile(found: Sequence[float], share: float) -> float:
    """Return the exact quantile, linear between the two values around it."""
    ordered = sorted(found)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def _flapping(states: Sequence[Row]) -> Iterator[Row]:
    """Yield the times in which a replica left and came back again and again."""
    cycles = [row for row in states[1:-1] if not row["in_isr"]]
    groups: list[list[Row]] = []
    for first in range(len(cycles) - CYCLES + 1):
        some = cycles[first : first + CYCLES]
        if some[-1]["end_ms"] - some[0]["start_ms"] > WINDOW_MS:
            continue
        if groups and some[0]["start_ms"] <= groups[-1][-1]["start_ms"]:
            groups[-1] += [row for row in some if row["start_ms"] > groups[-1][-1]["start_ms"]]
        else:
            groups.append(list(some))
    for group in groups:
        start, end = group[0]["start_ms"], group[-1]["end_ms"]
        windows = max(end - start, WINDOW_MS) / WINDOW_MS
        yield {
            **{name: group[0][name] for name in ("topic", "partition", "replica")},
            **span_of(start, end),
            "cycles": len(group),
            "score": len(group) / (CYCLES * windows),
        }


def _within(spans: Sequence[Span], begin: int, end: int) -> int:
    """Return how much of a time spans take, each moment once."""
    return sum(
        max(min(until, end) - max(start, begin), 0)
        for start, until in united([each for each in spans if each[0] < each[1]])
    )


def _slo(day: Day) -> Row:
    total = day.total_ms
    availability = 1 - day.leaderless_ms / total
    return {
        "partitions": day.partitions,
        "total_ms": total,
        "known_ms": total,
        "coverage": 1.0,
        "covered": True,
        "availability": availability,
        "produce_availability": 1 - day.refused_ms / total,
        "ur_ratio": day.ur_ms / total,
        "durability_risk": day.at_risk / day.committed if day.committed else None,
        "failover_p99_ms": quantile(day.failovers, 0.99) if day.failovers else None,
        "error_budget_left": 1 - (1 - availability) / (1 - TARGET),
    }
