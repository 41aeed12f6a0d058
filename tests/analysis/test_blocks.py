"""Prometheus's own tools and this reader agree about blocks, whichever of them wrote these."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline_analysis.read_options import Piece
from strandline_analysis.tsdb_block import FACTS
from strandline_analysis.tsdb_files import BlockRefused
from strandline_analysis.tsdb_snapshot import OpenSnapshot, snapshot_in
from tests.analysis.openmetrics import Labelled, openmetrics
from tests.analysis.test_prometheus import METRIC, walks
from tests.analysis.timeline import bits_of
from tests.analysis.tsdb_writer import WrittenSeries, write_block
from tests.support.commands import run
from tests.support.prometheus_program import PrometheusProgram

pytestmark = pytest.mark.processes

END_MS = 1 << 50
DUMPED = re.compile(r'\{__name__="(\w+)", pod="(\w+)"\} (\S+) (\d+)')

Found = dict[str, list[tuple[int, int]]]


def read(folder: Path, *, metric: str, label: str) -> Found:
    """Return (ms, bits) of the series of a metric, by one of its labels."""
    with OpenSnapshot(snapshot_in(folder)) as snapshot:
        found = list(snapshot.series(Piece(metric=metric, start_ms=0, end_ms=END_MS)))
    return {each.labels[label]: list(each.samples(start_ms=0, end_ms=END_MS)) for each in found}


@pytest.fixture(scope="module")
def made() -> list[Labelled]:
    return [({"__name__": METRIC, "kind": kind}, samples) for kind, samples in walks().items()]


@pytest.fixture(scope="module")
def blocks(
    prometheus_programs: Path, made: list[Labelled], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a folder with blocks that promtool made."""
    folder = tmp_path_factory.mktemp("promtool")
    PrometheusProgram(prometheus_programs, folder).load(openmetrics(made))
    return folder / "data"


def test_what_promtool_wrote_is_read_bit_for_bit(blocks: Path, made: list[Labelled]) -> None:
    assert len(snapshot_in(blocks).blocks) > 2
    expected = {
        labels["kind"]: [(at, bits_of(value)) for at, value in pairs] for labels, pairs in made
    }
    assert read(blocks, metric=METRIC, label="kind") == expected


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 1 << 32), mask=st.integers(1, 255))
def test_a_byte_that_differs_is_told_or_changes_nothing(blocks: Path, seed: int, mask: int) -> None:
    """Bytes of padding, and lists of other labels, change nothing."""
    whole = read(blocks, metric=METRIC, label="kind")
    chance = random.Random(seed)
    files = [each for each in blocks.glob("*/**/*") if each.is_file() and each.name != FACTS]
    path = chance.choice(sorted(files))
    before = path.read_bytes()
    at = chance.randrange(len(before))
    try:
        path.write_bytes(before[:at] + bytes([before[at] ^ mask]) + before[at + 1 :])
        found = outcome(blocks)
    finally:
        path.write_bytes(before)
    assert found == whole or str(found).startswith(f"{path} ")


def outcome(folder: Path) -> Found | str:
    try:
        return read(folder, metric=METRIC, label="kind")
    except BlockRefused as refusal:
        return str(refusal)


def test_promtool_reads_what_the_writer_of_tests_writes(
    prometheus_programs: Path, tmp_path: Path
) -> None:
    """So what the reader gives of written blocks is what Prometheus gives of them."""
    chance = random.Random(3)
    start_ms = 1_790_000_000_000
    for _ in range(3):
        series = []
        for metric, pod in (("m", "a"), ("m", "b"), ("n", "b")):
            chunks = []
            for _ in range(chance.randint(1, 5)):
                begin = start_ms + chance.randrange(500_000)
                chunks.append([(begin + step, bits_of(1.5)) for step in range(0, 90_000, 1000)])
            span = (begin + 5000, begin + 7000)
            each = {"__name__": metric, "pod": pod}
            series.append(WrittenSeries(labels=each, chunks=chunks, deleted=[span]))
        write_block(tmp_path, series, segment_chunks=3)
    (tmp_path / "wal").mkdir()
    printed = run([str(prometheus_programs / "promtool"), "tsdb", "dump", str(tmp_path)])
    dumped = defaultdict[tuple[str, str], set[tuple[int, int]]](set)
    for metric, pod, value, at in DUMPED.findall(printed):
        dumped[metric, pod].add((int(at), bits_of(float(value))))
    for metric in ("m", "n"):
        found = read(tmp_path, metric=metric, label="pod")
        # The dump gives what overlaps twice.
        shown = {pod: sorted(each) for (name, pod), each in dumped.items() if name == metric}
        assert found == shown
