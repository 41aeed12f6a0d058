"""Which leadership a broker remembers, in its process and in what it asks to be written."""

from __future__ import annotations

from dataclasses import replace

from strandline.core.terms import term_after
from strandline.model import (
    NO_LEADER,
    NO_TERM,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    PartitionState,
)
from tests.core.samples import state

LED = state(leader=1, le=4)
TERM = LeaderTerm(
    leader_epoch=LeaderEpoch(4),
    led_by=BrokerId(1),
    led_as=next(entry.broker_epoch for entry in LED.isr if entry.broker_id == 1),
)


def fence(after: PartitionState) -> PartitionState:
    return replace(
        after,
        leader=NO_LEADER,
        isr=(),
        leader_epoch=LeaderEpoch(after.leader_epoch + 1),
        partition_epoch=PartitionEpoch(after.partition_epoch + 1),
    )


def test_the_leader_and_its_epoch_in_the_isr_are_remembered() -> None:
    assert term_after(NO_TERM, LED) == TERM


def test_a_state_without_leader_ends_no_memory() -> None:
    assert term_after(TERM, fence(LED)) == TERM
    assert term_after(NO_TERM, fence(LED)) == NO_TERM


def test_a_later_leadership_replaces_it_and_an_earlier_one_does_not() -> None:
    later = LeaderTerm(leader_epoch=LeaderEpoch(9), led_by=BrokerId(2), led_as=BrokerEpoch(3))
    assert term_after(later, LED) == later
    assert term_after(replace(later, leader_epoch=LeaderEpoch(3)), LED) == TERM
