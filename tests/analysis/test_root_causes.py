"""Which broker incidents blame, over histories of many seeds with faults close together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.histories import scores
from bench.histories.plan import Plan, planned
from strandline_analysis.lake_slices import opened

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

LENGTH_MS = 1_800_000
SLICE_MS = 3_600_000
HISTORIES = (
    *((seed, 1_000, 3) for seed in (100, 101, 102, 103)),
    *((seed, 5_000, 3) for seed in (200, 201, 202)),
    *((seed, 5_000, 5) for seed in (300, 301, 302)),
    *((seed, 15_000, 3) for seed in (400, 401, 402, 403)),
)
"""Seed, scrape interval in ms, brokers."""


def test_the_root_cause_is_first_in_95_percent_of_the_incidents(
    spark: Any, planned_small: None, tmp_path: Path
) -> None:
    import pyarrow.parquet

    from bench.histories.written import write
    from strandline_analysis.lake import read_lake
    from strandline_analysis.tables import ANALYSES

    by_interval: dict[int, list[scores.Score]] = {}
    for seed, interval_ms, brokers in HISTORIES:
        given = Plan(seed=seed, length_ms=LENGTH_MS, brokers=brokers, topics=3, partitions=2)
        plan, folder = planned(given), tmp_path / f"{seed}"
        write([plan], folder, interval_ms=interval_ms, slice_ms=SLICE_MS, text=False)
        analysis = ANALYSES["incidents"]
        metrics = [metric.name for metric in analysis.metrics]
        ranged = {"start_ms": plan.start_ms, "end_ms": plan.end_ms}
        samples = read_lake(spark, opened(folder / "lake"), metrics=metrics, **ranged)
        rows = analysis.make(samples, interval_ms=interval_ms, **ranged).toArrow().to_pylist()
        faults = pyarrow.parquet.read_table(folder / "truth" / plan.cluster / "faults.parquet")
        score = scores.root_causes(rows, faults.to_pylist(), settle_ms=plan.settle_ms)
        print(f"seed {seed}, {interval_ms} ms, {brokers} brokers:", score)
        by_interval.setdefault(interval_ms, []).append(score)
    for interval_ms, found in by_interval.items():
        matched, expected = (
            sum(getattr(each, n) for each in found) for n in ("matched", "expected")
        )
        print(f"{interval_ms} ms: {matched} of {expected}")
        assert matched >= 0.95 * expected
        # Nothing is an incident without a fault.
        assert sum(each.found for each in found) == expected
