"""Who is eligible outside the ISR: tables of each write that changes it, beside its refusal."""

from __future__ import annotations

import pytest

from strandline.controller.broker_entry import Dead, Unregistered
from strandline.controller.eligible_leaders import eligible_leaders
from strandline.model import STATE_LOST, ElectionKind, IsrEntry, PartitionState
from tests.support.world.values import entry, state, topic

from .test_elections import ALL, ELIGIBLE, View, decided, view

Entries = tuple[IsrEntry, ...]
A, B, C = entry(0), entry(1), entry(2)


@pytest.mark.parametrize(
    "former, isr, min_isr, views, expected",
    [
        # A member that leaves is eligible if the ISR is then under min ISR.
        (state(isr=(A, B)), (A,), 2, ALL, (B,)),
        (state(), (A,), 2, ALL, (B, C)),
        (state(), (A, B), 3, ALL, (C,)),
        # At min ISR the high watermark goes on without it.
        (state(), (A, B), 2, ALL, ()),
        (state(), (A,), 1, ALL, ()),
        # An eligible leader stays so while the ISR stays below, and is none at min ISR.
        (state(isr=(A,), elr=(B, C)), (A,), 2, ALL, (B, C)),
        (state(isr=(A,), elr=(B,)), (A, entry(1, 2)), 2, ALL, ()),
        (state(isr=(A,), elr=(B, C)), (A, entry(1, 2)), 3, ALL, (C,)),
        # Lower min ISR ends it; higher min ISR brings back none that left before.
        (state(isr=(A,), elr=(B,)), (A,), 1, ALL, ()),
        (state(isr=(A,), min_isr=1), (A,), 2, ALL, ()),
        # A member that leaves in the write that raises min ISR was complete until then.
        (state(isr=(A, B), min_isr=1), (A,), 2, ALL, (B,)),
        # The former leader, and the former ISR of an elected eligible leader.
        (state(isr=(A, B)), (entry(1, 3),), 2, ALL, (A,)),
        (state(isr=(A,), elr=(B, C)), (entry(1, 3),), 2, ALL, (C, A)),
        # Dead and unknown brokers stay eligible, those that lost data since do not.
        (state(), (A,), 2, (view(0), view(1, Dead), view(2, Unregistered)), (B, C)),
        (state(), (A,), 2, (view(0), view(1, epoch=2, clean=2), view(2, epoch=2)), (C,)),
        (state(isr=(A,), elr=(B, C)), (A,), 2, (view(1, epoch=2, clean=2),), (C,)),
    ],
)
def test_eligible_leaders_of_the_next_state(
    former: PartitionState, isr: Entries, min_isr: int, views: tuple[View, ...], expected: Entries
) -> None:
    assert eligible_leaders(former, isr, min_isr, dict(views)) == expected


def test_fence_of_a_lost_partition_ends_who_is_eligible() -> None:
    decision = decided(ELIGIBLE, *ALL, state_lost=True)
    assert decision is not None
    assert (decision.state.leader, decision.state.reason) == (-1, STATE_LOST)
    assert (decision.state.isr, decision.state.eligible_leaders) == ((), ())


def test_unclean_election_ends_who_is_eligible() -> None:
    views = (view(0, Dead), view(1, Dead), view(2, epoch=2, clean=2))
    decision = decided(ELIGIBLE, *views, found_topic=topic(unclean=True))
    assert decision is not None
    assert (decision.kind, decision.state.leader) == (ElectionKind.UNCLEAN, 2)
    assert decision.state.eligible_leaders == ()


def test_changed_min_isr_and_who_is_eligible_are_one_write() -> None:
    lower = decided(ELIGIBLE, *ALL, found_topic=topic(min_isr=1))
    assert lower is not None
    assert (lower.state.min_insync_replicas, lower.state.eligible_leaders) == (1, ())
    higher = decided(lower.state, *ALL, found_topic=topic(min_isr=2))
    assert higher is not None
    assert (higher.state.min_insync_replicas, higher.state.eligible_leaders) == (2, ())
