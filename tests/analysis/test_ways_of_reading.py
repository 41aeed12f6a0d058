"""Each way of reading a real Prometheus gives the same rows: split, reduced, filtered, as JSON."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline_analysis.read_options import Matcher, Piece
from tests.analysis.openmetrics import Labelled, openmetrics
from tests.analysis.timeline import PartitionTimeline
from tests.support.prometheus_program import PrometheusProgram

pytestmark = pytest.mark.processes

START_MS = PartitionTimeline().start_ms
END_MS = START_MS + 20 * 60_000
INTERVAL_MS = 5000
GAP_MS = 12_500
METRIC = "strandline_test_offset"
SLICE_MS = 300_000
SPLIT = {"slice_ms": SLICE_MS, "shards": 3, "concurrent_reads": 2}
COLUMNS = ("pod", "partition", "first_ms", "last_ms", "sample_count", "value", "stale")
MINUTES = ("pod", "partition", "minute_ms", "sample_count", "increase", "fall", "last_value")

Rows = list[tuple[Any, ...]]


class Ways:
    """Reads the series of `offsets`, with any options."""

    def __init__(self, spark: Any, url: str) -> None:
        self._spark = spark
        self._known = {"url": url, "metrics": METRIC, "start_ms": START_MS, "end_ms": END_MS}

    def given(self, **options: object) -> Any:
        return self._spark.read.format("prometheus").options(**self._known).options(**options)

    def load(self, **options: object) -> Any:
        return self.given(**options).load()

    def rows(self, *columns: str, **options: object) -> Rows:
        return rows(self.load(**options), *columns)


def rows(frame: Any, *columns: str) -> Rows:
    """Return the rows of these columns, or of COLUMNS, in order."""
    wanted = columns or COLUMNS
    found = frame.select(*wanted).toArrow().to_pylist()
    return sorted(tuple(row[name] for name in wanted) for row in found)


def offsets() -> list[Labelled]:
    """Return 24 series: steps, rising values, and some that fall.

    Those of one pod are scraped at each begin of a slice.
    """
    chance = random.Random(11)
    made = []
    for partition in range(12):
        for pod, jitter in (("default-0", (0, 0, 1, -1)), ("default-1", (0,))):
            at, value, samples = START_MS, 0.0, []
            if len(jitter) > 1:
                at += chance.randrange(1000)
            while at < END_MS:
                if partition % 3 == 0:
                    value = float(at // SLICE_MS % 2)
                else:
                    value = 0.0 if chance.random() < 0.01 else value + chance.randrange(50)
                samples.append((at, value))
                at += INTERVAL_MS + chance.choice(jitter)
            labels = {"__name__": METRIC, "pod": pod, "topic": "t", "partition": str(partition)}
            made.append((labels, samples))
    return made


@pytest.fixture(scope="module")
def plain() -> Rows:
    """Return the rows of all samples, each by itself."""
    return sorted(
        (labels["pod"], int(labels["partition"]), at, at, 1, value, False)
        for labels, samples in offsets()
        for at, value in samples
    )


@pytest.fixture(scope="module")
def ways(
    spark: Any, prometheus_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ways]:
    program = PrometheusProgram(prometheus_programs, tmp_path_factory.mktemp("prometheus"))
    program.load(openmetrics(offsets()))
    program.start()
    yield Ways(spark, program.url)
    program.stop()


def test_pieces_together_give_each_sample_once(ways: Ways, plain: Rows) -> None:
    from pyspark.sql import functions

    frame = ways.load(**SPLIT)
    assert frame.select(functions.spark_partition_id()).distinct().count() == 2
    assert any(at % SLICE_MS == 0 for _, _, at, *_ in plain)
    assert rows(frame) == plain


def test_the_json_api_gives_the_same_rows(ways: Ways, plain: Rows) -> None:
    assert ways.rows(**SPLIT, transport="json") == plain
    assert ways.rows(gap_ms=GAP_MS, transport="json") == ways.rows(gap_ms=GAP_MS)
    minutes = {"reduction": "minutes"}
    assert ways.rows(*MINUTES, **minutes, transport="json") == ways.rows(*MINUTES, **minutes)


def test_runs_hold_every_sample(ways: Ways, plain: Rows) -> None:
    runs = ways.rows(gap_ms=GAP_MS)
    assert len(runs) < len(plain) * 2 / 3 + 100
    assert sum(row[4] for row in runs) == len(plain)


def test_runs_end_with_their_slice_which_no_analysis_sees(ways: Ways) -> None:
    from strandline_analysis.samples import held

    def facts(frame: Any) -> Rows:
        known = held(frame, interval_ms=INTERVAL_MS, start_ms=START_MS, end_ms=END_MS)
        return rows(known, *COLUMNS[:-1], "hold_end_ms", "start_reason", "end_reason")

    whole, cut = ways.load(gap_ms=GAP_MS), ways.load(gap_ms=GAP_MS, **SPLIT)
    assert len(rows(cut)) > len(rows(whole))
    assert facts(cut) == facts(whole) == facts(ways.load())


def test_minutes_hold_every_sample_however_they_are_split(ways: Ways, plain: Rows) -> None:
    reduced = ways.rows(*MINUTES, reduction="minutes")
    assert ways.rows(*MINUTES, reduction="minutes", **SPLIT) == reduced
    # The range begins within a minute.
    assert START_MS % 60_000
    assert (len(reduced), sum(row[3] for row in reduced)) == (24 * 21, len(plain))


def test_some_columns_are_those_of_all(ways: Ways, plain: Rows) -> None:
    some = ways.given().schema("value double, first_ms long").load()
    assert rows(some, "first_ms", "value") == sorted((row[2], row[5]) for row in plain)


def test_filters_change_what_is_asked_for_and_no_row(ways: Ways, plain: Rows) -> None:
    middle = START_MS + 600_000
    filtered = ways.load().where(f"""pod = 'default-1' and partition in (3, 11, 99)
        and first_ms >= {middle} and last_ms < {middle + 60_000} and metric = '{METRIC}'""")
    assert rows(filtered) == [
        row
        for row in plain
        if row[0] == "default-1" and row[1] in {3, 11} and middle <= row[2] < middle + 60_000
    ]
    assert rows(ways.load().where("metric = 'other' or partition = 1")) == [
        row for row in plain if row[1] == 1
    ]
    assert rows(ways.load().where("metric = 'other'")) == []


def test_a_wrong_option_or_column_is_named_in_a_session_too(ways: Ways) -> None:
    with pytest.raises(Exception, match="option shards is '11'; it accepts a whole number from 1"):
        ways.load(shards=11)
    with pytest.raises(Exception, match="option schema is 'x string'; it accepts some of series"):
        ways.given().schema("x string").load().collect()


def test_filters_narrow_what_is_asked_for(spark: Any) -> None:
    from pyspark.sql.datasource import (
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        LessThan,
        LessThanOrEqual,
        Not,
    )

    from strandline_analysis import schema
    from strandline_analysis.read import PushingReader
    from strandline_analysis.read_options import read_options

    def asked(*filters: Any, **options: str) -> list[Piece]:
        given = {"url": "http://p", "metrics": "a,b", "start_ms": "100", "end_ms": "200"}
        reader = PushingReader(read_options({**given, **options}), schema.SAMPLES)
        # Spark applies them too.
        assert reader.pushFilters(list(filters)) == list(filters)
        return [piece for task in reader.partitions() for piece in task.value]

    at = ("first_ms",)
    times = (GreaterThanOrEqual(at, 110), LessThan(("last_ms",), 190))
    (first, second) = asked(*times, EqualTo(("pod",), "p.0"))
    assert first == Piece(
        metric="a", start_ms=110, end_ms=190, matchers=(Matcher(label="pod", value="p.0"),)
    )
    assert second.metric == "b"
    (only,) = asked(In(("metric",), ("b", "c")), In(("topic",), ("x.y", None, "z")))
    patterned = Matcher(label="topic", value=r"x\.y|z", is_pattern=True)
    assert (only.metric, only.matchers) == ("b", (patterned,))
    assert asked(EqualTo(("partition",), 7))[0].matchers == (Matcher(label="partition", value="7"),)
    assert [
        (p.start_ms, p.end_ms) for p in asked(GreaterThan(at, 150), LessThanOrEqual(at, 150))
    ] == []
    assert asked(EqualTo(at, 150))[0].end_ms == 151
    # Runs would be cut, and an empty text is no label.
    whole = asked()
    assert asked(*times, gap_ms="5") == asked(*times, reduction="minutes") == whole
    kept = (EqualTo(("topic",), ""), In(("pod",), ()), IsNotNull(("pod",)), Not(EqualTo(at, 150)))
    assert asked(*kept, EqualTo(("value",), 1.0), EqualTo(("labels", "pod"), "x")) == whole
