"""The summary of a run: what it counts, how long it may be, and when there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline_analysis.run_summary import (
    SENTENCE_LENGTH_MAX,
    SUMMARY_BYTES_MAX,
    TOP_INCIDENTS_MAX,
    summary_text,
    unfit_sentence,
)
from strandline_operator.analysis import read_summary

START_MS = 1_790_000_000_123
END_MS = START_MS + 3_600_000


def incident(number: int, *, partitions: int = 1, root: int | None = 1) -> dict[str, Any]:
    start_ms = START_MS + number * 60_000
    proof = {"at_ms": start_ms, "kind": "down", "broker": 1, "topic": None, "partition": None}
    return {
        "id": str(number),
        "start_ms": start_ms,
        "end_ms": start_ms + 10_000,
        "kind": "broker" if root is not None else "network",
        "root_broker": root,
        "confidence": 1.0,
        "partitions": partitions,
        "brokers": 1,
        "episodes": 1,
        "evidence": [proof],
    }


def election(low: int | None, high: int | None) -> dict[str, Any]:
    return {"no_leader_low_ms": low, "no_leader_high_ms": high}


def text(**rows: list[dict[str, Any]]) -> str:
    tables = ("incidents", "elections", "isr_intervals", "data_at_risk")
    return summary_text(
        {name: rows.get(name, []) for name in tables},
        cluster="default",
        start_ms=START_MS,
        end_ms=END_MS,
        ended_ms=END_MS + 9_000,
        coverage=0.9999,
    )


def found(**rows: list[dict[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text(**rows))
    return value


def test_tables_are_counted_and_times_have_bounds() -> None:
    summary = found(
        incidents=[incident(0)],
        elections=[election(800, 1800), election(None, None), election(200, 400)],
        isr_intervals=[
            {"in_isr": False, "start_reason": "change"},
            {"in_isr": False, "start_reason": "range"},
            {"in_isr": None, "start_reason": "change"},
            {"in_isr": True, "start_reason": "change"},
        ],
        data_at_risk=[{"offsets": 500, "lost": 20}, {"offsets": None, "lost": 0}],
    )
    assert summary.pop("topIncidents") == [
        {
            "startedAt": "2026-09-21T14:13:20Z",
            "rootBroker": 1,
            "sentence": "14:13:20.123 to 14:13:30.123 (10.0 s): broker 1 is at the root, "
            "confidence 1.00, 1 partition concerned: broker 1 not reached from 14:13:20.123.",
        }
    ]
    assert summary == {
        "version": 1,
        "cluster": "default",
        "endedAt": "2026-09-21T15:13:29Z",
        "windowStart": "2026-09-21T14:13:20Z",
        "windowEnd": "2026-09-21T15:13:20Z",
        "coveragePercent": 99,
        "incidents": 1,
        "elections": 3,
        "isrShrinks": 1,
        "leaderlessLowMs": 1000,
        "leaderlessHighMs": 2200,
        "recordsAtRisk": 500,
        "recordsLost": 20,
    }


def test_the_widest_incidents_come_first_and_the_others_are_counted() -> None:
    many = [incident(number, partitions=number % 7) for number in range(12)]
    summary = found(incidents=many)
    assert summary["incidents"] == 12
    starts = [each["startedAt"][11:16] for each in summary["topIncidents"]]
    # By partitions 6, 5, 4, 4 and 3; of equals the oldest first.
    assert starts == ["14:19", "14:18", "14:17", "14:24", "14:16"]
    assert len(starts) == TOP_INCIDENTS_MAX


def test_an_incident_without_a_root_names_none() -> None:
    (top,) = found(incidents=[incident(0, root=None)])["topIncidents"]
    assert "rootBroker" not in top


def test_a_long_sentence_is_cut_and_is_one_line_of_plain_spaces() -> None:
    long = incident(0, partitions=123_456)
    kinds = [f"kind{number}" for number in range(50)]
    long["evidence"] = [{**long["evidence"][0], "kind": kind} for kind in kinds]
    (top,) = found(incidents=[long])["topIncidents"]
    assert len(top["sentence"]) == SENTENCE_LENGTH_MAX
    assert top["sentence"].endswith("...")
    assert "123 456 partitions" in top["sentence"]
    assert top["sentence"].isprintable()


def test_what_is_too_long_as_a_whole_loses_its_last_incidents() -> None:
    wide = incident(0)
    # Six bytes of JSON for each character.
    wide["evidence"] = [{**wide["evidence"][0], "kind": "\u00e9" * 300}]
    whole = text(incidents=[wide] * 5)
    assert len(whole.encode()) <= SUMMARY_BYTES_MAX
    assert 0 < len(json.loads(whole)["topIncidents"]) < 5


@pytest.mark.parametrize("end_ms", [START_MS + 1, START_MS + 999, END_MS])
def test_the_operator_reads_every_summary(end_ms: int) -> None:
    whole = summary_text(
        {"incidents": [incident(0)], "elections": [], "isr_intervals": [], "data_at_risk": []},
        cluster="east",
        start_ms=START_MS,
        end_ms=end_ms,
        ended_ms=end_ms,
        coverage=0.29,
    )
    assert read_summary(whole, "east")["coveragePercent"] == 29


def test_samples_of_another_cluster_make_no_summary() -> None:
    assert unfit_sentence("east", "east") == ""
    assert unfit_sentence("west", "east").endswith("of: west")
    assert unfit_sentence("", "east").endswith("of: none that has a name")
