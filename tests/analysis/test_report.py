"""The report's text and the faults file, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strandline_analysis import report
from strandline_analysis.html_report.words import Range
from strandline_analysis.injected_faults import FaultsMalformed, InjectedFault, read_faults
from strandline_analysis.sentences import EVIDENCE_LIMIT, incident_sentence, whatif_sentences

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


def proof(kind: str, broker: int | None, partition: int | None, at: int) -> dict[str, Any]:
    topic = None if partition is None else "orders"
    return {"at_ms": at, "kind": kind, "broker": broker, "topic": topic, "partition": partition}


def incident(**changes: Any) -> dict[str, Any]:
    evidence = [
        proof("down", 1, None, AT),
        proof("leaderless", 1, 0, AT + 100),
        proof("ur", 1, 0, AT + 800),
        proof("ur", 1, 1, AT + 900),
    ]
    return {
        "id": f"{AT}-broker-1",
        "start_ms": AT,
        "end_ms": AT + 40_000,
        "kind": "broker",
        "root_broker": 1,
        "confidence": 0.75,
        "partitions": 2,
        "brokers": 1,
        "episodes": 4,
        "evidence": evidence,
        **changes,
    }


def faults_from(tmp_path: Path, given: object) -> list[InjectedFault]:
    path = tmp_path / "faults.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return read_faults(path)


def test_faults_are_printed_beside_the_elections_that_followed() -> None:
    killed = InjectedFault(name="leader killed", at_ms=AT, broker_id=1, gap_ms=900)
    text = report.text_report(
        Range(start_ms=AT - 1000, end_ms=AT + 59_000, interval_ms=1000),
        incidents=[],
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


def test_the_report_opens_with_a_sentence_for_each_incident() -> None:
    cut = incident(id="b", start_ms=AT + 50_000, end_ms=AT + 60_000, kind="network")
    cut |= {"root_broker": None, "confidence": 0.0}
    text = report.text_report(
        Range(start_ms=AT - 1000, end_ms=AT + 90_000, interval_ms=1000),
        incidents=[cut, incident()],
        isr_intervals=[],
        elections=[],
        faults=[],
    )
    lines = text.splitlines()
    assert lines[1:3] == ["", "Incidents: 2"]
    assert all(len(line) <= report.WIDTH for line in lines)
    said = " ".join(text.split())
    at = report.clock
    assert (
        f"1. {at(AT)} to {at(AT + 40_000)} (40.0 s): broker 1 is at the root, confidence 0.75, "
        f"2 partitions concerned: broker 1 not reached from {at(AT)}; 1 partition lost broker 1 as "
        f"leader from {at(AT + 100)}; 2 partitions under-replicated, without broker 1, from "
        f"{at(AT + 800)}." in said
    )
    assert "(10.0 s): brokers were missing alike, as when the network is cut, 2 partitions" in said


def test_what_the_samples_lack_stands_before_the_incidents_with_the_coverage() -> None:
    lacks = ("http://here has two of three brokers", "a clock is wrong.")
    window = Range(
        start_ms=AT - 1000,
        end_ms=AT + 59_000,
        interval_ms=1000,
        cluster="strandline/blue",
        known=0.5,
        findings=lacks,
    )
    text = report.text_report(window, incidents=[], isr_intervals=[], elections=[], faults=[])
    lines = text.splitlines()
    assert lines[0].startswith("Cluster strandline/blue, ")
    assert lines[0].endswith("scraped every 1.0 s; 50.0% of the partitions' time is known")
    assert lines[1:5] == [
        "- http://here has two of three brokers.",
        "- A clock is wrong.",
        "",
        "Incidents: 0",
    ]


@pytest.mark.parametrize(
    ("kind", "root", "says"),
    [
        ("scrape", 2, "broker 2 alone was not reached by Prometheus"),
        ("scrape", None, "Prometheus did not reach brokers"),
        ("controller", None, "another broker became the controller"),
        ("unknown", None, "no broker stands out"),
    ],
)
def test_each_kind_of_incident_has_its_words(kind: str, root: int | None, says: str) -> None:
    assert says in incident_sentence(incident(kind=kind, root_broker=root))


def test_brokers_that_stand_out_alike_are_not_told_as_a_root() -> None:
    # So it is when all brokers are restarted, one after the other.
    told = incident_sentence(incident(confidence=0.001))
    assert "several brokers stand out alike, broker 1 the first of them, 2 partitions" in told
    assert "broker 1 is at the root, confidence 0.01" in incident_sentence(
        incident(confidence=0.01)
    )


def test_a_sentence_says_that_signs_are_left_out() -> None:
    many = [proof("stall", None, number, AT + number) for number in range(EVIDENCE_LIMIT)]
    assert "the oldest 50 signs alone are listed" in incident_sentence(incident(evidence=many))


def test_other_settings_are_told_against_the_one_in_force() -> None:
    def row(setting: int, low: int, high: int, stall: int) -> dict[str, Any]:
        told = {"shrinks_low": low, "shrinks_high": high, "extra_hw_stall_ms": stall}
        return {"setting_ms": setting, **told}

    rows = [row(60_000, 1, 1, 65_000), row(5_000, 6, 7, 0), row(30_000, 4, 4, 5_000)]
    assert whatif_sentences(rows, 30_000) == [
        "replica.lag.time.max.ms was 30 s: 4 shrinks by its own rule.",
        (
            "With replica.lag.time.max.ms = 5 s: 3 shrinks more (6 to 7 shrinks), commits held up "
            "5.0 s less at most."
        ),
        (
            "With replica.lag.time.max.ms = 60 s: 3 shrinks less (1 shrink), commits held up "
            "60.0 s longer at most."
        ),
    ]
    assert whatif_sentences(rows, 1_000) == []


def test_what_is_unknown_at_the_edge_of_the_range_is_not_listed() -> None:
    before = interval(in_isr=None, start_reason="range", end_reason="range")
    within = interval(in_isr=None, start_reason="gap", end_reason="gap", replica=2)
    text = report.text_report(
        Range(start_ms=AT - 1000, end_ms=AT + 59_000, interval_ms=1000),
        incidents=[],
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
