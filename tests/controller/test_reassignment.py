"""Tables of the steps of a move: each permission beside its refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.broker_entry import Awaited, Dead
from strandline.controller.election_input import ElectionInput
from strandline.controller.reassignment import is_copying, next_step
from strandline.controller.rebuild import REPLICAS_MAX
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    PartitionState,
    StoredPartition,
)
from tests.support.world.values import entry, state, topic, tp

from .test_elections import View, view

ALL = tuple(view(each) for each in range(10))
AT_REST = state(replicas=(0, 1, 2))
MOVING = state(replicas=(3, 4, 5, 0, 1, 2), adding=(3, 4, 5), removing=(0, 1, 2))


def isr(*brokers: int) -> dict[str, object]:
    return {"isr": tuple(entry(each) for each in brokers)}


def wanted(found: PartitionState | None, *replicas: int) -> StoredPartition:
    return StoredPartition(
        name="orders-0",
        resource_version="1",
        tp=tp(),
        topic_name="orders",
        assigned=tuple(map(BrokerId, replicas)),
        recover=False,
        state=found,
    )


def step(
    found: PartitionState | None,
    replicas: tuple[int, ...],
    *views: View,
    may_copy: bool = True,
    min_isr: int = 2,
) -> PartitionState | None:
    """Return the next state; views replace those of ten brokers in session."""
    inputs = ElectionInput(
        brokers={**dict(ALL), **dict(views)},
        topic=topic(min_isr=min_isr),
        hosted={},
        controller_epoch=ControllerEpoch(9),
    )
    decision = next_step(wanted(found, *replicas), inputs, may_copy=lambda: may_copy)
    return None if decision is None else decision.state


def shape(found: PartitionState | None) -> tuple[tuple[int, ...], ...] | None:
    """Return replicas, those added and those removed."""
    if found is None:
        return None
    return found.replicas, found.adding_replicas, found.removing_replicas


# --- Begin --------------------------------------------------------------------------------


def test_a_move_begins_with_the_wanted_replicas_first_and_the_isr_as_it_was() -> None:
    begun = step(AT_REST, (3, 4, 5))
    assert shape(begun) == ((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2))
    assert begun is not None
    assert (begun.isr, begun.leader, begun.leader_epoch) == (AT_REST.isr, 0, AT_REST.leader_epoch)
    assert begun.partition_epoch == AT_REST.partition_epoch + 1
    assert begun.controller_epoch == 9


def test_a_partition_at_rest_where_it_shall_be_is_left_alone() -> None:
    assert step(AT_REST, (0, 1, 2)) is None


@pytest.mark.parametrize(
    ("found", "views", "may_copy"),
    [
        (AT_REST, [view(3, Awaited)], True),
        (AT_REST, [view(3, Dead)], True),
        (AT_REST, [view(3, leaving=True)], True),
        (AT_REST, [view(3, full=True)], True),
        (AT_REST, [], False),
        (replace(AT_REST, leader=NO_LEADER, isr=()), [], True),
        (replace(AT_REST, leader=NO_LEADER, isr=(), reason=STATE_LOST), [], True),
        (AT_REST, [view(0, Dead)], True),
    ],
    ids=["awaited", "dead", "leaving", "full", "no place", "no leader", "lost", "leader dead"],
)
def test_a_move_waits_for_the_added_brokers_a_place_and_a_leader(
    found: PartitionState, views: list[View], may_copy: bool
) -> None:
    assert step(found, (3, 1, 2), *views, may_copy=may_copy) is None
    assert step(None, (3, 1, 2)) is None


def test_a_move_that_adds_nothing_needs_no_place() -> None:
    finished = step(AT_REST, (2, 0), may_copy=False)
    assert shape(finished) == ((2, 0), (), ())


def test_a_partition_has_so_many_replicas_and_no_more() -> None:
    many = replace(
        state(replicas=tuple(range(10, 10 + REPLICAS_MAX - 1)), leader=10, **isr(10)),  # type: ignore[arg-type]  # values by name
        min_insync_replicas=1,
    )
    present = view(10)
    assert shape(step(many, (0, 1), present, min_isr=1)) is None
    begun = step(many, (0,), present, min_isr=1)
    assert begun is not None
    assert len(begun.replicas) == REPLICAS_MAX


# --- Finish -------------------------------------------------------------------------------


def moving(*members: int, leader: int = 0, **changes: object) -> PartitionState:
    isr_entries = tuple(entry(each) for each in members)
    return replace(MOVING, isr=isr_entries, leader=BrokerId(leader), **changes)  # type: ignore[arg-type]  # values by name


def test_the_last_write_names_the_wanted_replicas_and_elects_the_first_of_them() -> None:
    done = step(moving(0, 1, 2, 3, 4, 5), (3, 4, 5))
    assert shape(done) == ((3, 4, 5), (), ())
    assert done is not None
    assert (done.leader, done.leader_epoch) == (3, MOVING.leader_epoch + 1)
    assert done.isr_ids == (3, 4, 5)


def test_a_wanted_leader_stays_under_a_higher_epoch_when_others_are_removed() -> None:
    done = step(moving(0, 1, 2, 3, 4, 5, leader=4), (3, 4, 5))
    assert done is not None
    assert (done.leader, done.leader_epoch) == (4, MOVING.leader_epoch + 1)


def test_the_kind_of_the_election_is_told_when_the_leader_changes() -> None:
    for leader, kind in ((0, ElectionKind.REASSIGNMENT), (4, None)):
        inputs = ElectionInput(
            brokers=dict(ALL), topic=topic(), hosted={}, controller_epoch=ControllerEpoch(9)
        )
        found = wanted(moving(0, 1, 2, 3, 4, 5, leader=leader), 3, 4, 5)
        decision = next_step(found, inputs, may_copy=lambda: True)
        assert decision is not None
        assert decision.kind is kind


@pytest.mark.parametrize(
    ("found", "replicas", "views"),
    [
        (moving(0, 1, 2, 3, 4), (3, 4, 5), []),
        (moving(0, 1, 2, 3, 4, 5), (3, 4, 5), [view(5, Awaited)]),
        (moving(0, 1, 2, 3, 4, 5), (3, 4, 5), [view(5, epoch=2, clean=2)]),
        (state(replicas=(0, 1, 2), removing=(2,), leader=0, isr=(entry(0),)), (0, 1), []),
        (state(replicas=(0, 2, 1), removing=(1,), isr=(entry(0), entry(1))), (0, 2), []),
    ],
    ids=["one not in sync", "one without session", "one lost data", "under min ISR", "fewer"],
)
def test_a_move_does_not_finish_while_too_few_wanted_replicas_are_in_sync(
    found: PartitionState, replicas: tuple[int, ...], views: list[View]
) -> None:
    assert step(found, replicas, *views) is None


def test_a_wanted_replica_that_is_away_holds_up_no_move_that_takes_nothing_away() -> None:
    found = state(
        replicas=(3, 1, 2, 0), adding=(3,), removing=(0,), isr=(entry(0), entry(1), entry(3))
    )
    done = step(found, (3, 1, 2), view(2, Dead))
    assert shape(done) == ((3, 1, 2), (), ())


def test_an_eligible_leader_is_not_removed_while_it_is_one() -> None:
    found = state(replicas=(0, 1, 2), removing=(2,), isr=(entry(0),), elr=(entry(2),))
    assert step(found, (0, 1)) is None


def test_another_order_alone_is_one_write_without_a_new_leader_epoch() -> None:
    done = step(AT_REST, (2, 1, 0))
    assert shape(done) == ((2, 1, 0), (), ())
    assert done is not None
    assert (done.leader, done.leader_epoch, done.isr) == (0, AT_REST.leader_epoch, AT_REST.isr)


def test_min_isr_follows_the_number_of_replicas_when_the_move_ends() -> None:
    begun = step(state(replicas=(0, 1), isr=(entry(0), entry(1))), (0, 1, 2), min_isr=3)
    assert begun is not None
    assert (shape(begun), begun.min_insync_replicas) == (((0, 1, 2), (2,), ()), 2)
    joined = replace(begun, isr=(entry(0), entry(1), entry(2)))
    done = step(joined, (0, 1, 2), min_isr=3)
    assert done is not None
    assert (shape(done), done.min_insync_replicas) == (((0, 1, 2), (), ()), 3)
    assert done.leader_epoch == begun.leader_epoch


# --- Withdraw and change ------------------------------------------------------------------


@pytest.mark.parametrize("members", [(0, 1, 2), (0, 1, 2, 3, 4)])
def test_a_cancelled_move_is_one_write(members: tuple[int, ...]) -> None:
    done = step(moving(*members), (0, 1, 2))
    assert shape(done) == ((0, 1, 2), (), ())
    assert done is not None
    assert done.isr_ids == (0, 1, 2)
    assert done.leader_epoch == MOVING.leader_epoch + 1


def test_a_cancelled_move_gives_the_leadership_back() -> None:
    done = step(moving(0, 1, 2, 3, leader=3), (0, 1, 2))
    assert done is not None
    assert (done.leader, done.isr_ids) == (0, (0, 1, 2))


def test_a_cancelled_move_keeps_what_min_isr_needs_and_lets_the_others_go() -> None:
    found = moving(0, 3)
    kept = step(found, (0, 1, 2), view(1, Dead), view(2, Dead))
    assert shape(kept) == ((0, 1, 2, 3), (3,), (3,))
    assert kept is not None
    assert kept.leader_epoch == MOVING.leader_epoch + 1
    back = replace(kept, isr=(entry(0), entry(3), entry(1)))
    assert shape(step(back, (0, 1, 2), view(2, Dead))) == ((0, 1, 2), (), ())


def test_another_target_takes_the_place_of_the_former_one() -> None:
    changed = step(moving(0, 1, 2, 3), (3, 6, 7))
    assert shape(changed) == ((3, 6, 7, 0, 1, 2), (3, 6, 7), (0, 1, 2))


def test_a_target_that_can_not_begin_still_ends_the_former_one() -> None:
    withdrawn = step(moving(0, 1, 2, 3), (6, 7, 8), view(6, Dead))
    assert shape(withdrawn) == ((0, 1, 2), (), ())


def test_a_target_that_can_not_begin_keeps_what_min_isr_needs_and_removes_not_all() -> None:
    found = state(
        replicas=(1, 3, 0), adding=(1, 0), removing=(3, 0), isr=(entry(3), entry(0)), min_isr=2
    )
    withdrawn = step(found, (6, 7), view(6, Dead), view(3, Awaited))
    assert shape(withdrawn) == ((3, 0), (0,), ())


def test_a_move_copies_while_an_added_broker_in_session_is_not_in_sync() -> None:
    brokers = dict(ALL)
    assert is_copying(moving(0, 1, 2, 3), brokers)
    assert not is_copying(moving(0, 1, 2, 3, 4, 5), brokers)
    assert not is_copying(AT_REST, brokers)
    away = {**brokers, **dict([view(4, Dead), view(5, Awaited)])}
    assert not is_copying(moving(0, 1, 2, 3), away)
