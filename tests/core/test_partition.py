"""How a replica changes its role, and which leadership it refuses."""

from __future__ import annotations

import pytest

from strandline.core.follower import FollowerReplica
from strandline.core.leader import LeaderReplica
from strandline.core.new_leader import become_leader
from strandline.core.notices import BecameFollower, BecameLeader, ReplicaFailed
from strandline.core.partition import IDLE, Failed, Partition
from strandline.errors import ErrorCode, InvariantViolation
from strandline.model import IsrEntry, LeaderEpoch

from .samples import TP, context, entries, entry, log, of_type, state


def partition(*, floor: int = -1) -> Partition:
    return Partition(
        log=log(5, epochs="0@0"), context=context(1, 2), fenced_leader_epoch=LeaderEpoch(floor)
    )


def test_named_leader_leads_from_its_log_end() -> None:
    mine = partition()
    error, effects = mine.on_committed_state(state(le=1), 0)
    assert error is ErrorCode.NONE
    assert isinstance(mine.role, LeaderReplica)
    became = of_type(effects, BecameLeader)[0]
    assert isinstance(became, BecameLeader)
    assert (became.leader_epoch, became.start_offset) == (1, 5)


def test_re_elected_leader_forgets_what_its_followers_had() -> None:
    mine = partition()
    mine.on_committed_state(state(le=1), 0)
    former = mine.role
    mine.on_committed_state(state(le=2, pe=1), 0)
    assert isinstance(mine.role, LeaderReplica)
    assert mine.role is not former
    assert all(each.last_fetch_ms is None for each in mine.role.followers.values())


@pytest.mark.parametrize(
    ("own", "floor"), [(entry(0, 0), -1), (entry(0, 2), -1), (entry(0, 1), 1), (entry(2), -1)]
)
def test_leadership_for_another_incarnation_is_refused(own: IsrEntry, floor: int) -> None:
    mine = partition(floor=floor)
    error, effects = mine.on_committed_state(state(isr=(own,), le=1), 0)
    assert error is ErrorCode.STALE_BROKER_EPOCH
    assert isinstance(mine.role, FollowerReplica)
    assert mine.role.fenced
    assert of_type(effects, BecameFollower)
    # Neither again, nor under the same epoch with another entry.
    assert mine.on_committed_state(state(isr=(own,), le=1), 0) == (error, [])
    assert mine.on_committed_state(state(le=1, pe=1), 0)[0] is error
    assert mine.on_committed_state(state(le=2, pe=2), 0)[0] is ErrorCode.NONE


def test_same_leadership_is_continued_not_begun_again() -> None:
    mine = partition()
    mine.on_committed_state(state(le=1), 0)
    leader = mine.role
    assert mine.on_committed_state(state(le=1, pe=1, isr=entries(0, 1)), 0)[0] is ErrorCode.NONE
    assert mine.role is leader
    assert mine.state == state(le=1, pe=1, isr=entries(0, 1))
    mine.on_committed_state(state(leader=1, le=2, pe=2), 0)
    follower = mine.role
    assert mine.on_committed_state(state(leader=1, le=2, pe=3, isr=entries(1)), 0) == (
        ErrorCode.NONE,
        [],
    )
    assert mine.role is follower


def test_leader_changes_with_its_epoch_or_not_at_all() -> None:
    mine = partition()
    mine.on_committed_state(state(le=1), 0)
    assert (
        mine.on_committed_state(state(leader=1, le=1, pe=1), 0)[0]
        is ErrorCode.INVALID_UPDATE_VERSION
    )
    assert isinstance(mine.role, LeaderReplica)


def test_leader_whose_entry_is_replaced_leads_no_longer() -> None:
    mine = partition()
    mine.on_committed_state(state(le=1), 0)
    error, _ = mine.on_committed_state(state(le=1, pe=1, isr=(entry(0, 9),)), 0)
    assert error is ErrorCode.STALE_BROKER_EPOCH
    assert isinstance(mine.role, FollowerReplica)


def test_replica_that_is_assigned_no_more_is_idle() -> None:
    mine = partition()
    mine.on_committed_state(state(leader=1, le=1), 0)
    error, effects = mine.on_committed_state(state(leader=1, le=2, pe=1, replicas=(1, 2)), 0)
    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mine.role is IDLE
    assert of_type(effects, BecameFollower)
    assert mine.on_committed_state(state(leader=1, le=2, pe=1, replicas=(1, 2)), 0) == (error, [])


def test_failed_replica_applies_no_state() -> None:
    mine = partition()
    assert mine.fail("full") == [ReplicaFailed(tp=TP, reason="full")]
    assert mine.on_committed_state(state(le=1), 0) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert mine.role == Failed(reason="full")


def test_leader_without_its_own_entry_stops_the_broker() -> None:
    with pytest.raises(InvariantViolation):
        become_leader(log(), state(isr=entries(1)), context(), 0)
