"""The pure functions of the comparison with Kafka: rows, goals, and what a fault's gap is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.compare import __main__ as compare
from bench.compare import bulk
from bench.compare import used as compare_used
from bench.compare.figures import FIGURES, OURS, THEIRS, Figure, row_of
from bench.compare.strandline_cluster import malloc_settings
from bench.compare.trials import ALONE, BESIDE, ENDING
from bench.compare.used import Spent, Usage, reclaimed_pages, used_of
from bench.compare.warming import is_warm
from tests.support.commands import REPOSITORY

SPEED = Figure(trial="t", name="n", title="speed", unit="MB/s", more_is_better=True, goal=1.5)
COST = Figure(trial="t", name="n", title="cost", unit="s/GB", goal=0.7)
LIMIT_SECONDS = 60
GAP = Figure(trial="t", name="n", title="gap", unit="s", aim=0.3)


def test_the_ratio_is_the_median_of_those_within_a_round() -> None:
    row = row_of(SPEED, {OURS: (10, 40, 60), THEIRS: (10, 20, 20)})
    assert row is not None
    assert (row.ours, row.theirs) == (40, 20)
    assert (row.ratio, row.ratios, row.rounds) == (2, (1, 3), 3)


@pytest.mark.parametrize(
    ("figure", "ours", "met"),
    [
        (SPEED, 15, True),
        (SPEED, 14.9, False),
        (COST, 7, True),
        (COST, 7.1, False),
        (GAP, 0.3, True),
        (GAP, 0.31, False),
    ],
)
def test_a_goal_is_a_bound_in_the_better_direction(figure: Figure, ours: float, met: bool) -> None:
    row = row_of(figure, {OURS: (ours,), THEIRS: (10,)})
    assert row is not None
    assert row.met is met


def test_what_kafka_lacks_has_no_ratio_and_is_judged_by_an_aim_alone() -> None:
    alone = row_of(COST, {OURS: (5,)})
    aimed = row_of(GAP, {OURS: (0.1,)})
    assert alone is not None
    assert aimed is not None
    assert (alone.ratio, alone.met, aimed.met) == (None, None, True)
    assert row_of(GAP, {THEIRS: (1,)}) is None


def test_every_figure_comes_from_a_trial_and_every_trial_has_a_figure() -> None:
    assert {figure.trial for figure in FIGURES} == {*ALONE, *BESIDE, *ENDING}
    assert len({(figure.trial, figure.name) for figure in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize(
    ("speeds", "warm"),
    [
        ((), False),
        ((100,) * 7, False),
        ((100,) * 7 + (104,), True),
        ((81, 98, 124, 141, 134, 126, 130), False),
        ((100,) * 5 + (130, 120, 125), False),
        ((100,) * 5 + (130, 120, 125, 136), True),
        ((100,) * 5 + (130, 120, 137, 125), False),
    ],
)
def test_a_cluster_is_warm_when_it_becomes_no_faster(speeds: tuple[float, ...], warm: bool) -> None:
    assert is_warm(speeds) is warm


def test_cpu_is_that_of_brokers_of_the_bench_or_foreign() -> None:
    before = {1: Spent(cpu=10.0, system=4.0, faults=7), 2: Spent(cpu=5.0), 3: Spent(cpu=1.0)}
    now = {
        1: Spent(cpu=12.0, system=5.0, faults=9),
        2: Spent(cpu=5.5, system=1.0, faults=99),
        3: Spent(cpu=4.0),
        4: Spent(cpu=0.25, system=0.25, faults=3),
    }
    used = used_of(before, now, seconds=2, brokers=[1, 4, 5], known=[2])
    assert (used.seconds, used.brokers, used.foreign) == (2, 2.25, 3.0)
    assert (used.system, used.faults) == (1.25, 5)


def test_reclaimed_pages_are_counted_by_who_reclaimed_them() -> None:
    by_whom = "pgsteal_kswapd 9000\npgsteal_direct 480\npgsteal_khugepaged 20\n"
    of_what = "pgsteal_anon 500\npgsteal_file 9000\nnr_free_pages 7\n"
    assert reclaimed_pages(by_whom + of_what) == 9_500
    assert reclaimed_pages("nr_free_pages 7\n") is None


def test_what_was_reclaimed_is_the_difference_between_two_looks_and_nothing_without_counters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counters = tmp_path / "counters"
    monkeypatch.setattr(compare_used, "COUNTERS", counters)
    without = Usage()
    counters.write_text("pgsteal_kswapd 100\npgsteal_direct 5\n")
    assert without.since(brokers=[], known=[]).reclaimed is None
    usage = Usage()
    counters.write_text("pgsteal_kswapd 107\npgsteal_direct 8\n")
    assert usage.since(brokers=[], known=[]).reclaimed == 10 * os.sysconf("SC_PAGE_SIZE")


def test_the_cpu_of_a_process_is_seen() -> None:
    usage = Usage()
    spin = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        as_broker = usage.since(brokers=[other.pid], known=[])
        as_foreign = usage.since(brokers=[], known=[])
        other.communicate(b"\n")
    assert as_broker.brokers >= 0.29
    assert as_broker.faults > 0
    assert as_foreign.foreign >= 0.29


def test_the_words_of_a_bulk_trial_are_those_that_its_client_lists() -> None:
    given: dict[str, str | int] = {
        "mib": 9,
        "partitions": 6,
        "bootstrap": "h:1",
        "topic": "t",
        "value_bytes": 100,
    }
    line = bulk.SOURCE.read_text().split("bulk produce ")[1].splitlines()[0]
    order = [str(given[name.lower()]) for name in line.split()]
    assert bulk.words_of(Path("b"), "produce", given) == ["b", "produce", *order]
    del given["value_bytes"]
    assert bulk.words_of(Path("b"), "consume", given) == ["b", "consume", *order[:-1]]


def test_brokers_of_the_bench_allocate_memory_as_in_their_image() -> None:
    assert {*malloc_settings()} == {
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
        "MALLOC_TOP_PAD_",
    }


def test_a_machine_without_java_is_told_so_before_anything_starts(tmp_path: Path) -> None:
    for program in ("awk", "bash", "date", "dirname"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / program).symlink_to(found)
    done = subprocess.run(
        [sys.executable, "-m", "bench.compare", "--folder", str(tmp_path)],
        check=False,
        env={**os.environ, "PATH": str(tmp_path)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 1
    assert "error: java is missing: install a Java of version 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr
    assert "warming" not in done.stdout


def test_a_run_that_is_interrupted_prints_the_table_of_what_it_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(_folder: Path, _given: object, found: compare.Found, _void: list[str]) -> None:
        found["idle-12"] = {OURS: [{"cpu": 3.0, "rss": 150.0}], THEIRS: []}
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "_measure", measure)
    monkeypatch.setenv("STRANDLINE_CACHE", str(tmp_path))
    assert compare.main(["--folder", str(tmp_path)]) == compare.INTERRUPTED
    printed = capsys.readouterr()
    assert "idle, 12 partitions" in printed.out
    assert "ended: the table has what was measured until now" in printed.err
