"""Elections, ISR changes, propagation and shutdowns of an active controller."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from strandline.controller.effects import (
    ReadStoredPartition,
    ReplyAlterPartition,
    ReplyControlledShutdown,
    SendLeaderAndIsr,
    SendUpdateMetadata,
    WritePartitionStatus,
)
from strandline.controller.events import (
    BrokerResponseReceived,
    HostedReplica,
    HostedReported,
    IsrChangeRequested,
    ProbeVerdict,
    ShutdownRequested,
    StopRequested,
)
from strandline.controller.notices import (
    BrokerDead,
    ControllerResigned,
    LeaderElected,
    PartitionBegunAnew,
    StoreConflicted,
)
from strandline.controller.store_events import PartitionDeleted, PartitionObserved
from strandline.errors import ErrorCode
from strandline.model import (
    STATE_LOST,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    Recovery,
)
from tests.support.counted_calls import calls_of
from tests.support.world.network import Mode
from tests.support.world.setups import three_brokers, with_active_controller
from tests.support.world.values import entry, replica, state, topic, tp
from tests.support.world.world import World

AB, ABC, A = (entry(0), entry(1)), (entry(0), entry(1), entry(2)), (entry(0),)


def last_response(world: World, node: int = 0) -> ReplyAlterPartition:
    return world.alter_responses(node)[-1]


def test_new_partitions_wait_for_their_brokers_and_are_sent_as_new() -> None:
    world = with_active_controller(None, nodes=(0,), partitions=2, sessions=(0, 1))
    assert world.store.status_writes == []
    world.hello(2, 0)
    assert [world.state(n).isr_ids for n in (0, 1)] == [(0, 1, 2)] * 2
    commands = world.nodes[0].sent(SendLeaderAndIsr)
    assert {(c.broker_id, c.partitions[0].is_new) for c in commands} == {
        (0, True),
        (1, True),
        (2, True),
    }
    kinds = {notice.kind for notice in world.nodes[0].sent(LeaderElected)}
    assert kinds == {ElectionKind.NEW}


def test_new_partition_goes_on_without_a_broker_that_does_not_come() -> None:
    world = with_active_controller(None, nodes=(0,), sessions=(0, 1))
    world.probes[2] = ProbeVerdict.NO_ANSWER
    world.advance(2_500)
    assert world.state().isr_ids == (0, 1)


def test_new_partition_is_sent_as_new_although_the_watch_was_faster() -> None:
    world = with_active_controller(None, nodes=(0,), sessions=(0, 1))
    world.hold(WritePartitionStatus, Mode.LOSE_RESPONSE)
    world.hello(2, 0)
    commands = world.nodes[0].sent(SendLeaderAndIsr)
    assert all(command.partitions[0].is_new for command in commands)
    assert len(commands) == 3


def test_killed_leader_is_replaced_within_three_refused_probes() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=3)
    before_ms = world.now_ms
    world.kill(1)
    world.advance(59)
    assert world.state().leader == 1
    world.advance(2)
    assert world.now_ms - before_ms < 100
    assert [world.state(n).leader for n in range(3)] == [0, 0, 0]
    assert [world.state(n).isr_ids for n in range(3)] == [(0, 2)] * 3
    assert world.states_sent(0, 2)[-1] == world.state()
    dead = world.nodes[0].sent(BrokerDead)[0]
    assert (dead.broker_id, dead.detect_ms) == (1, 60)
    elected = world.nodes[0].sent(LeaderElected)[0]
    assert (elected.leader_before, elected.leader, elected.detect_ms) == (1, 0, 60)


def test_elections_come_before_shrinks() -> None:
    world = with_active_controller(state(leader=0), nodes=(0,), partitions=4)
    found = world.store.partitions["orders-3"]
    world.put_partition(state(leader=1, leader_epoch=1, partition_epoch=1), number=3)
    assert found.state is not None
    world.settle()
    world.kill(1)
    world.advance(61)
    writes = world.nodes[0].sent(WritePartitionStatus)
    assert writes[0].name == "orders-3"
    assert len(writes) == 4


def test_new_controller_counts_every_broker_as_live() -> None:
    world = three_brokers(state(leader=2), nodes=(0,), partitions=3)
    world.probes[2] = ProbeVerdict.NO_ANSWER
    world.advance(1_900)
    assert world.store.status_writes == []
    for broker_id in (0, 1):
        world.hello(broker_id, 0)
    world.advance(800)
    assert {world.state(n).leader for n in range(3)} == {0}


def test_response_with_a_higher_controller_epoch_makes_the_controller_resign() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.deliver(
        0,
        BrokerResponseReceived(
            session_id=world.sessions[1][1],
            request_id=999,
            broker_id=BrokerId(1),
            error=ErrorCode.STALE_CONTROLLER_EPOCH,
            controller_epoch=ControllerEpoch(3),
        ),
    )
    assert world.nodes[0].sent(ControllerResigned)


def test_partition_that_a_broker_knows_already_is_lost_and_not_new() -> None:
    world = with_active_controller(None, nodes=(0,))
    command = world.nodes[0].sent(SendLeaderAndIsr)[0]
    response = BrokerResponseReceived(
        session_id=command.session_id,
        request_id=command.request_id,
        broker_id=command.broker_id,
        error=ErrorCode.NONE,
        controller_epoch=ControllerEpoch(1),
        partitions=((tp(), ErrorCode.TOPIC_ALREADY_EXISTS),),
    )
    world.deliver(0, response)
    assert (world.state().leader, world.state().reason) == (-1, STATE_LOST)
    assert world.state().leader_epoch == 1
    epoch = world.state().partition_epoch
    world.deliver(0, response)
    assert world.state().partition_epoch == epoch


def report(world: World, broker_id: int, *found: HostedReplica) -> None:
    """Let a broker say what it has on disk."""
    session_id = world.sessions[broker_id][1]
    world.deliver(
        0, HostedReported(session_id=session_id, broker_id=BrokerId(broker_id), hosted=found)
    )


def test_object_to_recover_stays_offline_once_a_broker_reports_its_data() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.put_partition(None, number=5, recover=True)
    world.settle()
    assert world.store.partitions["orders-5"].state is None
    report(world, 0)
    report(world, 1, replica(tp(5)))
    assert (world.state(5).leader, world.state(5).reason) == (-1, STATE_LOST)


def test_a_watch_that_shows_no_status_is_checked_by_a_read() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    late = replace(world.store.partitions["orders-0"], state=None)
    world.deliver(0, PartitionObserved(partition=late))
    assert len(world.nodes[0].sent(ReadStoredPartition)) == 1
    assert world.store.status_writes == []
    world.put_partition(None, recover=True)
    world.deliver(0, PartitionObserved(partition=world.store.partitions["orders-0"]))
    assert len(world.nodes[0].sent(ReadStoredPartition)) == 2
    assert world.state().reason == STATE_LOST


def test_object_to_recover_begins_anew_once_every_broker_reported_nothing() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.advance(5)
    world.put_partition(None, number=5, recover=True)
    for broker_id in (0, 1):
        report(world, broker_id)
    world.advance(3_000)
    assert world.store.partitions["orders-5"].state is None
    report(world, 2)
    assert (world.state(5).leader, world.state(5).isr_ids) == (0, (0, 1, 2))
    command = world.nodes[0].sent(SendLeaderAndIsr)[-1]
    assert command.partitions[0].is_new
    begun = world.nodes[0].sent(PartitionBegunAnew)
    assert [(each.tp, each.recovery) for each in begun] == [(tp(5), Recovery.CLEAN)]


def test_lost_object_of_a_partition_that_brokers_were_told_of_is_not_new() -> None:
    world = with_active_controller(None, nodes=(0,), partitions=1)
    assert world.state().leader == 0
    world.put_partition(None, recover=True)
    world.deliver(0, PartitionDeleted(name="orders-0", tp=tp()))
    world.deliver(0, PartitionObserved(partition=world.store.partitions["orders-0"]))
    assert (world.state().leader, world.state().reason) == (-1, STATE_LOST)


def test_status_that_vanished_is_noticed_by_the_next_write() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    world.put_partition(None, recover=True)
    world.deliver(0, _alter_of(world))
    assert world.state().reason == STATE_LOST


def _alter_of(world: World) -> IsrChangeRequested:
    return IsrChangeRequested(
        session_id=world.sessions[0][1],
        request_id=1,
        broker_id=BrokerId(0),
        broker_epoch=BrokerEpoch(1),
        tp=tp(),
        leader_epoch=state().leader_epoch,
        partition_epoch=state().partition_epoch,
        isr=ABC,
    )


def test_object_deleted_by_hand_is_forgotten_and_its_requests_get_responses() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.alter(0, 0, ABC)
    del world.store.partitions["orders-0"]
    world.deliver(0, PartitionDeleted(name="orders-0", tp=tp(1)))
    assert world.alter_responses(0) == []
    world.deliver(0, PartitionDeleted(name="orders-0", tp=tp()))
    assert last_response(world).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.release()
    assert world.store.partitions == {}


def test_deleted_object_is_found_by_a_read() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    del world.store.partitions["orders-0"]
    world.deliver(0, _alter_of(world))
    assert last_response(world).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.deliver(0, _alter_of(world))
    assert len(world.alter_responses(0)) == 2


def test_repeated_conflicts_back_off() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    for _ in range(4):
        world.hold(WritePartitionStatus, Mode.LOSE)
    world.alter(0, 0, ABC)
    assert world.alter_responses(0) == []
    world.advance(2_000)
    assert last_response(world).error is ErrorCode.NONE
    failures = [notice.failures for notice in world.nodes[0].sent(StoreConflicted)]
    assert failures == [1, 2, 3, 4]


def test_unreadable_store_is_read_again_later() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.LOSE)
    world.hold(ReadStoredPartition, Mode.LOSE)
    world.alter(0, 0, ABC)
    assert world.alter_responses(0) == []
    world.advance(500)
    assert last_response(world).error is ErrorCode.NONE


def test_change_by_any_writer_is_propagated_and_an_older_state_is_not() -> None:
    world = with_active_controller(state(), nodes=(0,))
    old = world.store.partitions["orders-0"]
    world.put_partition(state(leader=1, leader_epoch=1, partition_epoch=1))
    world.settle()
    assert world.states_sent(0, 2)[-1].leader == 1
    count = len(world.states_sent(0, 2))
    world.deliver(0, PartitionObserved(partition=old))
    assert len(world.states_sent(0, 2)) == count


def test_the_echo_of_a_known_object_costs_no_decision() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.put_partition(state(leader=1, leader_epoch=1, partition_epoch=1))
    world.settle()
    known = world.store.partitions["orders-0"]
    newer = replace(known, generation=known.generation + 1)
    echo, change = (
        calls_of(partial(world.deliver, 0, PartitionObserved(partition=each)))
        for each in (known, newer)
    )
    assert 2 * echo < change, (echo, change)


def test_isr_only_metadata_is_coalesced_and_leadership_is_not() -> None:
    world = with_active_controller(state(isr=ABC), nodes=(0,), partitions=2)
    sent = len(world.nodes[0].sent(SendUpdateMetadata))
    world.alter(0, 0, AB)
    world.advance(5_000)
    assert len(world.nodes[0].sent(SendUpdateMetadata)) == sent
    world.advance(3_000)
    late = world.nodes[0].sent(SendUpdateMetadata)[sent:]
    assert [(m.broker_id, m.partitions[0].state.isr_ids) for m in late] == [
        (0, (0, 1)),
        (1, (0, 1)),
        (2, (0, 1)),
    ]
    sent += 3
    world.put_partition(state(leader=1, leader_epoch=1, partition_epoch=9), number=1)
    world.settle()
    assert len(world.nodes[0].sent(SendUpdateMetadata)) == sent + 3


def test_isr_only_metadata_waits_at_most_a_minute() -> None:
    world = with_active_controller(state(isr=ABC), nodes=(0,))
    sent = len(world.nodes[0].sent(SendUpdateMetadata))
    for round_number in range(40):
        world.alter(0, 0, AB if round_number % 2 == 0 else ABC)
        world.advance(2_000)
    assert len(world.nodes[0].sent(SendUpdateMetadata)) > sent


def test_changed_min_isr_is_committed_and_changed_settings_are_sent() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.put_topic(topic(min_isr=3))
    world.settle()
    assert world.state().min_insync_replicas == 3
    changed = replace(topic(min_isr=3), settings=replace(topic().settings, segment_bytes=1 << 20))
    before = len(world.states_sent(0, 1))
    world.put_topic(changed)
    world.settle()
    assert len(world.states_sent(0, 1)) == before + 1
    assert len(world.store.status_writes) == 1


def shutdown(
    world: World, broker_id: int, *, epoch: int = 1, session_id: int | None = None
) -> None:
    world.deliver(
        0,
        ShutdownRequested(
            session_id=world.sessions[broker_id][1] if session_id is None else session_id,
            request_id=4,
            broker_id=BrokerId(broker_id),
            broker_epoch=BrokerEpoch(epoch),
        ),
    )


def test_controlled_shutdown_gets_its_response_after_the_leaders_moved() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=5)
    shutdown(world, 1)
    assert [world.state(n).leader for n in range(5)] == [0] * 5
    assert [world.state(n).isr_ids for n in range(5)] == [(0, 2)] * 5
    response = world.nodes[0].sent(ReplyControlledShutdown)[-1]
    assert (response.error, response.remaining) == (ErrorCode.NONE, 0)
    world.alter(0, 0, ABC)
    assert last_response(world).error is ErrorCode.INVALID_UPDATE_VERSION


def test_controlled_shutdown_counts_leaders_that_cannot_move_and_is_bounded() -> None:
    world = with_active_controller(state(leader=1, isr=(entry(1),)), nodes=(0,), partitions=2)
    shutdown(world, 1)
    assert world.nodes[0].sent(ReplyControlledShutdown)[-1].remaining == 2
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=2)
    world.hold(WritePartitionStatus, Mode.DELAY)
    shutdown(world, 1)
    assert world.nodes[0].sent(ReplyControlledShutdown) == []
    world.advance(1_100)
    assert world.nodes[0].sent(ReplyControlledShutdown)[-1].remaining == 1


@pytest.mark.parametrize("epoch, session_id", [(2, None), (1, 999)])
def test_controlled_shutdown_of_another_process_is_refused(
    epoch: int, session_id: int | None
) -> None:
    world = with_active_controller(state(leader=1), nodes=(0,))
    shutdown(world, 1, epoch=epoch, session_id=session_id)
    assert world.nodes[0].sent(ReplyControlledShutdown)[-1].error is ErrorCode.STALE_BROKER_EPOCH
    assert world.state().leader == 1


def test_resigning_responds_to_every_open_request() -> None:
    world = with_active_controller(state(isr=AB, leader=0), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.alter(0, 0, ABC)
    shutdown(world, 1)
    world.deliver(0, StopRequested())
    assert last_response(world).error is ErrorCode.NOT_CONTROLLER
    assert world.nodes[0].sent(ReplyControlledShutdown)[-1].error is ErrorCode.NOT_CONTROLLER


def test_offline_partition_is_tried_again_when_a_broker_starts() -> None:
    world = with_active_controller(state(leader=1, isr=(entry(1),)), nodes=(0,))
    world.kill(1)
    world.advance(100)
    assert world.state().leader == -1
    assert world.nodes[0].controller.offline_partition_count == 1
    world.register(1, epoch=2)
    world.settle()
    assert world.nodes[0].controller.offline_partition_count == 0
    assert (world.state().leader, world.state().isr) == (1, (entry(1, 2),))


def test_store_calls_in_flight_are_bounded() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=100)
    for _ in range(70):
        world.hold(WritePartitionStatus, Mode.DELAY)
    world.kill(1)
    world.advance(100)
    assert len(world.held) == world.timing.store_calls_in_flight_max
    assert world.nodes[0].controller.queue_length == 100 - len(world.held)


def test_partitions_whose_records_wait_for_a_dead_member_are_written_first() -> None:
    """Its leader asks; the controller takes the member out of all others in their order."""
    world = with_active_controller(state(leader=0), nodes=(0,), partitions=40)
    at_once, asked = world.timing.store_calls_in_flight_max, 39
    for _ in range(at_once):
        world.hold(WritePartitionStatus, Mode.DELAY)
    world.kill(1)
    world.advance(60)
    assert len(world.held) == at_once < asked
    request = IsrChangeRequested(
        session_id=world.sessions[0][1],
        request_id=1,
        broker_id=BrokerId(0),
        broker_epoch=BrokerEpoch(1),
        tp=tp(asked),
        leader_epoch=world.state(asked).leader_epoch,
        partition_epoch=world.state(asked).partition_epoch,
        isr=(entry(0), entry(2)),
    )
    world.deliver(0, request)
    world.release()
    written = [call.tp.partition for call in world.nodes[0].sent(WritePartitionStatus)]
    assert written[at_once] == asked
    assert written[at_once + 1 :] == list(range(at_once, asked))
    assert [each.error for each in world.nodes[0].sent(ReplyAlterPartition)] == [ErrorCode.NONE]
