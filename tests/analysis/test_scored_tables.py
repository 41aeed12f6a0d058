"""The tables of the analysis against the truth of a whole history, by their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.analysis_scores import scorers
from bench.histories import scores
from bench.histories.plan import Plan, planned
from strandline_analysis.lake_slices import opened
from strandline_analysis.stopwatch import Stopwatch

pytestmark = pytest.mark.processes

INTERVAL_MS = 1_000
"""Shorter than what most faults do, so that little falls between two scrapes."""
SLICE_MS = 3_600_000
PLAN = planned(Plan(seed=7, length_ms=1_200_000, topics=2, partitions=2))

FETCHED_AGAIN = 3
"""Followers of this plan that fetched again, late, right before the check that would have removed
them: histories let them stay, where brokers and the replay do not."""

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(packages: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from bench.histories.written import write

    made = tmp_path_factory.mktemp("history")
    write([PLAN], made, interval_ms=INTERVAL_MS, slice_ms=SLICE_MS, text=False)
    return made


@pytest.fixture(scope="module")
def out(spark: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tables that the job makes of the lake."""
    from strandline_analysis.job import analyse
    from strandline_analysis.outcome import OK
    from strandline_analysis.task import Task

    made = tmp_path_factory.mktemp("tables")
    lake = opened(folder / "lake")
    task = Task(
        start_ms=PLAN.start_ms,
        end_ms=PLAN.end_ms,
        out=made,
        lake=lake,
        lag_time_max_ms=PLAN.lag_time_max_ms,
    )
    assert analyse(spark, task, Stopwatch()) == OK
    return made


def rows(folder: Path, table: str) -> Rows:
    import pyarrow.parquet

    found: Rows = pyarrow.parquet.read_table(folder / f"{table}.parquet").to_pylist()
    return found


def truth(folder: Path, table: str) -> Rows:
    return rows(folder / "truth" / PLAN.cluster, table)


def of_elections(table: Rows, true: Rows) -> scores.Score:
    return scores.events(
        table,
        true,
        key=("topic", "partition", "epoch"),
        at="t_first_new_ms",
        interval_ms=INTERVAL_MS,
        same=("old_leader", "new_leader"),
        bounds=("no_leader_low_ms", "no_leader_high_ms"),
    )


def test_isr_intervals_agree_with_the_truth(folder: Path, out: Path) -> None:
    score = scores.states(
        rows(out, "isr_intervals"),
        truth(folder, "isr_intervals"),
        key=("topic", "partition", "replica"),
        value="in_isr",
        interval_ms=INTERVAL_MS,
    )
    print("isr_intervals:", score)
    assert score.expected > 100
    assert (score.precision, score.recall, score.late_edges, score.wrong_ms) == (1, 1, 0, 0)
    assert score.missed_edges == score.missed_between_scrapes
    assert score.worst_duration_error_ms <= 2 * INTERVAL_MS
    assert score.coverage > 0.9


def test_elections_agree_with_the_truth(folder: Path, out: Path) -> None:
    table, true = rows(out, "elections"), truth(folder, "elections")
    score = of_elections(table, true)
    print("elections:", score)
    assert score.expected > 30
    assert (score.precision, score.recall, score.late_edges) == (1, 1, 0)


def test_times_without_a_leader_lie_within_their_bounds(folder: Path, out: Path) -> None:
    score = of_elections(rows(out, "elections"), truth(folder, "elections"))
    print("elections:", score)
    assert score.expected > 30
    assert score.matched == score.expected
    assert score.worst_duration_error_ms == 0


@pytest.mark.parametrize("name", ["failover_quantiles", "slo"])
def test_figures_of_the_whole_range_are_the_true_ones(folder: Path, out: Path, name: str) -> None:
    score = scorers(INTERVAL_MS)[name](rows(out, name), truth(folder, name))
    print(f"{name}:", score)
    assert score.expected > 1
    assert (score.precision, score.recall) == (1, 1)


def test_the_root_cause_is_first_in_the_incidents(folder: Path, out: Path) -> None:
    score = scores.root_causes(
        rows(out, "incidents"), truth(folder, "faults"), settle_ms=PLAN.settle_ms
    )
    print("root causes:", score)
    assert score.expected > 10
    assert min(score.recall, score.precision) >= 0.95


def test_the_replay_of_the_setting_in_force_counts_what_leaders_did(
    folder: Path, out: Path
) -> None:
    replayed = {row["setting_ms"]: row for row in rows(out, "lagtime_whatif")}
    now = replayed[PLAN.lag_time_max_ms]
    # A true interval outside that a change began, not another leader, is a shrink by the rule.
    left = [
        row
        for row in truth(folder, "isr_intervals")
        if row["in_isr"] is False and row["start_reason"] == "change"
    ]
    print("shrinks:", now["shrinks_low"], len(left), now["shrinks_high"])
    assert now["shrinks_low"] - FETCHED_AGAIN <= len(left) <= now["shrinks_high"]
    assert len(left) > 10
    counts = [replayed[setting]["shrinks_high"] for setting in sorted(replayed)]
    assert counts == sorted(counts, reverse=True)
