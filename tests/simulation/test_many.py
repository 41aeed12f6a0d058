"""Many random schedules: every promise holds, and enough happens to prove something.

STRANDLINE_SCHEDULES is how many; the default keeps the fast tier fast, the full gate takes
500. Planted bugs must be found within the full number; those that take long to find are looked
for by the full gate alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from strandline.simulation.happenings import Happening
from strandline.simulation.plan import FaultKind
from strandline.simulation.run import Outcome, run
from strandline.simulation.summary import Summary, story
from strandline.simulation.swarm import draw_plan
from tests.simulation.mutants import FOUND_LATE, FOUND_SOON, Mutant, planted

SCHEDULES = int(os.environ.get("STRANDLINE_SCHEDULES", "30"))
SCHEDULES_TO_FIND_A_MUTANT = 500
MUTANTS = FOUND_SOON + (FOUND_LATE if SCHEDULES >= SCHEDULES_TO_FIND_A_MUTANT else ())
TELLING_SHARE_MIN = 0.8
HANDED_OVER_SHARE_MIN = 0.7


@pytest.fixture(scope="module")
def summary() -> Summary:
    return Summary(outcomes=[run(draw_plan(seed)) for seed in range(SCHEDULES)])


def test_every_promise_holds_in_every_schedule(summary: Summary) -> None:
    assert not summary.broken, "\n".join(map(story, summary.broken[:1]))


def test_most_schedules_acknowledge_records_after_a_later_election(summary: Summary) -> None:
    assert summary.telling_share >= TELLING_SHARE_MIN, summary.table(1)


def test_schedules_have_elections_losses_and_several_controllers(summary: Summary) -> None:
    outcomes = summary.outcomes
    assert sum(outcome.elections for outcome in outcomes) > 2 * len(outcomes)
    assert sum(outcome.controllers for outcome in outcomes) > len(outcomes)
    assert any(outcome.losses for outcome in outcomes)


def test_most_schedules_are_decided_by_more_than_one_controller(summary: Summary) -> None:
    share = summary.handed_over_share
    print(f"two brokers or more committed something as controller in {100 * share:.1f} %")
    assert share >= HANDED_OVER_SHARE_MIN, summary.table(1)


def test_schedules_have_three_to_five_brokers() -> None:
    assert {draw_plan(seed).brokers for seed in range(SCHEDULES)} == {3, 4, 5}


@pytest.mark.parametrize("kind", [*FaultKind, *Happening], ids=lambda kind: kind.value)
def test_what_may_go_wrong_does(summary: Summary, kind: FaultKind | Happening) -> None:
    assert summary.happened[kind] > 0, summary.table(1)


def test_data_is_lost_as_far_as_the_guarantee_goes_and_no_further(summary: Summary) -> None:
    for outcome in summary.outcomes:
        limit = draw_plan(outcome.seed).min_insync_replicas - 1
        assert outcome.not_back_max <= limit, f"seed {outcome.seed}"
    assert any(outcome.not_back_max for outcome in summary.outcomes)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_random_search_finds(mutant: Mutant) -> None:
    with planted(mutant):
        found = next(_broken(), None)
    assert found is not None, f"{mutant.title}: survived {SCHEDULES_TO_FIND_A_MUTANT} schedules"
    print(f"{mutant.title}: schedule {found.seed}: {found.detail}")


def _broken() -> Iterator[Outcome]:
    outcomes = (run(draw_plan(seed)) for seed in range(SCHEDULES_TO_FIND_A_MUTANT))
    return (outcome for outcome in outcomes if outcome.promise)
