"""Many random schedules: every invariant holds, and most schedules are conclusive.

STRANDLINE_SCHEDULES is their number: the default keeps the fast tier fast, the full gate takes
500. A planted bug must break its invariant within 500 schedules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from strandline_simulation.fault_counts import Anomaly
from strandline_simulation.invariants import Invariant
from strandline_simulation.nemesis import drawn_kinds
from strandline_simulation.plan_generator import draw_plan
from strandline_simulation.run import ScheduleResult, run
from strandline_simulation.summary import Summary, failure_report
from tests.simulation.fetch_mutants import FETCH_MUTANTS
from tests.simulation.flush_mutants import FLUSH_MUTANTS
from tests.simulation.move_plans import FOUND_IN_MOVES_BY_SEARCH
from tests.simulation.mutants import FOUND_BY_SEARCH, Mutant, planted
from tests.simulation.topic_plans import FOUND_IN_TOPICS_BY_SEARCH

SCHEDULES = int(os.environ.get("STRANDLINE_SCHEDULES", "30"))
SCHEDULES_TO_FIND_A_MUTANT = 500
CONCLUSIVE_SHARE_MIN = 0.8
HANDED_OVER_SHARE_MIN = 0.7


@pytest.fixture(scope="module")
def summary() -> Summary:
    return Summary(results=[run(draw_plan(seed)) for seed in range(SCHEDULES)])


def test_every_invariant_holds_in_every_schedule(summary: Summary) -> None:
    assert not summary.broken, "\n".join(map(failure_report, summary.broken[:1]))


def test_most_schedules_acknowledge_records_after_a_later_election(summary: Summary) -> None:
    assert summary.conclusive_share >= CONCLUSIVE_SHARE_MIN, summary.table(1)


def test_schedules_have_elections_losses_and_several_controllers(summary: Summary) -> None:
    results = summary.results
    assert sum(result.elections for result in results) > 2 * len(results)
    assert sum(result.controllers for result in results) > len(results)
    assert any(result.data_losses for result in results)
    assert any(result.eligible_elections for result in results)
    assert sum(result.moves_finished for result in results) > len(results) // 2


def test_most_schedules_are_decided_by_more_than_one_controller(summary: Summary) -> None:
    share = summary.handed_over_share
    print(f"two brokers or more committed something as controller in {100 * share:.1f} %")
    assert share >= HANDED_OVER_SHARE_MIN, summary.table(1)


def test_schedules_have_three_to_five_brokers() -> None:
    assert {draw_plan(seed).brokers for seed in range(SCHEDULES)} == {3, 4, 5}


@pytest.mark.parametrize(
    "kind",
    [*drawn_kinds(), *Anomaly],
    ids=lambda kind: kind.value if isinstance(kind, Anomaly) else kind,
)
def test_each_fault_and_anomaly_happens(summary: Summary, kind: str | Anomaly) -> None:
    assert summary.fault_counts[kind] > 0, summary.table(1)


def test_data_is_lost_as_far_as_the_guarantee_goes_and_no_further(summary: Summary) -> None:
    for result in summary.results:
        limit = draw_plan(result.seed).min_insync_replicas - 1
        assert result.awaiting_rejoin_max <= limit, f"seed {result.seed}"
    assert any(result.awaiting_rejoin_max for result in summary.results)


BY_SEARCH = (
    *FOUND_BY_SEARCH,
    *FETCH_MUTANTS,
    *FLUSH_MUTANTS,
    *FOUND_IN_MOVES_BY_SEARCH,
    *FOUND_IN_TOPICS_BY_SEARCH,
)


@pytest.mark.parametrize("mutant", BY_SEARCH, ids=lambda mutant: mutant.title)
def test_random_search_finds(mutant: Mutant) -> None:
    others = set()
    with planted(mutant):
        for result in _broken(flushes=mutant in FLUSH_MUTANTS):
            if result.broken_invariant == mutant.breaks:
                break
            others.add(result.broken_invariant)
            assert result.broken_invariant != Invariant.NOTHING_ELSE_RAISES, result.detail
        else:
            pytest.fail(f"{mutant.title}: not in {SCHEDULES_TO_FIND_A_MUTANT} schedules {others}")
    print(f"{mutant.title}: schedule {result.seed}: {result.detail}")


def _broken(*, flushes: bool) -> Iterator[ScheduleResult]:
    """Yield the schedules that break; with flushes those alone in which records are fsynced."""
    plans = map(draw_plan, range(SCHEDULES_TO_FIND_A_MUTANT))
    results = (run(plan) for plan in plans if plan.flushes or not flushes)
    return (result for result in results if result.broken_invariant)
