"""The controller's requests are fenced, ordered, and on disk before they are applied."""

from __future__ import annotations

import pytest

from strandline.core.controller_request_queue import (
    ControllerRequestQueue,
    check_partition,
)
from strandline.core.effects import PersistedPartition, PersistState
from strandline.core.events import LiveBrokersChanged, StopReplicaReceived
from strandline.core.local_log import LocalLog
from strandline.core.marked_partitions import MarkedPartitions
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)

from .samples import NAME, OTHER_TP, TP, command, entries, hosted, leader_and_isr, state

ACCEPTED = PersistedPartition(
    topic_name=NAME,
    leader_epoch=LeaderEpoch(3),
    partition_epoch=PartitionEpoch(5),
    isr=entries(0, 1),
)


def queue() -> ControllerRequestQueue:
    return ControllerRequestQueue(
        broker_id=BrokerId(0),
        broker_epoch=BrokerEpoch(1),
        controller_epoch=ControllerEpoch(1),
        waiting_max=10,
    )


def stop(*partitions: TopicPartition) -> StopReplicaReceived:
    return StopReplicaReceived(
        request_id=1,
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        partitions=partitions,
    )


def announced(ce: int) -> LiveBrokersChanged:
    return LiveBrokersChanged(controller_epoch=ControllerEpoch(ce), brokers=())


@pytest.mark.parametrize(
    ("committed", "is_new", "error"),
    [
        (state(isr=entries(0, 1), le=3, pe=5), False, ErrorCode.NONE),
        (state(isr=entries(0, 1), le=3, pe=5), True, ErrorCode.NONE),  # its response was lost
        (state(isr=entries(0, 2), le=3, pe=5), False, ErrorCode.INVALID_UPDATE_VERSION),
        (state(isr=entries(0, 2), le=3, pe=5), True, ErrorCode.TOPIC_ALREADY_EXISTS),
        (state(le=0, pe=0), True, ErrorCode.TOPIC_ALREADY_EXISTS),
        (state(le=2, pe=6), False, ErrorCode.FENCED_LEADER_EPOCH),
        (state(le=3, pe=4), False, ErrorCode.INVALID_UPDATE_VERSION),
        (state(le=4, pe=5), False, ErrorCode.INVALID_UPDATE_VERSION),
        (state(le=3, pe=6), False, ErrorCode.NONE),
        (state(le=4, pe=6), False, ErrorCode.NONE),
    ],
)
def test_partition_is_checked_against_its_accepted_state(
    committed: PartitionState, error: ErrorCode, *, is_new: bool
) -> None:
    assert check_partition(ACCEPTED, command(committed, is_new=is_new)) is error


def test_unknown_partition_may_come() -> None:
    assert check_partition(None, command(state(le=9, pe=9), is_new=True)) is ErrorCode.NONE


def test_no_request_is_applied_before_it_is_written() -> None:
    work = queue()
    work.submit(leader_and_isr(command(state())))
    writes, ready = work.begin()
    assert ready == []
    assert isinstance(writes[0], PersistState)
    assert [tp for tp, _ in writes[0].partitions] == [TP]
    work.submit(leader_and_isr(command(state(le=1, pe=1))))
    assert work.begin() == ([], [])
    assert work.on_persisted(writes[0].token - 1) == []
    assert len(work.on_persisted(writes[0].token)) == 1
    assert work.on_persisted(writes[0].token) == []


def test_requests_that_queued_share_a_write_in_their_order() -> None:
    work = queue()
    work.submit(leader_and_isr(command(state())))
    first, _ = work.begin()
    work.submit(leader_and_isr(command(state(le=1, pe=1)), request_id=2))
    work.submit(
        leader_and_isr(command(state(le=2, pe=2)), command(state(), tp=OTHER_TP), request_id=3)
    )
    assert isinstance(first[0], PersistState)
    work.on_persisted(first[0].token)
    second, _ = work.begin()
    assert isinstance(second[0], PersistState)
    assert [(tp, each.leader_epoch) for tp, each in second[0].partitions] == [
        (TP, 2),
        (OTHER_TP, 0),
    ]
    ready = work.on_persisted(second[0].token)
    assert [each.request.request_id for each in ready if hasattr(each.request, "request_id")] == [
        2,
        3,
    ]


