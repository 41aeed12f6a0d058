"""Elections beside brokers whose volumes are full."""

from __future__ import annotations

import pytest

from strandline.controller.broker_entry import Awaited, Dead
from strandline.model import ElectionKind
from tests.support.world.values import state

from .test_elections import View, decided, view


def test_a_full_leader_gives_way_to_the_first_member_with_room_and_stays_in_the_isr() -> None:
    decision = decided(state(), view(0, full=True), view(1, full=True), view(2))
    assert decision is not None
    assert decision.kind is ElectionKind.VOLUME_FULL
    assert (decision.state.leader, decision.state.isr_ids) == (2, (0, 1, 2))


@pytest.mark.parametrize(
    "others",
    [
        (view(1, full=True), view(2, full=True)),
        (view(1, Awaited), view(2, Awaited)),
        (view(1, leaving=True, epoch=2), view(2, Dead, epoch=1)),
    ],
    ids=["all full", "not in session", "none can lead"],
)
def test_a_full_leader_stays_where_no_member_with_room_can_lead(others: tuple[View, ...]) -> None:
    decision = decided(state(), view(0, full=True), *others)
    assert decision is None or decision.state.leader == 0


def test_an_offline_partition_is_led_by_a_full_member_rather_than_by_none() -> None:
    decision = decided(state(), view(0, Dead), view(1, full=True), view(2, Dead))
    assert decision is not None
    assert (decision.kind, decision.state.leader) == (ElectionKind.OFFLINE, 1)


def test_a_new_partition_is_led_by_the_first_member_with_room() -> None:
    decision = decided(None, view(0, full=True), view(1), view(2))
    assert decision is not None
    assert (decision.state.leader, decision.state.isr_ids) == (1, (0, 1, 2))
