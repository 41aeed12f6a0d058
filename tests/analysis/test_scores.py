"""Scores of tables: what agrees with the truth counts, and each kind of error is told apart."""

from __future__ import annotations

from typing import Any

import pytest

from bench.histories import scores

Row = dict[str, Any]
INTERVAL_MS = 1_000
KEY = ("replica",)


def state(start: int, end: int, value: bool | None, **given: Any) -> Row:
    """Return a row of a table of states."""
    shown = {"replica": 1, "in_isr": value, "start_ms": start, "end_ms": end}
    errors = {"start_err_ms": 0, "end_err_ms": 0, "start_reason": "change"}
    return {**shown, **errors, **given}


TRUTH = [state(0, 10_000, True), state(10_000, 20_000, False), state(20_000, 60_000, True)]


def scored(table: list[Row], truth: list[Row] = TRUTH) -> scores.Score:
    return scores.states(table, truth, key=KEY, value="in_isr", interval_ms=INTERVAL_MS)


def test_the_truth_has_the_best_score() -> None:
    score = scored(TRUTH)
    assert (score.precision, score.recall, score.coverage) == (1, 1, 1)
    assert (score.worst_duration_error_ms, score.missed_edges, score.wrong_ms) == (0, 0, 0)
    assert "precision 1.000, recall 1.000 of 3" in str(score)


def test_an_edge_within_a_scrape_counts_and_its_error_is_told() -> None:
    table = [
        state(0, 10_900, True, end_err_ms=INTERVAL_MS),
        state(10_900, 20_000, False, start_err_ms=INTERVAL_MS),
        TRUTH[2],
    ]
    score = scored(table)
    assert (score.precision, score.recall, score.late_edges, score.wrong_ms) == (1, 1, 0, 0)
    assert score.worst_duration_error_ms == 900
    table[1]["start_err_ms"] = 800
    assert scored(table).late_edges == 1


def test_a_missed_episode_costs_recall_and_is_wrong_time() -> None:
    score = scored([state(0, 60_000, True)])
    assert (score.precision, score.recall) == (0, 0)
    assert (score.missed_edges, score.missed_between_scrapes, score.wrong_ms) == (2, 0, 10_000)


def test_what_happened_between_two_scrapes_is_told_apart() -> None:
    truth = [state(0, 10_000, True), state(10_000, 10_400, False), state(10_400, 60_000, True)]
    score = scored([state(0, 60_000, True)], truth)
    assert (score.missed_edges, score.missed_between_scrapes) == (2, 2)


def test_unknown_time_is_no_error_and_lowers_what_is_known() -> None:
    table = [state(0, 5_000, True), state(5_000, 30_000, None), state(30_000, 60_000, True)]
    score = scored(table)
    assert (score.precision, score.recall, score.missed_edges, score.wrong_ms) == (1, 1, 0, 0)
    assert score.coverage == pytest.approx(35 / 60)
    # The end of unknown time is no change.
    assert score.late_edges == 0


def test_a_state_that_never_was_costs_precision() -> None:
    table = [state(0, 30_000, True), state(30_000, 40_000, False), state(40_000, 60_000, True)]
    score = scored(table, [state(0, 60_000, True)])
    assert (score.precision, score.found, score.wrong_ms) == (0, 3, 10_000)


def test_a_replica_that_the_table_has_not_is_not_known() -> None:
    score = scored([])
    assert (score.found, score.expected, score.coverage) == (0, 0, 0)
    assert scored(TRUTH, []).precision == 0


def test_episodes_match_by_what_they_have_in_common() -> None:
    truth = [{"replica": 1, "start_ms": 10_000, "end_ms": 40_000}]
    near = [{"replica": 1, "start_ms": 12_000, "end_ms": 38_000}]
    far = [{"replica": 1, "start_ms": 25_000, "end_ms": 41_000}]
    for table, matched in ((near, 1), (far, 0), (near * 2, 1)):
        score = scores.episodes(table, truth, key=KEY, interval_ms=INTERVAL_MS)
        assert (score.matched, score.found) == (matched, len(table))
    assert scores.episodes(near, truth, key=KEY, interval_ms=1).worst_duration_error_ms == 4_000
    assert scores.episodes([], truth, key=KEY, interval_ms=1).missed_edges == 2


