"""Which followers a leader counts, proposes for the ISR, and refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.core.effects import Effect, ProposeIsr
from strandline.core.leader import LeaderReplica
from strandline.core.live_brokers import LiveBrokers
from strandline.core.new_leader import become_leader
from strandline.core.notices import HighWatermarkAdvanced, IsrChanged
from strandline.model import BrokerEpoch, BrokerId, IsrEntry, PartitionState

from .samples import TP, alive, context, entries, entry, log, of_type, produced, state


def leader(
    committed: PartitionState | None = None, *, end_offset: int = 0, live: tuple[int, ...] = (1, 2)
) -> LeaderReplica:
    epochs = "0@0" if end_offset else ""
    made, _ = become_leader(
        log(end_offset, epochs=epochs), committed or state(le=1), context(*live), 0
    )
    return made


def announce(made: LeaderReplica, broker: int, *, epoch: int = 1) -> None:
    made.context = replace(made.context, live=LiveBrokers(alive(broker, epoch=epoch)))


def grow(made: LeaderReplica, count: int) -> None:
    made.append(produced(1, count))


def fetch(
    made: LeaderReplica, broker: int, offset: int, now_ms: int = 0, *, has_room: bool = True
) -> list[Effect]:
    assert made.admit(
        BrokerId(broker), broker_epoch=BrokerEpoch(1), clean_since_epoch=BrokerEpoch(1)
    )
    return made.record_fetch(
        BrokerId(broker), fetch_offset=offset, log_start_offset=0, now_ms=now_ms, has_room=has_room
    )


@pytest.mark.parametrize(
    ("offset", "joins"),
    [(4, False), (5, False), (9, False), (10, True)],
)
def test_join_waits_for_the_epoch_start_offset(offset: int, *, joins: bool) -> None:
    made = leader(state(le=1, isr=entries(0, 1)), end_offset=10)
    made.log.raise_high_watermark(5)
    effects = fetch(made, 2, offset)
    assert bool(of_type(effects, ProposeIsr)) is joins


def test_join_waits_for_the_high_watermark() -> None:
    made = leader(state(le=1, isr=entries(0)))
    grow(made, 5)
    made.advance_high_watermark(0)
    assert of_type(fetch(made, 1, 4), ProposeIsr) == []
    assert len(of_type(fetch(made, 1, 5), ProposeIsr)) == 1


def test_a_follower_without_room_joins_at_the_log_end_alone() -> None:
    """Behind it, it would join and leave in turn, as long as its volume is full."""
    made = leader(state(le=1, isr=entries(0), min_isr=2))
    grow(made, 5)
    assert of_type(fetch(made, 1, 4, has_room=False), ProposeIsr) == []
    assert len(of_type(fetch(made, 1, 5, has_room=False), ProposeIsr)) == 1


@pytest.mark.parametrize("announced", [(), (2,)])
def test_only_a_live_broker_joins(announced: tuple[int, ...]) -> None:
    made = leader(state(le=1, isr=entries(0)), live=announced)
    assert of_type(fetch(made, 1, 0), ProposeIsr) == []


def test_only_the_announced_process_joins() -> None:
    made = leader(state(le=1, isr=entries(0)), live=())
    made.admit(BrokerId(1), broker_epoch=BrokerEpoch(2), clean_since_epoch=BrokerEpoch(1))
    announce(made, 1, epoch=1)
    broker = BrokerId(1)
    fetched = made.record_fetch(broker, fetch_offset=0, log_start_offset=0, now_ms=0, has_room=True)
    assert fetched == []
    announce(made, 1, epoch=2)
    proposal = made.propose_joiner(0)[0]
    assert isinstance(proposal, ProposeIsr)
    assert proposal.isr == (entry(0), entry(1, 2))


def test_broker_that_fell_silent_is_not_proposed() -> None:
    made = leader(state(le=1, isr=entries(0)), live=())
    fetch(made, 1, 0)
    announce(made, 1)
    lag_ms = made.context.settings.replica_lag_time_max_ms
    assert made.propose_joiner(lag_ms + 1) == []
    assert made.propose_joiner(lag_ms) != []


def test_next_joiner_follows_at_once() -> None:
    made = leader(state(le=1, isr=entries(0)))
    fetch(made, 1, 0)
    fetch(made, 2, 0)
    effects = made.adopt(state(le=1, pe=1, isr=entries(0, 1)), 0)
    assert isinstance(effects[0], IsrChanged)
    proposal = of_type(effects, ProposeIsr)[0]
    assert isinstance(proposal, ProposeIsr)
    assert proposal.isr == entries(0, 1, 2)


def test_leaver_is_not_proposed_again_by_the_commit_of_its_leaving() -> None:
    made = leader(state(le=1, isr=entries(0, 1)))
    fetch(made, 1, 0)
    grow(made, 3)
    lag_ms = made.context.settings.replica_lag_time_max_ms
    fetch(made, 1, 0, now_ms=lag_ms)
    assert of_type(made.check_isr(lag_ms + 1), ProposeIsr)
    effects = made.adopt(state(le=1, pe=1, isr=entries(0)), lag_ms + 1)
    assert [type(each) for each in effects] == [IsrChanged, HighWatermarkAdvanced]


def test_high_watermark_waits_for_the_joiner() -> None:
    made = leader(state(le=1, isr=entries(0)))
    fetch(made, 1, 0)
    grow(made, 1)
    assert made.advance_high_watermark(10**9) == []
    assert fetch(made, 1, 1, now_ms=10**9) == [HighWatermarkAdvanced(tp=TP, high_watermark=1)]


def test_time_alone_ends_the_count_of_a_follower_outside_the_isr() -> None:
    made = leader(state(le=1, isr=entries(0)))
    fetch(made, 1, 0)
    made.adopt(state(le=1, pe=1, isr=entries(0)), 0)
    made.proposer.refused_until_ms[BrokerId(1)] = 10**9
    grow(made, 1)
    lag_ms = made.context.settings.replica_lag_time_max_ms
    assert made.check_isr(lag_ms) == []
    assert made.check_isr(lag_ms + 1) == [HighWatermarkAdvanced(tp=TP, high_watermark=1)]


def test_min_isr_is_capped_by_the_number_of_replicas() -> None:
    made = leader(state(le=1, replicas=(0, 1), isr=entries(0, 1), min_isr=5))
    assert made.min_insync_replicas == 2
    assert not made.is_under_min_isr


def test_process_that_was_replaced_may_not_fetch() -> None:
    made = leader()
    assert made.admit(BrokerId(1), broker_epoch=BrokerEpoch(3), clean_since_epoch=BrokerEpoch(1))
    assert not made.admit(
        BrokerId(1), broker_epoch=BrokerEpoch(2), clean_since_epoch=BrokerEpoch(1)
    )
    announce(made, 2, epoch=4)
    assert not made.admit(
        BrokerId(2), broker_epoch=BrokerEpoch(3), clean_since_epoch=BrokerEpoch(1)
    )
    assert made.admit(BrokerId(2), broker_epoch=BrokerEpoch(4), clean_since_epoch=BrokerEpoch(1))


def test_member_that_lost_its_log_counts_for_nothing_and_is_to_leave() -> None:
    made = leader(state(le=1, isr=entries(0, 1), min_isr=2))
    grow(made, 2)
    made.admit(BrokerId(1), broker_epoch=BrokerEpoch(2), clean_since_epoch=BrokerEpoch(2))
    effects = made.record_fetch(
        BrokerId(1), fetch_offset=2, log_start_offset=0, now_ms=0, has_room=True
    )
    assert [type(each) for each in effects] == [ProposeIsr]
    assert made.log.high_watermark == 0
    assert made.is_under_min_isr
    # The permission beside the refusal: a broker that restarted clean counts under its old entry.
    clean = leader(state(le=1, isr=entries(0, 1), min_isr=2))
    grow(clean, 2)
    clean.admit(BrokerId(1), broker_epoch=BrokerEpoch(2), clean_since_epoch=BrokerEpoch(1))
    clean.record_fetch(BrokerId(1), fetch_offset=2, log_start_offset=0, now_ms=0, has_room=True)
    assert clean.log.high_watermark == 2


def test_changed_assignment_keeps_the_progress_of_those_who_stay() -> None:
    made = leader(state(le=1, isr=entries(0, 1)))
    fetch(made, 1, 0)
    committed = state(le=1, pe=1, isr=entries(0, 1), replicas=(0, 1, 3))
    made.adopt(committed, 0)
    assert sorted(made.followers) == [1, 3]
    assert made.followers[BrokerId(1)].last_fetch_ms is not None
    assert made.followers[BrokerId(3)].last_fetch_ms is None


def test_same_isr_is_no_change() -> None:
    made = leader(state(le=1, isr=entries(0)))
    assert made.adopt(state(le=1, pe=1, isr=entries(0)), 0) == []
    renewed: tuple[IsrEntry, ...] = (entry(0), entry(1, 7))
    changed = made.adopt(state(le=1, pe=9, isr=renewed), 0)
    assert of_type(changed, IsrChanged)


def test_members_that_died_are_proposed_out_if_records_wait_for_them() -> None:
    made = leader()
    grow(made, 5)
    made.context.live.replace(alive(1))
    (proposal,) = of_type(made.propose_dead(0), ProposeIsr)
    assert isinstance(proposal, ProposeIsr)
    assert [member.broker_id for member in proposal.isr] == [0, 1]


def test_a_partition_without_records_that_wait_asks_for_nothing_when_a_member_dies() -> None:
    made = leader()
    made.context.live.replace(alive(1))
    assert made.propose_dead(0) == []


def test_members_that_live_are_not_proposed_out_and_a_leader_never_itself() -> None:
    made = leader()
    grow(made, 5)
    made.context.live.replace(alive(1, 2))
    assert made.propose_dead(0) == []


def settled_leader() -> LeaderReplica:
    made = leader(state(le=1))
    fetch(made, 1, 0)
    fetch(made, 2, 0)
    return made


def begin_anew(made: LeaderReplica) -> None:
    assert made.admit(BrokerId(1), broker_epoch=BrokerEpoch(2), clean_since_epoch=BrokerEpoch(2))


def test_leader_is_settled_once_every_replica_has_all_that_there_is() -> None:
    made = leader(state(le=1))
    fetch(made, 1, 0)
    assert not made.is_settled
    fetch(made, 2, 0)
    assert made.is_settled


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda made: grow(made, 1), id="records"),
        pytest.param(begin_anew, id="another process of a follower"),
        pytest.param(
            lambda made: made.adopt(state(le=1, pe=1, isr=entries(0, 1)), 0), id="smaller ISR"
        ),
        pytest.param(
            lambda made: made.adopt(state(le=1, pe=1, replicas=(0, 1, 2, 3)), 0),
            id="another replica",
        ),
    ],
)
def test_isr_is_checked_again_after_a_change(change: Callable[[LeaderReplica], None]) -> None:
    made = settled_leader()
    made.context.isr_checks.take()
    change(made)
    assert not made.is_settled
    assert made.context.isr_checks.take() == [TP]


def test_isr_is_checked_again_after_a_follower_moved() -> None:
    made = settled_leader()
    grow(made, 2)
    fetch(made, 1, 2)
    made.context.isr_checks.take()
    fetch(made, 2, 1)
    assert made.context.isr_checks.take() == [TP]
