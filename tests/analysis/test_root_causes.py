"""Which broker incidents blame, over histories of many seeds with faults close together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.histories import scores
from bench.histories.plan import Plan, planned
from strandline_analysis.lake_slices import opened

pytestmark = pytest.mark.long

LENGTH_MS = 1_800_000
SLICE_MS = 3_600_000
HISTORIES = (
    *((seed, 1_000, 3) for seed in (100, 101, 102, 103)),
    *((seed, 5_000, 3) for seed in (200, 201, 202)),
    *((seed, 5_000, 5) for seed in (300, 301, 302)),
)
"""Seed, scrape interval in ms, brokers."""


def test_the_root_cause_is_first_in_95_percent_of_the_incidents(
    spark: Any, planned_small: None, tmp_path: Path
) -> None:
    import pyarrow.parquet

    from bench.histories.written import write
    from strandline_analysis.lake import read_lake
    from strandline_analysis.tables import ANALYSES

    matched = expected = found = 0
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
        matched, expected = matched + score.matched, expected + score.expected
        found += score.found
    print(f"{matched} of {expected}")
    assert matched >= 0.95 * expected
    # Nothing is an incident without a fault.
    assert found == expected
