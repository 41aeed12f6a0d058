"""Directed plans: the shipped classes pass them, the mistake each tells of does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.simulation.invariants import (
    ISR_IS_COMPLETE,
    LEADER_IS_COMPLETE,
    ONE_LEADER_PER_EPOCH,
)
from strandline.simulation.plan import Plan, from_json
from strandline.simulation.run import run
from strandline.simulation.summary import failure_report
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
        directed.CLEAN_RESTART_OF_ALL_BROKERS,
        directed.WIPED_FOLLOWER,
    ],
    ids=["join", "earlier self", "clean restart", "wiped follower"],
)
def test_every_invariant_holds_and_everything_heals(plan: Plan) -> None:
    result = run(plan)
    assert not result.broken_invariant, failure_report(result)
    assert result.offline == 0
    assert result.acknowledged == sum(produce.record_count for produce in plan.produces)


def test_a_partition_goes_offline_rather_than_lose_records() -> None:
    result = run(directed.ELECTED_WHILE_LOSING_DATA)
    assert not result.broken_invariant, failure_report(result)
    assert (result.offline, result.data_losses, result.acknowledged) == (1, 1, 10)


@pytest.mark.parametrize(
    "plan, mutant, invariant",
    [
        (directed.JOIN_BELOW_EPOCH_START, JOIN_BEFORE_EPOCH_START, ISR_IS_COMPLETE),
        (directed.LEADERSHIP_OF_AN_EARLIER_SELF, NO_OWN_ENTRY_CHECK, ONE_LEADER_PER_EPOCH),
        (directed.ELECTED_WHILE_LOSING_DATA, NO_OWN_ENTRY_CHECK, LEADER_IS_COMPLETE),
    ],
    ids=["join", "earlier self", "elected while losing data"],
)
def test_the_planted_bug_falls(plan: Plan, mutant: Mutant, invariant: str) -> None:
    with planted(mutant):
        result = run(plan)
    assert result.broken_invariant == invariant, result.detail
    assert result.trace, "a broken invariant comes with its last events"


@pytest.mark.parametrize("path", KEPT_PLANS, ids=lambda path: path.stem)
def test_a_plan_that_once_failed_passes(path: Path) -> None:
    result = run(from_json(path.read_text()))
    assert not result.broken_invariant, failure_report(result)
