"""Many random schedules: every promise holds, and enough happens to prove something.

STRANDLINE_SCHEDULES is how many; the default keeps the fast tier fast, the full gate takes
500. Planted bugs must be found within the full number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from strandline.simulation.run import Outcome, run
from strandline.simulation.summary import Summary, story
from strandline.simulation.swarm import draw_plan
from tests.simulation.mutants import FOUND_BY_SEARCH, Mutant, planted

SCHEDULES = int(os.environ.get("STRANDLINE_SCHEDULES", "30"))
SCHEDULES_TO_FIND_A_MUTANT = 500
TELLING_SHARE_MIN = 0.8


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


@pytest.mark.parametrize("mutant", FOUND_BY_SEARCH, ids=lambda mutant: mutant.title)
def test_random_search_finds(mutant: Mutant) -> None:
    with planted(mutant):
        found = next(_broken(), None)
    assert found is not None, f"{mutant.title}: survived {SCHEDULES_TO_FIND_A_MUTANT} schedules"
    print(f"{mutant.title}: schedule {found.seed}: {found.detail}")


def _broken() -> Iterator[Outcome]:
    outcomes = (run(draw_plan(seed)) for seed in range(SCHEDULES_TO_FIND_A_MUTANT))
    return (outcome for outcome in outcomes if outcome.promise)
