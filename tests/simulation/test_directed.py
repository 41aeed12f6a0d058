"""Directed plans: the shipped classes pass them, the mistake each tells of does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.simulation.plan import Plan, from_json
from strandline.simulation.promises import (
    ISR_IS_COMPLETE,
    LEADER_IS_COMPLETE,
    ONE_LEADER_PER_EPOCH,
)
from strandline.simulation.run import run
from strandline.simulation.summary import story
from tests.simulation import directed
from tests.simulation.mutants import (
    JOIN_BEFORE_EPOCH_START,
    NO_OWN_ENTRY_CHECK,
    Mutant,
    planted,
)

KEPT_PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))


@pytest.mark.parametrize(
    "plan",
    [
        directed.JOIN_BELOW_EPOCH_START,
        directed.LEADERSHIP_OF_AN_EARLIER_SELF,
        directed.CLEAN_RESTART_OF_EVERYBODY,
        directed.WIPED_FOLLOWER,
    ],
    ids=["join", "earlier self", "clean restart", "wiped follower"],
)
def test_every_promise_holds_and_everything_heals(plan: Plan) -> None:
    outcome = run(plan)
    assert not outcome.promise, story(outcome)
    assert outcome.offline == 0
    assert outcome.acknowledged == sum(produce.record_count for produce in plan.produces)


def test_a_partition_goes_offline_rather_than_lose_records() -> None:
    outcome = run(directed.ELECTED_WHILE_LOSING_DATA)
    assert not outcome.promise, story(outcome)
    assert (outcome.offline, outcome.losses, outcome.acknowledged) == (1, 1, 10)


@pytest.mark.parametrize(
    "plan, mutant, promise",
    [
        (directed.JOIN_BELOW_EPOCH_START, JOIN_BEFORE_EPOCH_START, ISR_IS_COMPLETE),
        (directed.LEADERSHIP_OF_AN_EARLIER_SELF, NO_OWN_ENTRY_CHECK, ONE_LEADER_PER_EPOCH),
        (directed.ELECTED_WHILE_LOSING_DATA, NO_OWN_ENTRY_CHECK, LEADER_IS_COMPLETE),
    ],
    ids=["join", "earlier self", "elected while losing data"],
)
def test_the_planted_bug_falls(plan: Plan, mutant: Mutant, promise: str) -> None:
    with planted(mutant):
        outcome = run(plan)
    assert outcome.promise == promise, outcome.detail
    assert outcome.trace, "a broken promise comes with its last events"


@pytest.mark.parametrize("path", KEPT_PLANS, ids=lambda path: path.stem)
def test_a_plan_that_once_failed_passes(path: Path) -> None:
    outcome = run(from_json(path.read_text()))
    assert not outcome.promise, story(outcome)
