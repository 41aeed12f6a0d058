"""AlterPartition: the table of its responses, and what each one commits."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.controller.broker_entry import Awaited, Dead
from strandline.controller.events import IsrChangeRequested
from strandline.controller.isr_changes import Commit, IsrChangeVerdict, ReadFirst, RespondNow, judge
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
)
from tests.support.world.values import entry, state, tp

from .test_elections import View, stored, view

AB, ABC, A = (entry(0), entry(1)), (entry(0), entry(1), entry(2)), (entry(0),)
FOUND = state(isr=AB, leader_epoch=4, partition_epoch=7)


def verdict(
    isr: tuple[IsrEntry, ...],
    *views: View,
    found: PartitionState | None = FOUND,
    broker_id: int = 0,
    broker_epoch: int = 1,
    leader_epoch: int = 4,
    partition_epoch: int = 7,
    read_since: bool = True,
) -> IsrChangeVerdict:
    request = IsrChangeRequested(
        session_id=1,
        request_id=1,
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(broker_epoch),
        tp=tp(),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=isr,
    )
    brokers = dict(views or (view(0), view(1), view(2)))
    return judge(
        request,
        stored(found),
        brokers,
        controller_epoch=ControllerEpoch(9),
        read_since_request=read_since,
    )


@pytest.mark.parametrize("isr", [ABC, A])
def test_expand_and_shrink_are_committed_with_the_next_partition_epoch(
    isr: tuple[IsrEntry, ...],
) -> None:
    found = verdict(isr)
    assert isinstance(found, Commit)
    assert not found.refusal
    assert found.state.isr == isr
    assert (found.state.leader_epoch, found.state.partition_epoch) == (4, 8)
    assert found.state.controller_epoch == 9


@pytest.mark.parametrize(
    "isr, views, reason",
    [
        (ABC, (view(0), view(1)), "joiner without session"),
        (ABC, (view(0), view(1), view(2, Awaited)), "joiner without session"),
        (ABC, (view(0), view(1), view(2, Dead)), "joiner without session"),
        (ABC, (view(0), view(1), view(2, leaving=True)), "joiner shutting down"),
        (ABC, (view(0), view(1), view(2, epoch=2)), "joiner of another broker epoch"),
        ((entry(0), entry(1), entry(2, 2)), (), "joiner of another broker epoch"),
        ((entry(0), entry(1, 2)), (), "joiner of another broker epoch"),
        ((entry(1),), (), "leader missing"),
        ((entry(0, 2), entry(1)), (view(0), view(1)), "leader missing"),
        ((entry(0), entry(7)), (), "not a set of replicas"),
        ((entry(0), entry(1), entry(1)), (), "not a set of replicas"),
        ((entry(0), entry(1), entry(1, 2)), (), "not a set of replicas"),
    ],
)
def test_refusal_commits_the_next_partition_epoch_with_the_isr_unchanged(
    isr: tuple[IsrEntry, ...], views: tuple[View, ...], reason: str
) -> None:
    if frozenset(isr) == frozenset(AB):
        return
    found = verdict(isr, *views)
    assert isinstance(found, Commit)
    assert found.refusal == reason
    assert found.state.isr == AB
    assert found.state.partition_epoch == 8


def test_member_that_restarted_clean_may_renew_its_entry() -> None:
    renewed = (entry(0), entry(1, 2))
    found = verdict(renewed, view(0), view(1, epoch=2), view(2))
    assert isinstance(found, Commit)
    assert not found.refusal
    assert found.state.isr == renewed


def test_shrink_is_allowed_while_another_member_is_dead() -> None:
    found = verdict(A, view(0), view(1, Dead))
    assert isinstance(found, Commit)
    assert not found.refusal


@pytest.mark.parametrize("partition_epoch", [5, 7])
def test_already_so_is_success_before_the_partition_epoch_is_compared(
    partition_epoch: int,
) -> None:
    found = verdict((entry(1), entry(0)), partition_epoch=partition_epoch)
    assert found == RespondNow(error=ErrorCode.NONE)


@pytest.mark.parametrize(
    "error, changes",
    [
        (ErrorCode.STALE_BROKER_EPOCH, {"broker_epoch": 0}),
        (ErrorCode.STALE_BROKER_EPOCH, {"broker_epoch": 2}),
        (ErrorCode.STALE_BROKER_EPOCH, {"broker_id": 8}),
        (ErrorCode.NOT_CONTROLLER, {"leader_epoch": 5}),
        (ErrorCode.NOT_CONTROLLER, {"partition_epoch": 8}),
        (ErrorCode.FENCED_LEADER_EPOCH, {"leader_epoch": 3}),
        (ErrorCode.INVALID_REQUEST, {"broker_id": 1}),
        (ErrorCode.INVALID_UPDATE_VERSION, {"partition_epoch": 6}),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"found": None}),
    ],
)
def test_refusals_that_commit_nothing(error: ErrorCode, changes: dict[str, Any]) -> None:
    assert verdict(ABC, **changes) == RespondNow(error=error)


@pytest.mark.parametrize("changes", [{"leader_epoch": 5}, {"partition_epoch": 8}, {"found": None}])
def test_requester_that_knows_more_causes_a_quorum_read_first(changes: dict[str, Any]) -> None:
    found = verdict(ABC, read_since=False, **changes)
    assert found == ReadFirst()
