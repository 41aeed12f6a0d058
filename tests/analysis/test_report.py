"""The report's text and the faults file, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strandline_analysis import report
from strandline_analysis.injected_faults import FaultsMalformed, InjectedFault, read_faults

AT = 1_790_000_000_000


def election(**changes: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "epoch": 4,
        "old_leader": 1,
        "new_leader": 2,
        "t_last_old_ms": AT + 100,
        "t_first_new_ms": AT + 800,
        "t_first_new_err_ms": 0,
        "no_leader_low_ms": 0,
        "no_leader_high_ms": 700,
        "kind": "broker_failure",
        "cause": "stale",
        "observed": True,
        **changes,
    }


def interval(**changes: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "replica": 1,
        "in_isr": False,
        "start_ms": AT + 900,
        "end_ms": AT + 8400,
        "start_err_ms": 0,
        "end_err_ms": 1000,
        "start_reason": "leader_change",
        "end_reason": "change",
        "sample_count": 7,
        "leader_epoch": 4,
        **changes,
    }


def faults_from(tmp_path: Path, given: object) -> list[InjectedFault]:
    path = tmp_path / "faults.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return read_faults(path)


def test_faults_are_printed_beside_the_elections_that_followed() -> None:
    killed = InjectedFault(name="leader killed", at_ms=AT, broker_id=1, gap_ms=900)
    text = report.text_report(
        start_ms=AT - 1000,
        end_ms=AT + 59_000,
        interval_ms=1000,
        isr_intervals=[interval(), interval(replica=2, in_isr=True)],
        elections=[election()],
        faults=[killed],
    )
    lines = text.splitlines()
    assert "scraped every 1.0 s" in lines[0]
    fault = next(line for line in lines if line.startswith("leader killed"))
    assert fault.split() == [
        *("leader", "killed", "1", report.clock(AT), "1"),
        *("0", "ms", "to", "700", "ms", "1", "900", "ms"),
    ]
    assert any(line.startswith("orders-0   4      1 -> 2") for line in lines)
    assert sum(line.startswith("orders-0") for line in lines) == 2


def test_what_is_unknown_at_the_edge_of_the_range_is_not_listed() -> None:
    before = interval(in_isr=None, start_reason="range", end_reason="range")
    within = interval(in_isr=None, start_reason="gap", end_reason="gap", replica=2)
    text = report.text_report(
        start_ms=AT - 1000,
        end_ms=AT + 59_000,
        interval_ms=1000,
        isr_intervals=[before, within],
        elections=[],
        faults=[],
    )
    assert "Times not known to be in the ISR: 1" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("orders-0")] == ["2"]


@pytest.mark.parametrize(
    "other",
    [
        election(old_leader=0),
        election(t_first_new_ms=AT - 1),
        election(t_first_new_ms=AT + report.FAULT_WINDOW_MS),
        election(observed=False),
    ],
    ids=["another broker", "before", "long after", "unseen"],
)
def test_an_election_that_did_not_follow_a_fault_is_not_counted_to_it(
    other: dict[str, Any],
) -> None:
    fault = InjectedFault(name="killed", at_ms=AT, broker_id=1)
    until = AT + report.FAULT_WINDOW_MS
    assert report.elections_of(fault, [other], until_ms=until) == []
    assert report.elections_of(fault, [election()], until_ms=until) == [election()]


def test_long_tables_are_cut_and_say_so() -> None:
    rows = [("x",)] * (report.ROWS_MAX + 5)
    assert report.table(("a",), rows).splitlines()[-1] == "... and 5 more"


def test_faults_are_read_oldest_first(tmp_path: Path) -> None:
    given = [
        {"name": "b", "atMs": 9, "brokerId": 2, "gapMs": 4.4},
        {"name": "a", "atMs": 5, "brokerId": None},
    ]
    assert faults_from(tmp_path, given) == [
        InjectedFault(name="a", at_ms=5),
        InjectedFault(name="b", at_ms=9, broker_id=2, gap_ms=4),
    ]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("{", "Expecting"),
        ({}, "not a list"),
        ([5], "entry 0: not an object"),
        ([{"atMs": 5}], "entry 0: needs a name"),
        ([{"name": "a"}], "entry 0: needs atMs"),
        ([{"name": "a", "atMs": "5"}], "atMs is no number"),
        ([{"name": "a", "atMs": 5, "brokerId": True}], "brokerId is no number"),
    ],
)
def test_a_malformed_faults_file_is_refused(tmp_path: Path, given: object, complaint: str) -> None:
    with pytest.raises(FaultsMalformed, match=complaint):
        faults_from(tmp_path, given)
