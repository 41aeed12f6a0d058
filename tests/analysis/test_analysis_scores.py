"""The scores of the analysis as people see them, and that they are those of the tables."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest

from bench import analysis_scores
from bench.analysis_scores import COLUMNS, ROOT_CAUSES, SCORED, of_table, show, shown, style
from bench.histories import summed, truth
from bench.histories.plan import FaultKind, Plan, planned
from bench.histories.scores import Score
from strandline_analysis import catalogue
from strandline_cli.__main__ import main

INTERVAL_MS = 1_000
PLAN = planned(Plan(seed=7, length_ms=150_000, topics=1, partitions=1), [FaultKind.KILL])


def score(**changes: int) -> Score:
    return Score(**{"found": 4, "expected": 4, "matched": 4, **changes})


def test_every_table_with_a_truth_is_scored() -> None:
    assert set(SCORED) == {*truth.TABLES, *summed.TABLES, ROOT_CAUSES}
    # Of each other table it is said why nothing is true without scrapes.
    assert {*truth.TABLES, *summed.TABLES, *truth.WITHOUT} == set(catalogue.TABLES)
    assert not {*truth.TABLES, *summed.TABLES} & set(truth.WITHOUT)


def test_columns_of_the_scorers_are_those_of_the_tables() -> None:
    for name, scorer in analysis_scores.scorers(INTERVAL_MS).items():
        given = cast(partial[Score], scorer).keywords
        named = [*given["key"], *given.get("same", ()), *given.get("bounds", ())]
        named += [given[each] for each in ("value", "at") if each in given]
        named += [
            *given.get("shares", ()),
            *given.get("counted", ()),
            *chain(*given.get("pairs", ())),
        ]
        assert set(named) <= set(catalogue.TABLES[name].names)


def test_a_pipe_gets_aligned_lines_and_the_root_causes_in_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    causes = score(found=5, expected=4, matched=3)
    show({"elections": score(matched=2, worst_duration_error_ms=700), ROOT_CAUSES: causes})
    header, elections, roots, words = capsys.readouterr().out.splitlines()
    assert header.split() == " ".join(COLUMNS).split()
    told = [*("elections", "4", "4", "0.500", "0.500"), *("700", "ms", "0", "0", "0")]
    assert elections.split() == told
    assert roots.split()[:6] == ["root", "causes", "4", "5", "0.600", "0.750"]
    assert words == (
        "The broker that a fault hit was named first for 3 of 4 faults; 1 incident without a fault."
    )


def test_states_tell_how_much_is_known() -> None:
    assert shown("isr_intervals", score(known_ms=1, total_ms=4))[-1] == "25.0%"


@pytest.mark.parametrize(("matched", "colour"), [(100, "green"), (95, "yellow"), (94, "red")])
def test_a_row_is_as_red_as_the_worse_of_its_scores(matched: int, colour: str) -> None:
    assert style(Score(found=100, expected=100, matched=matched)) == colour


def test_a_table_that_is_not_scored_is_refused_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["analysis-score", "--tables", "hw_lag"])
    assert "hw_lag: the tables that are scored are isr_intervals, " in capsys.readouterr().err


@pytest.mark.processes
def test_scores_are_those_of_what_the_analysis_makes(
    spark: Any, planned_small: None, tmp_path: Path
) -> None:
    import pyarrow.parquet

    analysis_scores.write_history(PLAN, tmp_path, interval_ms=INTERVAL_MS)
    told: list[str] = []
    what: dict[str, Any] = {"interval_ms": INTERVAL_MS, "chosen": ("restarts",)}
    ((name, found),) = analysis_scores.scored(spark, PLAN, tmp_path, **what, tell=told.append)
    assert (name, told) == ("restarts", ["table restarts"])
    assert (found.expected, found.precision, found.recall) == (len(PLAN.faults), 1, 1)
    path = tmp_path / "truth" / PLAN.cluster / "restarts.parquet"
    true = pyarrow.parquet.read_table(path).to_pylist()
    less = of_table("restarts", true[1:], true, plan=PLAN, interval_ms=INTERVAL_MS)
    assert less.matched == len(true) - 1
