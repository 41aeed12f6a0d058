"""A topic that is deleted and comes back has every record at its offset, whenever that is."""

from __future__ import annotations

import pytest

from strandline_simulation.plan import Plan
from strandline_simulation.run import run
from strandline_simulation.summary import failure_report
from tests.simulation import topic_plans


def comes_back(plan: Plan) -> None:
    """Run a plan to its end: all was acknowledged, and no partition waits for a person."""
    result = run(plan)
    assert not result.broken_invariant, failure_report(result)
    assert result.fault_counts["lose_topic"] == 1
    assert result.offline == 0
    assert result.acknowledged == sum(produce.record_count for produce in plan.produces)


@pytest.mark.parametrize("left_ms", [0, 30, topic_plans.PARTITIONS_LEFT_FOR_MS])
@pytest.mark.parametrize("for_ms", [*range(1, 20), 50, 300, 2_000])
def test_a_topic_comes_back_whenever_that_is(for_ms: int, left_ms: int) -> None:
    comes_back(topic_plans.back_after(for_ms, partitions_left_ms=left_ms))


@pytest.mark.parametrize("after_ms", [*range(0, 40, 2), *range(40, 400, 40)])
def test_a_topic_comes_back_whenever_its_controller_is_killed(after_ms: int) -> None:
    comes_back(topic_plans.with_controller_killed(after_ms))


@pytest.mark.parametrize("for_ms", [20, 100, 110, 400, 1_500])
def test_a_topic_comes_back_before_a_replica_has_heard_that_it_went(for_ms: int) -> None:
    comes_back(topic_plans.with_replica_cut_off(for_ms))


def test_a_topic_comes_back_at_another_place_than_its_logs() -> None:
    comes_back(topic_plans.moved_before())
