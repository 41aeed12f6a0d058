"""Runs of equal samples: which samples belong to a run, and which end it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_analysis.run_lengths import Run, run_lengths
from strandline_analysis.xor_chunk import STALE_BITS

GAP_MS = 2500


def run(first_ms: int, last_ms: int, sample_count: int, bits: int) -> Run:
    return Run(first_ms=first_ms, last_ms=last_ms, sample_count=sample_count, bits=bits)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], []),
        ([(0, 1), (1000, 1), (2000, 1)], [run(0, 2000, 3, 1)]),
        ([(0, 1), (1000, 2)], [run(0, 0, 1, 1), run(1000, 1000, 1, 2)]),
        ([(0, 1), (2500, 1)], [run(0, 2500, 2, 1)]),
        ([(0, 1), (2501, 1)], [run(0, 0, 1, 1), run(2501, 2501, 1, 1)]),
        (
            [(0, 1), (1000, STALE_BITS), (2000, STALE_BITS), (3000, 1)],
            [
                run(0, 0, 1, 1),
                run(1000, 1000, 1, STALE_BITS),
                run(2000, 2000, 1, STALE_BITS),
                run(3000, 3000, 1, 1),
            ],
        ),
    ],
    ids=["nothing", "equal", "changed", "one lost", "gap", "stale"],
)
def test_runs(samples: list[tuple[int, int]], expected: list[Run]) -> None:
    assert list(run_lengths(samples, gap_ms=GAP_MS)) == expected


def test_without_a_gap_every_sample_stands_alone() -> None:
    samples = [(0, 1), (1000, 1)]
    assert list(run_lengths(samples, gap_ms=0)) == [run(0, 0, 1, 1), run(1000, 1000, 1, 1)]


@given(st.lists(st.tuples(st.integers(1, 4000), st.sampled_from([0, 1, STALE_BITS])), max_size=60))
def test_no_sample_is_lost_and_neighbours_differ(steps: list[tuple[int, int]]) -> None:
    samples = []
    timestamp = 0
    for step, bits in steps:
        timestamp += step
        samples.append((timestamp, bits))
    runs = list(run_lengths(samples, gap_ms=GAP_MS))
    assert sum(each.sample_count for each in runs) == len(samples)
    for before, after in itertools.pairwise(runs):
        apart = after.first_ms - before.last_ms > GAP_MS
        assert apart or before.bits != after.bits or before.is_stale
