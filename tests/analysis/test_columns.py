"""Rows of many series at once equal those that plain Python makes of one series after the other."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_analysis.remote_read import Series
from strandline_analysis.run_lengths import run_lengths
from strandline_analysis.xor_chunk import STALE_BITS, number
from tests.analysis.timeline import bits_of
from tests.analysis.xor_encoder import encode

pytestmark = pytest.mark.processes

START = 1_790_000_000_000
MINUTE = 60_000
END = START + 20 * MINUTE
LABELS = {"__name__": "m", "pod": "default-0", "topic": "t", "partition": "7"}
Sample = tuple[int, int]

unhurried = settings(deadline=None, max_examples=60)
steps = st.lists(
    st.tuples(
        st.sampled_from([1, 1000, 2500, 2501, 15_000, MINUTE]),
        st.one_of(
            st.just(STALE_BITS),
            st.sampled_from([0.0, -0.0, 1.0, 5.0, 1e300, math.inf]).map(bits_of),
        ),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def columns(packages: str) -> Any:
    """Return the module that needs numpy and Arrow."""
    assert packages
    from strandline_analysis import columns

    return columns


def samples_of(drawn: list[tuple[int, int]]) -> list[Sample]:
    """Return samples that begin before START, in the order of time."""
    at, samples = START - 2000, []
    for step, bits in drawn:
        at += step
        samples.append((at, bits))
    return samples


def series_of(samples: Sequence[Sample], index: int, cut: random.Random) -> Series:
    """Return a series whose chunks overlap and interleave; samples of some were deleted."""
    chunks = []
    left = list(samples)
    while left:
        size = cut.randint(1, 8)
        chunks.append(encode(left[:size]))
        left = left[max(1, size - 2) :]
    cut.shuffle(chunks)
    deleted: dict[int, tuple[tuple[int, int], ...]] = {}
    for place in cut.sample(range(len(chunks)), cut.randint(0, len(chunks))):
        first, last = sorted(cut.choice(samples)[0] for _ in range(2))
        deleted[place] = ((first, first), (last - 1000, last))
    return Series({**LABELS, "pod": f"default-{index}"}, chunks, deleted)


def table(rows: Any) -> list[dict[str, Any]]:
    """Return the rows beside their labels, with values that compare by their bits."""
    names = list(rows.columns)
    lists = [column.to_pylist() for column in rows.columns.values()]
    found = [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
    return [
        {"pod": rows.labels[index]["pod"], **{key: plain(value) for key, value in row.items()}}
        for index, row in zip(rows.series.tolist(), found, strict=True)
    ]


def plain(value: Any) -> Any:
    return hex(bits_of(value)) if isinstance(value, float) else value


@unhurried
@given(st.lists(steps, max_size=4), st.integers(0, 1000), st.sampled_from([0, 2500, 20_000]))
def test_runs_are_those_of_each_series_alone(
    columns: Any, drawn: list[list[tuple[int, int]]], seed: int, gap_ms: int
) -> None:
    cut = random.Random(seed)
    series = [series_of(samples_of(each), index, cut) for index, each in enumerate(drawn)]
    expected = [
        {
            "pod": each.labels["pod"],
            "first_ms": run.first_ms,
            "last_ms": run.last_ms,
            "sample_count": run.sample_count,
            "value": None if run.is_stale else plain(number(run.bits)),
            "stale": run.is_stale,
        }
        for each in series
        for run in run_lengths(each.samples(start_ms=START, end_ms=END), gap_ms=gap_ms)
    ]
    decoded = columns.decoded(series, start_ms=START, end_ms=END)
    assert table(columns.runs(decoded, gap_ms=gap_ms)) == expected


def by_minute(pod: str, samples: list[Sample]) -> list[dict[str, Any]]:
    """Return the rows of one series, sample by sample."""
    groups: list[list[Sample]] = []
    for at, bits in samples:
        new_minute = not groups or groups[-1][-1][0] // MINUTE != at // MINUTE
        if new_minute or STALE_BITS in {bits, groups[-1][-1][1]}:
            groups.append([])
        groups[-1].append((at, bits))
    rows = []
    for group in groups:
        stale = group[0][1] == STALE_BITS
        values = [number(bits) for _, bits in group]
        rises = [b - a for a, b in itertools.pairwise(values)]
        told: dict[str, Any] = {
            "first_value": values[0],
            "last_value": values[-1],
            "min_value": min(values),
            "max_value": max(values),
            "increase": sum((r if r >= 0 else v) for r, v in zip(rises, values[1:], strict=True)),
            "fall": sum(-r for r in rises if r < 0),
            "fall_count": sum(r < 0 for r in rises),
        }
        row = {
            "pod": pod,
            "minute_ms": group[0][0] // MINUTE * MINUTE,
            "first_ms": group[0][0],
            "last_ms": group[-1][0],
            "sample_count": len(group),
            **(dict.fromkeys(told) if stale else told),
            "stale": stale,
        }
        rows.append(row)
    return rows


whole_steps = st.lists(
    st.tuples(
        st.sampled_from([1000, 15_000, 50_000]),
        st.one_of(st.just(STALE_BITS), st.integers(0, 9).map(lambda value: bits_of(float(value)))),
    ),
    max_size=30,
)


@unhurried
@given(st.lists(whole_steps, max_size=3), st.integers(0, 1000))
def test_minutes_are_those_of_plain_python(
    columns: Any, drawn: list[list[tuple[int, int]]], seed: int
) -> None:
    cut = random.Random(seed)
    series = [series_of(samples_of(each), index, cut) for index, each in enumerate(drawn)]
    expected = [
        {key: float(value) if key in {"increase", "fall"} and value is not None else value
         for key, value in row.items()}
        for each in series
        for row in by_minute(
            each.labels["pod"], list(each.samples(start_ms=START, end_ms=END))
        )
    ]  # fmt: skip
    found = columns.minutes(columns.decoded(series, start_ms=START, end_ms=END))
    assert table(found) == [{key: plain(value) for key, value in row.items()} for row in expected]


def test_a_reset_counts_from_zero_and_a_truncation_is_told(columns: Any) -> None:
    values = [100.0, 130.0, 20.0, 25.0]
    chunk = encode([(START + 1000 * i, bits_of(value)) for i, value in enumerate(values)])
    decoded = columns.decoded([Series(LABELS, [chunk])], start_ms=START, end_ms=END)
    (row,) = table(columns.minutes(decoded))
    assert [row["increase"], row["fall"]] == [plain(30.0 + 20.0 + 5.0), plain(110.0)]
    assert row["fall_count"] == 1


def test_groups_hold_a_bounded_number_of_samples(columns: Any) -> None:
    sizes = [3, 4, 20, 1, 1, 1]
    series = [Series(LABELS, [encode([(START + at, 1) for at in range(size)])]) for size in sizes]
    groups = list(columns.grouped(series, samples_max=7))
    assert [each for group in groups for each in group] == series
    assert [len(group) for group in groups] == [2, 1, 3]
    assert list(columns.grouped([], samples_max=7)) == []


def test_only_the_columns_that_are_asked_for_are_made(columns: Any) -> None:
    import pyarrow as pa

    # Labels without what most columns are made of, so that making one of those would fail.
    series = Series({"partition": "7"}, [encode([(START, bits_of(1.5))])])
    decoded = columns.decoded([series], start_ms=START, end_ms=END)
    shape = pa.schema([("value", pa.float64()), ("partition", pa.int32())])
    batch = columns.record_batch(columns.runs(decoded, gap_ms=0), shape)
    assert batch.to_pylist() == [{"value": 1.5, "partition": 7}]


@pytest.mark.parametrize(
    ("label", "number"),
    [("7", 7), ("0", 0), ("07", None), ("-1", None), ("", None), (None, None), ("1" * 10, None),
     ("٣", None), ("x", None)],
)  # fmt: skip
def test_a_label_is_a_number_if_it_is_spelt_as_one(
    columns: Any, label: str | None, number: int | None
) -> None:
    assert columns.whole(label) == number