def test_repeated_request_needs_no_write() -> None:
    work = queue()
    work.load(hosted(le=3, pe=5), LocalLog.loaded(hosted(), MarkedPartitions()))
    work.submit(leader_and_isr(command(state(le=3, pe=5))))
    writes, ready = work.begin()
    assert writes == []
    assert ready[0].partition_errors == (ErrorCode.NONE,)


def test_deletion_does_not_share_a_write_with_what_follows() -> None:
    work = queue()
    work.load(hosted(), LocalLog.loaded(hosted(), MarkedPartitions()))
    work.submit(stop(TP))
    work.submit(leader_and_isr(command(state(le=9, pe=9), is_new=True)))
    writes, ready = work.begin()
    assert writes == []
    assert len(ready) == 1
    writes, ready = work.begin()
    assert len(writes) == 1
    assert ready == []


def test_a_replica_that_is_deleted_at_once_is_written_before_it_is_made() -> None:
    """Its folder is made with its state: the deletion behind it must not keep it from the disk."""
    one = queue()
    one.submit(leader_and_isr(command(state(), is_new=True)))
    one.submit(stop(TP))
    (write,), ready = one.begin()
    assert isinstance(write, PersistState)
    assert [tp for tp, _ in write.partitions] == [TP]
    assert ready == []
    assert len(one.on_persisted(write.token)) == 2


def test_epoch_in_the_log_counts_as_accepted() -> None:
    work = queue()
    found = hosted(5, le=1, pe=1, epochs="0@0 4@2")
    assert work.load(found, LocalLog.loaded(found, MarkedPartitions())) == 4
    work.submit(leader_and_isr(command(state(le=3, pe=9))))
    assert work.begin()[1][0].partition_errors == (ErrorCode.FENCED_LEADER_EPOCH,)


def test_partition_that_is_not_assigned_here_is_not_written() -> None:
    work = queue()
    work.submit(leader_and_isr(command(state(leader=1, replicas=(1, 2)))))
    writes, ready = work.begin()
    assert writes == []
    assert ready[0].partition_errors == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)


def test_controller_epoch_is_written_before_its_request_is_applied() -> None:
    work = queue()
    work.submit(announced(4))
    writes, ready = work.begin()
    assert ready == []
    assert isinstance(writes[0], PersistState)
    assert (writes[0].controller_epoch, writes[0].partitions) == (4, ())
    work.submit(announced(3))
    assert len(work.on_persisted(writes[0].token)) == 1
    assert work.begin()[1][0].error is ErrorCode.STALE_CONTROLLER_EPOCH


def test_only_the_last_waiting_announcement_counts() -> None:
    work = queue()
    work.submit(leader_and_isr(command(state())))
    work.begin()
    for ce in (1, 2, 3):
        work.submit(announced(ce))
    assert len(work.abandon()) == 2


def test_adopted_state_is_written_unless_it_is_old_or_the_partition_gone() -> None:
    work = queue()
    work.load(hosted(pe=5), LocalLog.loaded(hosted(), MarkedPartitions()))
    work.submit_adopted(TP, NAME, state(pe=6))
    writes, ready = work.begin()
    assert ready == []
    assert isinstance(writes[0], PersistState)
    assert work.on_persisted(writes[0].token) == []
    work.submit_adopted(TP, NAME, state(pe=6))
    work.submit_adopted(OTHER_TP, NAME, state(pe=6))
    assert work.begin() == ([], [])


def test_abandoned_requests_are_handed_back_without_adopted_states() -> None:
    work = queue()
    work.submit(leader_and_isr(command(state())))
    work.begin()
    work.submit_adopted(TP, NAME, state(pe=6))
    work.submit(stop(TP))
    assert [type(each).__name__ for each in work.abandon()] == [
        "LeaderAndIsrReceived",
        "StopReplicaReceived",
    ]
    assert work.begin() == ([], [])
