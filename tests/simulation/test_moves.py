"""Moves finish or are taken back whatever happens to the controller, and lose nothing."""

from __future__ import annotations

import pytest

from strandline_simulation.plan import Plan
from strandline_simulation.run import ScheduleResult, run
from strandline_simulation.summary import failure_report
from tests.simulation import move_plans


def ended(plan: Plan) -> ScheduleResult:
    """Run a plan to its end, at which each partition is where it shall be, and nowhere else."""
    result = run(plan)
    assert not result.broken_invariant, failure_report(result)
    assert result.offline == 0
    assert result.acknowledged == sum(produce.record_count for produce in plan.produces)
    return result


def test_a_partition_moves_to_other_brokers() -> None:
    assert ended(move_plans.TO_OTHER_BROKERS).moves_finished == 1


@pytest.mark.parametrize("after_ms", [*range(0, 40, 2), *range(40, 400, 20)])
def test_a_move_finishes_whenever_its_controller_is_killed(after_ms: int) -> None:
    result = ended(move_plans.with_controller_killed(after_ms))
    assert (result.moves_finished, result.controllers) == (1, 2)


@pytest.mark.parametrize("after_ms", [*range(0, 40, 2), *range(40, 200, 20)])
def test_a_move_is_taken_back_at_any_step(after_ms: int) -> None:
    assert ended(move_plans.cancelled(after_ms)).moves_finished in range(3)


def test_a_partition_whose_object_is_lost_waits_for_the_brokers_that_it_moved_to() -> None:
    result = ended(move_plans.LOST_AFTER_IT_MOVED)
    assert result.moves_finished == 2, "there, and to where the new object says"