def test_what_no_scrape_could_show_is_not_expected_but_counted() -> None:
    truth = [
        {"replica": 1, "start_ms": at, "end_ms": at + 5_000, "at_ms": at}
        for at in (10_000, 20_000, 30_000)
    ]

    def can_show(row: Row) -> bool:
        return bool(row["start_ms"] == 30_000)

    asked: dict[str, Any] = {"interval_ms": INTERVAL_MS, "can_show": can_show}
    for score in (
        scores.episodes(truth[:1], truth, key=KEY, **asked),
        scores.events(truth[:1], truth, key=("at_ms",), at="at_ms", **asked),
    ):
        # The first was found all the same; the third could have been.
        assert (score.matched, score.expected, score.unseen) == (1, 2, 1)
        assert score.precision == 1
    assert scores.episodes(truth, truth, key=KEY, interval_ms=INTERVAL_MS).unseen == 0


ELECTION = {
    "epoch": 2,
    "t_first_new_ms": 10_000,
    "t_first_new_err_ms": 0,
    "new_leader": 1,
    "no_leader_low_ms": 500,
    "no_leader_high_ms": 500,
}


def of_events(table: list[Row]) -> scores.Score:
    return scores.events(
        table,
        [ELECTION, {**ELECTION, "epoch": 3, "t_first_new_ms": 20_000}],
        key=("epoch",),
        at="t_first_new_ms",
        interval_ms=INTERVAL_MS,
        same=("new_leader",),
        bounds=("no_leader_low_ms", "no_leader_high_ms"),
    )


def test_events_match_by_key_time_and_what_they_say() -> None:
    score = of_events([ELECTION])
    assert (score.precision, score.recall, score.missed_edges) == (1, 0.5, 1)
    assert of_events([{**ELECTION, "new_leader": 2}]).matched == 0
    assert of_events([{**ELECTION, "new_leader": None}]).matched == 1
    assert of_events([{**ELECTION, "t_first_new_ms": 11_001}]).matched == 0
    late = of_events([{**ELECTION, "t_first_new_ms": 10_800, "t_first_new_err_ms": 500}])
    assert (late.matched, late.late_edges) == (1, 1)
    bounds = {"no_leader_low_ms": 0, "no_leader_high_ms": 300}
    assert of_events([{**ELECTION, **bounds}]).worst_duration_error_ms == 200


def test_a_root_cause_counts_if_the_first_incident_names_it() -> None:
    fault = {"start_ms": 10_000, "end_ms": 20_000, "broker": 1}
    nobody = {"start_ms": 50_000, "end_ms": 60_000, "broker": None}
    incident = {"start_ms": 12_000, "end_ms": 22_000, "root_broker": 1}

    def of(*incidents: Row) -> scores.Score:
        return scores.root_causes(incidents, [fault, nobody], settle_ms=5_000)

    assert of(incident).recall == 1
    assert of({**incident, "root_broker": 2}).recall == 0
    assert of({**incident, "start_ms": 30_000, "end_ms": 31_000}).recall == 0
    assert of().expected == 1
    # What is found without a fault costs precision, not what belongs to a fault of nobody.
    assert of(incident, {**incident, "start_ms": 51_000, "end_ms": 52_000}).precision == 1
    assert of(incident, {**incident, "start_ms": 30_000, "end_ms": 31_000}).precision == 0.5
    # The first one counts, in whatever order they come.
    later = {**incident, "start_ms": 13_000, "root_broker": 2}
    assert of(later, incident).recall == 1


def test_what_is_counted_beyond_the_truth_costs_precision_and_less_costs_recall() -> None:
    true = [{"broker": 0, "shrinks": 4, "expands": 2}, {"broker": 1, "shrinks": 4, "expands": 0}]
    table = [{"broker": 0, "shrinks": 5, "expands": 2}, {"broker": 2, "shrinks": 1, "expands": 0}]
    score = scores.counts(table, true, key=("broker",), counted=("shrinks", "expands"))
    assert (score.found, score.expected, score.matched) == (8, 10, 6)


@pytest.mark.parametrize(
    ("row", "matches"),
    [
        ({}, True),
        ({"share": 0.5 + 0.9 * scores.SHARE_ERROR}, True),
        ({"share": 0.5 - 1.1 * scores.SHARE_ERROR}, False),
        ({"low": 701}, False),
        ({"high": 699}, False),
        ({"kind": "b"}, False),
    ],
)
def test_figures_are_near_and_the_truth_lies_between_its_bounds(
    row: dict[str, object], matches: bool
) -> None:
    true = {"kind": "a", "share": 0.5, "low": 700, "high": 700}
    found = {"kind": "a", "share": 0.5, "low": 600, "high": 800, **row}
    score = scores.figures(
        [found], [true], key=("kind",), shares=("share",), pairs=(("low", "high"),)
    )
    assert (score.found, score.expected, score.matched) == (1, 1, int(matches))
