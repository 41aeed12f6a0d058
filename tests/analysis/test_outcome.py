"""A run tells by its exit code whether there were samples, and whether they tell enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline_analysis.outcome import LITTLE_KNOWN, NO_DATA, OK, known_share, outcome
from strandline_analysis.task import Task

SOME_INTERVAL = [{"topic": "orders"}]


def task(coverage_min: float) -> Task:
    return Task(
        prometheus="http://here",
        start_ms=0,
        end_ms=1000,
        out=Path("out"),
        coverage_min=coverage_min,
    )


def day(known_ms: int, total_ms: int) -> dict[str, Any]:
    return {"known_ms": known_ms, "total_ms": total_ms}


def test_topics_and_days_count_by_their_time() -> None:
    assert known_share([day(100, 100), day(100, 300)]) == 0.5
    assert known_share([]) == 0.0


@pytest.mark.parametrize(("known_ms", "code"), [(70, OK), (69, LITTLE_KNOWN)])
def test_less_than_asked_for_is_told_with_the_share(known_ms: int, code: int) -> None:
    found, sentence = outcome(task(0.7), isr_intervals=SOME_INTERVAL, slo=[day(known_ms, 100)])
    assert found == code
    assert ("69.0%" in sentence and "--coverage-min asks for 70.0%" in sentence) == bool(code)


def test_no_sample_of_a_partition_is_no_data_whatever_is_asked_for() -> None:
    code, sentence = outcome(task(0.0), isr_intervals=[], slo=[])
    assert code == NO_DATA
    assert "http://here holds no sample of a partition" in sentence


def test_nothing_that_was_asked_for_is_reached_by_nothing() -> None:
    assert outcome(task(0.0), isr_intervals=SOME_INTERVAL, slo=[]) == (OK, "")
