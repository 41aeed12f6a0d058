"""`Replicas.step`: time, views, the state file, and late responses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.core.effects import (
    AppendAsFollower,
    CreateReplica,
    Effect,
    PersistState,
    ProposeIsr,
    ReplyLeaderAndIsr,
    ReplyStopReplica,
    SendFetch,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import (
    AlterPartitionResponseReceived,
    FetchedPartition,
    FetchResponseReceived,
    LogDirectoryLost,
    ReplicaLoaded,
    StatePersisted,
    StopReplicaReceived,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.core.settings import CoreSettings
from strandline.core.views import RoleName
from strandline.errors import ErrorCode, InvariantViolation
from strandline.model import (
    UNKNOWN_EPOCH_END,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    TopicSettings,
)

from .samples import (
    NAME,
    OTHER_TP,
    SETTINGS,
    TP,
    Core,
    batch,
    command,
    entries,
    fetch,
    fetched,
    hosted,
    ids,
    leader_and_isr,
    of_type,
    produced,
    state,
)


def new_replicas(settings: CoreSettings = SETTINGS) -> Replicas:
    return Replicas(BrokerId(0), BrokerEpoch(1), BrokerEpoch(1), settings)


def stop(tp: TopicPartition) -> StopReplicaReceived:
    return StopReplicaReceived(
        request_id=2,
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        partitions=(tp,),
    )


def test_log_cannot_be_clean_since_a_later_epoch() -> None:
    with pytest.raises(InvariantViolation):
        Replicas(BrokerId(0), BrokerEpoch(1), BrokerEpoch(2), SETTINGS)


def test_time_that_falls_stops_the_broker() -> None:
    replicas = new_replicas()
    replicas.step(Ticked(), 10)
    with pytest.raises(InvariantViolation):
        replicas.step(Ticked(), 9)


def test_nothing_waits_for_time_without_replicas() -> None:
    replicas = new_replicas()
    assert replicas.step(Ticked(), 0) == []
    assert replicas.next_wakeup_ms is None


def test_replica_from_disk_is_idle_until_its_first_state() -> None:
    core = Core()
    core.step(ReplicaLoaded(hosted=hosted(5, le=2, pe=3)))
    view = core.replicas.view(TP)
    assert view is not None
    assert (view.role, view.leader_epoch, view.log_end_offset) == (RoleName.IDLE, -1, 5)
    core.send_state(state(leader=1, le=3, pe=4))
    assert [each.role for each in core.replicas.views()] == [RoleName.FOLLOWER]


def test_a_replica_comes_back_while_the_broker_runs_but_not_twice_and_not_on_a_lost_disk() -> None:
    core = Core()
    core.send_state(state())
    back = replace(hosted(5, le=2, pe=-1), tp=OTHER_TP)
    core.step(ReplicaLoaded(hosted=back))
    view = core.replicas.view(OTHER_TP)
    assert view is not None
    assert (view.role, view.log_end_offset) == (RoleName.IDLE, 5)
    with pytest.raises(InvariantViolation, match="loaded once"):
        core.step(ReplicaLoaded(hosted=back))
    core.step(LogDirectoryLost(reason="broken"))
    core.step(ReplicaLoaded(hosted=replace(back, tp=OTHER_TP._replace(partition=9))))
    assert len(core.replicas.views()) == 2


def test_views_show_what_a_leader_knows() -> None:
    core = Core()
    core.send_state(state(isr=entries(0, 1), min_isr=2))
    core.step(fetched(1, fetch(0)))
    core.step(produced(1, 2))
    view = core.replicas.view(TP)
    assert view is not None
    assert (view.role, view.leader, view.min_insync_replicas) == (RoleName.LEADER, 0, 2)
    assert view.maximal_isr == ids(0, 1)
    assert [each.broker_id for each in view.followers] == [1, 2]
    read = core.replicas.consumer_reads.read(
        TP, fetch_offset=0, leader_epoch=None, last_fetched_epoch=None
    )
    assert (read.error, read.up_to_offset) == (ErrorCode.NONE, 0)
    assert core.replicas.consumer_reads.list_offset(TP, -1, None) == (ErrorCode.NONE, 0, 0)
    assert (
        core.replicas.consumer_reads.end_offset_for_epoch(TP, LeaderEpoch(0), None)[1].end_offset
        == 2
    )
    assert core.replicas.consumer_reads.end_offset_for_epoch(OTHER_TP, LeaderEpoch(0), None) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        UNKNOWN_EPOCH_END,
    )
    assert core.replicas.view(OTHER_TP) is None
    assert core.replicas.controller_epoch == 1


def test_high_watermarks_are_written_when_they_changed() -> None:
    core = Core()
    core.send_state(state(isr=entries(0)))
    interval_ms = SETTINGS.high_watermark_checkpoint_interval_ms
    first = core.step(Ticked(), after_ms=interval_ms)
    assert of_type(first, WriteHighWatermarkCheckpoint) == [
        WriteHighWatermarkCheckpoint(high_watermarks=((TP, 0),))
    ]
    assert of_type(core.step(Ticked(), after_ms=interval_ms), WriteHighWatermarkCheckpoint) == []
    core.step(produced(1, 2))
    later = core.step(Ticked(), after_ms=interval_ms)
    assert of_type(later, WriteHighWatermarkCheckpoint) == [
        WriteHighWatermarkCheckpoint(high_watermarks=((TP, 2),))
    ]


def test_a_checkpoint_lacks_replicas_that_are_gone_and_looks_at_moved_ones_alone() -> None:
    core = Core()
    both = leader_and_isr(command(state(isr=entries(0))), command(state(), tp=OTHER_TP))
    core.step(both)
    interval_ms = SETTINGS.high_watermark_checkpoint_interval_ms
    (first,) = of_type(core.step(Ticked(), after_ms=interval_ms), WriteHighWatermarkCheckpoint)
    assert first == WriteHighWatermarkCheckpoint(high_watermarks=((TP, 0), (OTHER_TP, 0)))
    core.step(produced(1, 2))
    assert core.replicas._context.moved_high_watermarks.take() == [TP]
    core.replicas._context.moved_high_watermarks.mark(TP)
    core.step(stop(OTHER_TP))
    (later,) = of_type(core.step(Ticked(), after_ms=interval_ms), WriteHighWatermarkCheckpoint)
    assert later == WriteHighWatermarkCheckpoint(high_watermarks=((TP, 2),))


def test_lost_log_directory_writes_no_checkpoint_and_refuses_requests() -> None:
    core = Core()
    core.send_state(state(isr=entries(0)))
    core.step(LogDirectoryLost(reason="gone"))
    assert core.replicas.high_watermarks() == ()
    assert of_type(core.step(Ticked(), after_ms=60_000), WriteHighWatermarkCheckpoint) == []
    view = core.replicas.view(TP)
    assert view is not None
    assert view.role is RoleName.FAILED
    (response,) = core.send_state(state(pe=1))
    assert isinstance(response, ReplyLeaderAndIsr)
    assert response.error is ErrorCode.KAFKA_STORAGE_ERROR


def test_controller_requests_that_wait_for_a_lost_state_file_are_refused() -> None:
    replicas = new_replicas()
    replicas.step(leader_and_isr(command(state())), 0)
    replicas.step(stop(TP), 0)
    effects = replicas.step(LogDirectoryLost(reason="gone"), 0)
    assert [type(each) for each in effects] == [ReplyLeaderAndIsr, ReplyStopReplica]
    assert replicas.step(StatePersisted(token=1), 0) == []


def test_too_many_waiting_controller_requests_are_refused() -> None:
    replicas = new_replicas(replace(SETTINGS, controller_requests_waiting_max=1))
    replicas.step(leader_and_isr(command(state())), 0)
    assert replicas.step(leader_and_isr(command(state(le=1, pe=1)), request_id=2), 0) == []
    (response,) = replicas.step(leader_and_isr(command(state(le=2, pe=2)), request_id=3), 0)
    assert isinstance(response, ReplyLeaderAndIsr)
    assert (response.request_id, response.error) == (3, ErrorCode.REQUEST_TIMED_OUT)


def test_state_is_written_before_the_role_changes() -> None:
    replicas = new_replicas()
    writes = [
        each
        for each in replicas.step(leader_and_isr(command(state()), ce=5), 0)
        if isinstance(each, PersistState)
    ]
    assert [(each.controller_epoch, len(each.partitions)) for each in writes] == [(5, 1)]
    assert replicas.view(TP) is None
    effects = replicas.step(StatePersisted(token=writes[0].token), 0)
    assert isinstance(effects[0], CreateReplica)
    assert isinstance(effects[-1], ReplyLeaderAndIsr)


def test_changed_settings_reach_the_log() -> None:
    core = Core()
    core.send_state(state())
    changed = TopicSettings(segment_bytes=4096)
    effects = core.step(leader_and_isr(command(state(pe=1), settings=changed)))
    assert of_type(effects, CreateReplica) == [
        CreateReplica(tp=TP, topic_name=NAME, settings=changed)
    ]
    assert (
        of_type(core.step(leader_and_isr(command(state(pe=2), settings=changed))), CreateReplica)
        == []
    )


def fetch_response(
    request_id: int, *partitions: FetchedPartition, leader: int = 1
) -> FetchResponseReceived:
    return FetchResponseReceived(
        request_id=request_id, leader=BrokerId(leader), partitions=partitions
    )


def records(offset: int, *, tp: TopicPartition = TP, le: int = 0) -> FetchedPartition:
    return FetchedPartition(
        tp=tp,
        error=ErrorCode.NONE,
        high_watermark=0,
        log_start_offset=0,
        batches=(batch(offset, offset + 1, le),),
    )


def sent(effects: list[Effect]) -> SendFetch:
    (only,) = [each for each in effects if isinstance(each, SendFetch)]
    return only


def test_time_leaves_settled_leaders_alone_and_takes_out_who_lags_later() -> None:
    core = Core()
    core.send_state(state())
    core.step(fetched(1, fetch(0)))
    core.step(fetched(2, fetch(0)))
    period_ms = SETTINGS.replica_lag_time_max_ms // 2
    core.step(Ticked(), after_ms=period_ms)
    assert core.replicas._context.isr_checks.take() == []
    core.step(produced(1))
    assert of_type(core.step(Ticked(), after_ms=period_ms), ProposeIsr) == []
    (proposal,) = of_type(core.step(Ticked(), after_ms=period_ms), ProposeIsr)
    assert isinstance(proposal, ProposeIsr)
    assert proposal.isr == entries(0)


def test_records_are_taken_once_and_the_partition_goes_to_the_back() -> None:
    core = Core()
    both = leader_and_isr(command(state(leader=1)), command(state(leader=1), tp=OTHER_TP))
    ask = sent(core.step(both))
    effects = core.step(fetch_response(ask.request_id, records(0)))
    assert len(of_type(effects, AppendAsFollower)) == 1
    again = sent(effects)
    assert [each.tp for each in again.partitions] == [OTHER_TP, TP]
    assert core.step(fetch_response(ask.request_id, records(0))) == []


@pytest.mark.parametrize("leader", [1, 2])
def test_response_to_an_earlier_leadership_is_dropped(leader: int) -> None:
    core = Core()
    ask = sent(core.send_state(state(leader=1)))
    core.send_state(state(leader=leader, le=1, pe=1))
    assert core.step(fetch_response(ask.request_id, records(0))) == []


def test_response_about_a_partition_not_requested_is_dropped() -> None:
    core = Core()
    ask = sent(core.send_state(state(leader=1)))
    effects = core.step(fetch_response(ask.request_id, records(0, tp=OTHER_TP)))
    assert of_type(effects, AppendAsFollower) == []


def test_proposal_is_sent_again_until_a_later_state_is_known() -> None:
    core = Core(replace(SETTINGS, isr_request_timeout_ms=100))
    core.send_state(state(isr=entries(0)))
    (ask,) = of_type(core.step(fetched(1, fetch(0))), ProposeIsr)
    assert core.replicas.next_wakeup_ms == 100
    assert of_type(core.step(Ticked(), after_ms=99), ProposeIsr) == []
    (again,) = of_type(core.step(Ticked(), after_ms=1), ProposeIsr)
    assert isinstance(ask, ProposeIsr)
    assert isinstance(again, ProposeIsr)
    accepted = AlterPartitionResponseReceived(
        request_id=ask.request_id,
        tp=TP,
        error=ErrorCode.NONE,
        stored=state(pe=1, isr=entries(0, 1)),
    )
    effects = core.step(accepted)
    assert len(of_type(effects, PersistState)) == 1
    assert of_type(core.step(Ticked(), after_ms=500), ProposeIsr) == []
    assert core.step(accepted) == []


def test_response_for_a_partition_not_led_here_is_ignored() -> None:
    core = Core()
    core.send_state(state(leader=1))
    for tp in (TP, OTHER_TP):
        event = AlterPartitionResponseReceived(
            request_id=1, tp=tp, error=ErrorCode.NONE, stored=state(pe=9)
        )
        assert core.step(event) == []


def test_retry_of_a_former_leader_finds_nothing_to_do() -> None:
    core = Core(replace(SETTINGS, isr_request_timeout_ms=100))
    core.send_state(state(isr=entries(0)))
    core.step(fetched(1, fetch(0)))
    core.send_state(state(leader=1, le=1, pe=1))
    assert of_type(core.step(Ticked(), after_ms=100), ProposeIsr) == []


def test_response_to_a_fetch_from_another_log_end_is_dropped() -> None:
    core = Core()
    ask = sent(core.send_state(state(leader=1)))
    core.replicas._partitions[TP].log.restart_at(3, leader_epoch=LeaderEpoch(0), reason="why")
    assert of_type(core.step(fetch_response(ask.request_id, records(3))), AppendAsFollower) == []
