"""The preferred leader of a partition leads again: after a time, or when a person asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.broker_entry import Awaited, Dead
from strandline.controller.election_input import ElectionDecision, ElectionInput
from strandline.controller.leader_balance import LeaderBalance
from strandline.model import (
    NO_LEADER,
    BrokerEpoch,
    ControllerEpoch,
    ElectionKind,
    LeaderEpoch,
    PartitionState,
)
from tests.support.world.values import entry, state, topic

from .test_elections import View, stored, view

WAIT_MS = 1_000
LED_BY_ANOTHER = state(leader=1, leader_epoch=4)
VIEWS = (view(0, epoch=7), view(1), view(2))


def step(
    balance: LeaderBalance,
    found: PartitionState,
    now_ms: int,
    *views: View,
    asked_in: int = -1,
) -> ElectionDecision | None:
    inputs = ElectionInput(
        brokers={**dict(VIEWS), **dict(views)},
        topic=topic(),
        hosted={},
        controller_epoch=ControllerEpoch(9),
    )
    wished = replace(stored(found), elect_preferred_in=LeaderEpoch(asked_in))
    for _ in balance.take_due(now_ms):
        assert balance.next_wakeup_ms is None or balance.next_wakeup_ms > now_ms
    return balance.next_step(wished, inputs, now_ms)


def test_a_preferred_leader_leads_again_after_it_could_for_long_enough() -> None:
    balance = LeaderBalance(wait_ms=WAIT_MS)
    assert step(balance, LED_BY_ANOTHER, 50) is None
    assert balance.next_wakeup_ms == 50 + WAIT_MS
    assert step(balance, LED_BY_ANOTHER, 49 + WAIT_MS) is None
    decision = step(balance, LED_BY_ANOTHER, 50 + WAIT_MS)
    assert decision is not None
    assert decision.kind is ElectionKind.PREFERRED
    elected = decision.state
    assert (elected.leader, elected.leader_epoch) == (0, 5)
    assert elected.isr == (entry(0, 7), entry(1), entry(2)), (
        "the ISR stays, its leader's is present"
    )


def test_another_election_begins_the_time_anew() -> None:
    balance = LeaderBalance(wait_ms=WAIT_MS)
    assert step(balance, LED_BY_ANOTHER, 0) is None
    later = replace(LED_BY_ANOTHER, leader_epoch=LeaderEpoch(5))
    assert step(balance, later, WAIT_MS - 1) is None
    assert step(balance, later, WAIT_MS) is None
    assert step(balance, later, 2 * WAIT_MS - 1) is not None


def test_a_wish_is_fulfilled_in_the_leader_epoch_that_it_names_alone() -> None:
    balance = LeaderBalance(wait_ms=0)
    assert step(balance, LED_BY_ANOTHER, 0, asked_in=3) is None
    assert step(balance, LED_BY_ANOTHER, 0, asked_in=5) is None
    assert step(balance, LED_BY_ANOTHER, 0, asked_in=4) is not None


def test_without_a_time_no_leadership_moves_by_itself() -> None:
    balance = LeaderBalance(wait_ms=0)
    assert step(balance, LED_BY_ANOTHER, 0) is None
    assert balance.next_wakeup_ms is None
    assert step(balance, LED_BY_ANOTHER, 10_000_000) is None


@pytest.mark.parametrize(
    ("found", "views"),
    [
        (state(leader=0), []),
        (state(leader=1, isr=(entry(1), entry(2))), []),
        (replace(LED_BY_ANOTHER, leader=NO_LEADER), []),
        (replace(LED_BY_ANOTHER, adding_replicas=LED_BY_ANOTHER.replicas[2:]), []),
        (LED_BY_ANOTHER, [view(0, Awaited)]),
        (LED_BY_ANOTHER, [view(0, Dead)]),
        (LED_BY_ANOTHER, [view(0, leaving=True)]),
        (LED_BY_ANOTHER, [view(0, full=True)]),
        (LED_BY_ANOTHER, [view(0, epoch=7, clean=7)]),
        (replace(LED_BY_ANOTHER, isr=(entry(0), entry(1, BrokerEpoch(0)))), []),
    ],
    ids=[
        "leads",
        "not in sync",
        "no leader",
        "moving",
        "awaited",
        "dead",
        "leaving",
        "full",
        "lost data",
        "leader of an earlier process",
    ],
)
def test_a_preferred_leader_that_can_not_lead_or_does_is_not_elected(
    found: PartitionState, views: list[View]
) -> None:
    balance = LeaderBalance(wait_ms=WAIT_MS)
    assert step(balance, found, 0, *views, asked_in=found.leader_epoch) is None
    assert step(balance, found, 2 * WAIT_MS, *views, asked_in=found.leader_epoch) is None
