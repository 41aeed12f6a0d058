"""Samples of histories: scrapes show the state, and the lake and Prometheus give them back."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.histories import __main__ as command
from bench.histories import signals
from bench.histories.brokers import ClusterHistory, Scrape, happened
from bench.histories.partition import walked
from bench.histories.plan import FaultKind, Plan, planned
from bench.histories.replicas import PartitionHistory
from strandline import names
from strandline_analysis.lake_slices import opened
from strandline_analysis.xor_chunk import STALE_BITS, number
from tests.analysis.timeline import bits_of
from tests.support.prometheus_program import PrometheusProgram

pytestmark = pytest.mark.processes

INTERVAL_MS = 5_000
SLICE_MS = 600_000
LENGTH_MS = 1_800_000
PLANS = tuple(
    planned(Plan(cluster=cluster, seed=5, length_ms=LENGTH_MS, topics=2, partitions=2))
    for cluster in ("blue", "green")
)
MEGABYTE = 1 << 20
PEAK_MAX = 300 * MEGABYTE
"""Of 500 topics: buffers of some 200,000 samples for each metric, whatever the number of topics."""

Key = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def folder(packages: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what was written of two clusters in one Prometheus."""
    from bench.histories.written import write

    made = tmp_path_factory.mktemp("histories")
    assert write(PLANS, made, interval_ms=INTERVAL_MS, slice_ms=SLICE_MS, text=True) > 50_000
    return made


def series_of(plan: Plan) -> dict[Key, list[tuple[int, int]]]:
    """Return the samples of a cluster as (time, bits), by labels."""
    from bench.histories.written import sampled

    found = {}
    for series in sampled(happened(plan), interval_ms=INTERVAL_MS):
        pairs = zip(series.timestamps.tolist(), series.bits.tolist(), strict=True)
        found[tuple(sorted(series.labels.items()))] = list(pairs)
    return found


def lake_rows(folder: Path) -> dict[Key, list[tuple[int, int]]]:
    """Return the samples of the lake as (time, bits), by labels."""
    import pyarrow.dataset

    lake = opened(folder / "lake")
    found = defaultdict(list)
    rows = pyarrow.dataset.dataset(lake.samples, partitioning="hive").to_table().to_pylist()
    for row in rows:
        assert row["first_ms"] == row["last_ms"]
        assert row["sample_count"] == 1
        assert row["first_ms"] - row["first_ms"] % lake.slice_ms == int(row["slice_ms"])
        labels = dict(row["labels"])
        assert labels["__name__"] == row["metric"]
        assert labels["pod"] == row["pod"]
        bits = STALE_BITS if row["stale"] else bits_of(row["value"])
        found[tuple(sorted(labels.items()))].append((row["first_ms"], bits))
    return {labels: sorted(samples) for labels, samples in found.items()}


ANYTHING = object()
"""What a series may show whose value is not looked up."""


def wrong_samples(
    cluster: ClusterHistory, series: dict[Key, list[tuple[int, int]]]
) -> list[tuple[str, int]]:
    """Return the metric and time of samples that differ from the history at their moment.

    It looks at stored states and processes, not at the lines from which samples are made.
    """
    wrong = []
    histories = {subject: walked(cluster, *subject) for subject in cluster.plan.subjects()}
    for key, samples in series.items():
        labels = dict(key)
        history = None
        if "partition" in labels:
            history = histories[labels["topic"], int(labels["partition"])]
        for at_ms, bits in samples:
            shown = None if bits == STALE_BITS else number(bits)
            expected = expected_sample(cluster, history, labels, at_ms)
            if expected is not ANYTHING and shown != expected:
                wrong.append((labels["__name__"], at_ms))
    return wrong


