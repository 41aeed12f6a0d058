"""Runs of a lake's files are those that plain Python makes of the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_analysis.lake_slices import LakeRefused
from strandline_analysis.run_lengths import run_lengths
from strandline_analysis.xor_chunk import STALE_BITS, number
from tests.analysis.timeline import bits_of

pytestmark = pytest.mark.processes

START = 1_790_000_000_000
END = START + 60_000
GAP_MS = 2_500
BATCH = 3
"""Samples that the tests read together, so that series go over the ends of batches."""
METRIC = "strandline_test:value"

unhurried = settings(deadline=None, max_examples=60)
steps = st.lists(
    st.tuples(
        st.sampled_from([1, 1000, 2500, 2501, 15_000]),
        st.one_of(
            st.just(STALE_BITS),
            st.sampled_from([0.0, -0.0, 1.0, float("nan")]).map(bits_of),
        ),
    ),
    min_size=1,
    max_size=9,
)


@pytest.fixture(scope="module")
def lake_runs(packages: str) -> Iterator[Any]:
    """Return the module that needs numpy and Arrow, with small batches."""
    assert packages
    from strandline_analysis import columns, lake_runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BATCH_SAMPLES", BATCH)
        yield lake_runs


def write(folder: Path, samples: list[tuple[int, int, int]]) -> Path:
    """Write samples, each with series, time and bits, as Spark writes those of a lake."""
    import pyarrow as pa
    import pyarrow.parquet
    from pyspark.sql.pandas.types import to_arrow_schema

    from strandline_analysis import schema

    shape = to_arrow_schema(schema.SAMPLES, timezone="UTC")
    rows = [
        {
            "series_id": series,
            "pod": f"default-{series}",
            "topic": "t",
            "partition": 7,
            "labels": [("kind", str(series))],
            "first_ms": at,
            "last_ms": at,
            "sample_count": 1,
            "value": None if bits == STALE_BITS else number(bits),
            "stale": bits == STALE_BITS,
        }
        for series, at, bits in samples
    ]
    path = folder / f"metric={METRIC.replace(':', '%3A')}" / "slice_ms=0" / "part.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = pa.schema([field for field in shape if field.name != "metric"])
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema=stored), path)
    return path


def read(lake_runs: Any, path: Path, *names: str) -> list[dict[str, Any]]:
    """Return the runs of a file, with some columns or all."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from strandline_analysis import schema

    shape = to_arrow_schema(schema.SAMPLES, timezone="UTC")
    shape = pa.schema([field for field in shape if not names or field.name in names])
    found = lake_runs.read_runs(path, shape, start_ms=START, end_ms=END, gap_ms=GAP_MS)
    return [row for batch in found for row in batch.to_pylist()]


def joined(rows: list[dict[str, Any]]) -> list[tuple[int, int, int, int, int]]:
    """Return runs as series, first, last, count and bits, without the cuts at ends of batches."""
    found: list[tuple[int, int, int, int, int]] = []
    for row in rows:
        bits = STALE_BITS if row["stale"] else bits_of(row["value"])
        run = (row["series_id"], row["first_ms"], row["last_ms"], row["sample_count"], bits)
        if found:
            series, first, last, count, before = found[-1]
            goes_on = (series, before) == (run[0], bits) and bits != STALE_BITS
            if goes_on and run[1] - last <= GAP_MS:
                run = (series, first, run[2], count + run[3], bits)
                found.pop()
        found.append(run)
    return found


@unhurried
@given(drawn=st.lists(steps, min_size=1, max_size=4))
def test_runs_are_those_of_each_series_alone(
    lake_runs: Any, tmp_path_factory: pytest.TempPathFactory, drawn: list[list[tuple[int, int]]]
) -> None:
    samples, wanted = [], []
    for series, drawn_steps in enumerate(drawn):
        at, own = START - 2000, []
        for step, bits in drawn_steps:
            at += step
            own.append((at, bits))
        samples += [(series, *each) for each in own]
        inside = [(at, bits) for at, bits in own if START <= at < END]
        wanted += [
            (series, run.first_ms, run.last_ms, run.sample_count, run.bits)
            for run in run_lengths(inside, gap_ms=GAP_MS)
        ]
    path = write(tmp_path_factory.mktemp("lake"), samples)
    rows = read(lake_runs, path)
    assert joined(rows) == wanted
    for row in rows:
        series = row["series_id"]
        assert (row["metric"], row["pod"]) == (METRIC, f"default-{series}")
        assert (row["topic"], row["partition"], row["instance"]) == ("t", 7, None)
        assert row["labels"] == [("kind", str(series))]
    few = ("metric", "pod", "sample_count")
    assert read(lake_runs, path, *few) == [{name: row[name] for name in few} for row in rows]


@pytest.mark.parametrize(
    "places",
    [
        [(1, 2), (1, 1)],  # back in time
        [(1, 1), (1, 1)],  # twice
        [(1, 1), (2, 1), (1, 2)],  # back to a series
        [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3)],  # the same in another batch
        [(1, 1), (1, 2), (1, 4), (1, 3)],  # back in time in another batch
    ],
)
def test_a_file_in_another_order_is_refused(
    lake_runs: Any, tmp_path: Path, places: list[tuple[int, int]]
) -> None:
    path = write(tmp_path, [(series, START + at, bits_of(1.0)) for series, at in places])
    with pytest.raises(LakeRefused, match=r"part.parquet is not sorted .*: land a new lake"):
        read(lake_runs, path)


def test_series_need_not_be_in_the_order_of_their_numbers(lake_runs: Any, tmp_path: Path) -> None:
    places = [(2, 1), (2, 2), (1, 1), (1, 2), (3, 1)]
    path = write(tmp_path, [(series, START + at, bits_of(1.0)) for series, at in places])
    assert [run[:4] for run in joined(read(lake_runs, path))] == [
        (2, START + 1, START + 2, 2),
        (1, START + 1, START + 2, 2),
        (3, START + 1, START + 1, 1),
    ]
