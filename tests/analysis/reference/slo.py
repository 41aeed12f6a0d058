"""Reference of analysis 11, for one partition's history."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.analysis.reference.elections import elections
from tests.analysis.reference.holding import History, Range, quantile
from tests.analysis.reference.isr_sizes import isr_size_intervals
from tests.analysis.reference.risk import data_at_risk
from tests.analysis.reference.watermarks import scrapes

DAY_MS = 86_400_000


def slo(history: History, of: Range, *, target: float) -> Iterator[dict[str, Any]]:
    """Yield the shares of each day."""
    sizes = list(isr_size_intervals(history, of))
    observed = [row for row in elections(history, of) if row["observed"]]
    first = of.start_ms - of.start_ms % DAY_MS
    for day in range(first, of.end_ms, DAY_MS) if sizes else ():
        total = known = gone = umi = ur = 0
        for size in sizes:
            start, end = max(size["start_ms"], day), min(size["end_ms"], day + DAY_MS)
            length = max(end - start, 0)
            missing = 0
            for row in observed:
                until = row["t_first_new_ms"]
                begin = until - row["no_leader_high_ms"]
                missing += max(min(end, until) - max(start, begin), 0)
            total += length
            gone += missing
            values = (size["isr_size"], size["replicas"], size["min_isr"])
            if None in values:
                known += missing
                umi += missing
                continue
            known += length
            umi += length if values[0] < values[2] else missing
            ur += length if values[0] < values[1] else 0
        failovers = [
            float(row["no_leader_high_ms"])
            for row in observed
            if day <= row["t_first_new_ms"] < day + DAY_MS
        ]
        at_risk = sum(
            int(row["offsets"])
            for row in data_at_risk(history, of)
            if day <= row["start_ms"] < day + DAY_MS
        )
        committed = sum(
            max(now.hw - before.hw, 0)
            for before, now in itertools.pairwise(scrapes(history, of))
            if day <= now.at < day + DAY_MS
        )
        availability = 1 - gone / known if known else None
        yield {
            "topic": sizes[0]["topic"],
            "day_ms": day,
            "partitions": 1,
            "total_ms": total,
            "known_ms": known,
            "coverage": known / total,
            "covered": known / total >= 0.95,
            "availability": availability,
            "produce_availability": 1 - umi / known if known else None,
            "ur_ratio": ur / known if known else None,
            "durability_risk": at_risk / committed if committed else None,
            "failover_p99_ms": quantile(sorted(failovers), 0.99) if failovers else None,
            "error_budget_left": None
            if availability is None
            else 1 - (1 - availability) / (1 - target),
        }