def expected_sample(
    cluster: ClusterHistory, history: PartitionHistory | None, labels: dict[str, str], at_ms: int
) -> object:
    """Return the value of a series at a time, None where it must be stale."""
    broker, name = int(labels["pod"].rpartition("-")[2]), labels["__name__"]
    is_scraped = cluster.scrape(broker, at_ms) == Scrape.SAMPLES
    if name == signals.UP:
        return float(is_scraped)
    if not is_scraped:
        return None
    if name == names.BROKER_START_TIMESTAMP_SECONDS.name:
        spans = cluster.processes[broker]
        return [span.from_ms for span in spans if span.from_ms <= at_ms][-1] / 1000
    if history is None:
        return ANYTHING
    zombies = [z for z in history.zombies if z.from_ms <= at_ms < z.until_ms]
    if any(zombie.broker == broker for zombie in zombies):
        return ANYTHING  # it shows an earlier state
    (own,) = [each for each in history.replicas if each.broker == broker]
    state = history.at(at_ms)
    leads = broker == state.leader
    member = int(labels.get("replica", -1)) in state.isr
    of_leader = {
        names.PARTITION_ISR_SIZE.name: len(state.isr),
        names.PARTITION_ISR_MEMBER.name: member,
        names.PARTITION_PARTITION_EPOCH.name: state.version,
        names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS.name: state.since_ms / 1000,
    }
    of_any = {
        names.PARTITION_IS_LEADER.name: leads,
        names.PARTITION_LOG_END_OFFSET.name: own.end.at(at_ms),
    }
    # A follower that is cut off knows an earlier epoch and high watermark.
    if leads:
        of_any[names.PARTITION_LEADER_EPOCH.name] = state.epoch
        of_any[names.PARTITION_HIGH_WATERMARK.name] = history.committed.at(at_ms)
    if name in of_leader:
        return float(of_leader[name]) if leads else None
    return float(of_any[name]) if name in of_any else ANYTHING


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.cluster)
def test_samples_show_the_state_at_their_moment(packages: str, plan: Plan) -> None:
    cluster, series = happened(plan), series_of(plan)
    assert wrong_samples(cluster, series) == []


def test_a_wrong_sample_is_found(packages: str) -> None:
    cluster, series = happened(PLANS[0]), series_of(PLANS[0])
    one = bytes.fromhex("3ff0000000000000")
    for name in (names.PARTITION_ISR_MEMBER, names.PARTITION_IS_LEADER, signals.UP):
        wanted = name if isinstance(name, str) else name.name
        key = next(each for each in series if dict(each)["__name__"] == wanted)
        true = series[key]
        place = next(i for i, (_, bits) in enumerate(true) if bits != STALE_BITS)
        at_ms, bits = true[place]
        flipped = 0 if bits else int.from_bytes(one, "big")
        series[key] = [*true[:place], (at_ms, flipped), *true[place + 1 :]]
        assert wrong_samples(cluster, series) == [(wanted, at_ms)]
        series[key] = true


def test_scrapes_are_regular_but_for_jitter_and_gaps(packages: str) -> None:
    from bench.histories.scrapes import JITTER_MS

    cluster, series = happened(PLANS[0]), series_of(PLANS[0])
    whole = [f for f in PLANS[0].faults if f.kind == FaultKind.SCRAPE_GAP and f.broker is None]
    for key, samples in series.items():
        if dict(key)["__name__"] != signals.UP:
            continue
        times = [at for at, _ in samples]
        for before, after in itertools.pairwise(times):
            in_gap = any(before <= f.until_ms and f.from_ms <= after for f in cluster.unscraped)
            assert in_gap or abs(after - before - INTERVAL_MS) <= 2 * JITTER_MS
    assert len(whole) == len(cluster.unscraped)


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    from bench.histories.written import write

    write(PLANS, tmp_path, interval_ms=INTERVAL_MS, slice_ms=SLICE_MS, text=True)

    def bytes_of(root: Path) -> dict[Path, bytes]:
        files = [path for path in root.rglob("*") if path.is_file()]
        return {path.relative_to(root): path.read_bytes() for path in files}

    assert bytes_of(tmp_path) == bytes_of(folder)
    other = tmp_path / "other"
    changed = [replace(plan, seed=6, faults=()) for plan in PLANS]
    write(changed, other, interval_ms=INTERVAL_MS, slice_ms=SLICE_MS, text=True)
    assert (other / "samples.txt").read_bytes() != (folder / "samples.txt").read_bytes()


