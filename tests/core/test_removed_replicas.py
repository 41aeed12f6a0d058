"""A replica that a move removed: its log goes, and no late command takes that back (ADR 0057)."""

from __future__ import annotations

import pytest

from strandline.core import controller_request_queue
from strandline.core.controller_request_queue import CheckedRequest, ControllerRequestQueue
from strandline.core.effects import PersistState
from strandline.core.events import LeaderAndIsrReceived, StopReplicaReceived
from strandline.errors import ErrorCode
from strandline.model import (
    TOPIC_DELETED,
    BrokerEpoch,
    ControllerEpoch,
    PartitionEpoch,
    TopicPartition,
)

from .samples import OTHER_TP, TP, command, leader_and_isr, state
from .test_controller_request_queue import queue


def stop(
    removed_at: int, *, tp: TopicPartition = TP, controller_epoch: int = 1
) -> StopReplicaReceived:
    return StopReplicaReceived(
        request_id=1,
        controller_epoch=ControllerEpoch(controller_epoch),
        broker_epoch=BrokerEpoch(1),
        partitions=(tp,),
        removed_at=PartitionEpoch(removed_at),
    )


def taken(
    work: ControllerRequestQueue, request: LeaderAndIsrReceived | StopReplicaReceived
) -> ErrorCode:
    """Let a request through the queue; return the error of its one partition."""
    work.submit(request)
    writes, ready = work.begin()
    checked: list[CheckedRequest] = list(ready)
    for write in writes:
        assert isinstance(write, PersistState)
        checked += work.on_persisted(write.token)
    ((error,),) = (each.partition_errors for each in checked)
    return error


def led(pe: int, *, controller_epoch: int = 1) -> LeaderAndIsrReceived:
    return leader_and_isr(command(state(le=0, pe=pe)), ce=controller_epoch)


def test_a_replica_goes_unless_a_state_after_its_removal_was_accepted() -> None:
    work = queue()
    assert taken(work, led(5)) is ErrorCode.NONE
    assert taken(work, stop(4)) is ErrorCode.INVALID_UPDATE_VERSION
    assert taken(work, stop(5)) is ErrorCode.NONE
    assert taken(work, stop(5)) is ErrorCode.NONE, "a late copy finds nothing"


def test_a_late_state_of_before_the_removal_brings_nothing_back() -> None:
    work = queue()
    taken(work, led(5))
    taken(work, stop(7))
    assert taken(work, led(6)) is ErrorCode.INVALID_UPDATE_VERSION
    assert taken(work, led(7)) is ErrorCode.INVALID_UPDATE_VERSION
    assert taken(work, led(8)) is ErrorCode.NONE, "it is a replica again"


def test_a_later_controller_begins_anew_and_a_deleted_topic_ends_the_refusals() -> None:
    work = queue()
    taken(work, stop(7))
    assert taken(work, led(6, controller_epoch=2)) is ErrorCode.NONE
    work = queue()
    taken(work, stop(7))
    assert taken(work, stop(TOPIC_DELETED)) is ErrorCode.NONE
    assert taken(work, led(0)) is ErrorCode.NONE, "the topic was adopted again"


def test_so_many_removed_replicas_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_request_queue, "REMOVED_REPLICAS_MAX", 1)
    work = queue()
    taken(work, stop(7))
    taken(work, stop(7, tp=OTHER_TP))
    assert taken(work, led(6)) is ErrorCode.NONE