def test_the_lake_has_every_sample_of_both_clusters(folder: Path) -> None:
    expected = series_of(PLANS[0]) | series_of(PLANS[1])
    assert lake_rows(folder) == {key: samples for key, samples in expected.items() if samples}
    lake = opened(folder / "lake")
    lake.check_landed(metrics=signals.METRICS, start_ms=PLANS[0].start_ms, end_ms=PLANS[0].end_ms)


def test_the_source_of_the_lake_reads_it(spark: Any, folder: Path) -> None:
    from strandline_analysis.lake import read_lake

    ranged = {"start_ms": PLANS[0].start_ms, "end_ms": PLANS[0].end_ms}
    frame = read_lake(spark, opened(folder / "lake"), metrics=signals.METRICS, **ranged)
    expected = series_of(PLANS[0]) | series_of(PLANS[1])
    assert frame.count() == sum(map(len, expected.values()))
    assert frame.select("series_id").distinct().count() == sum(map(bool, expected.values()))


def test_a_real_prometheus_gives_the_samples_back(
    folder: Path, prometheus: PrometheusProgram
) -> None:
    from strandline_analysis.prometheus_http import Server
    from strandline_analysis.read_options import Piece
    from strandline_analysis.remote_read import read_series

    prometheus.load((folder / "samples.txt").read_text())
    prometheus.start()
    expected = series_of(PLANS[0]) | series_of(PLANS[1])
    found = {}
    for metric in signals.METRICS:
        piece = Piece(metric=metric, start_ms=PLANS[0].start_ms, end_ms=PLANS[0].end_ms)
        for series in read_series(Server(url=prometheus.url), piece):
            pairs = series.samples(start_ms=piece.start_ms, end_ms=piece.end_ms)
            found[tuple(sorted(series.labels.items()))] = list(pairs)
    # The text cannot hold stale markers.
    told = {
        key: [each for each in samples if each[1] != STALE_BITS]
        for key, samples in expected.items()
    }
    assert found == {key: samples for key, samples in told.items() if samples}


def test_the_true_tables_are_in_the_schemas_of_the_analysis(folder: Path) -> None:
    import pyarrow.parquet

    from bench.histories.written import shapes

    for plan in PLANS:
        for name, shape in shapes().items():
            table = pyarrow.parquet.read_table(folder / "truth" / plan.cluster / f"{name}.parquet")
            assert table.schema.equals(shape)
            assert table.num_rows > 0 or name == "umi_episodes", name


@pytest.mark.long
def test_500_topics_take_no_more_memory_than_their_buffers(packages: str, tmp_path: Path) -> None:
    from bench.histories.written import write

    plan = planned(Plan(seed=1, length_ms=600_000, topics=500, partitions=1))
    tracemalloc.start()
    try:
        count = write([plan], tmp_path, interval_ms=INTERVAL_MS, slice_ms=SLICE_MS, text=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count > 1_000_000
    assert peak < PEAK_MAX


def test_the_command_writes_what_it_is_asked_for(
    packages: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--minutes", "5", "--clusters", "red", "--faults", "kill", "--topics", "1"]
    assert command.main([str(tmp_path / "made"), *given]) == 0
    assert "samples, 5 faults" in capsys.readouterr().out
    assert (tmp_path / "made" / "truth" / "red" / "elections.parquet").exists()
    with pytest.raises(SystemExit, match="2"):
        command.main([str(tmp_path / "none"), "--topics", "501"])
    assert "topics is 501; it accepts 1 to 500" in capsys.readouterr().err
