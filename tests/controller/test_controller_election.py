"""Controller elections and resignations: two candidates, a store that loses responses.

`tests/scenarios` has T39, T43 and other stories of two controllers.
"""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.effects import (
    CloseSession,
    LoadCluster,
    SendFullState,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.controller.events import SessionOpened, StopRequested
from strandline.controller.notices import ControllerElected, ControllerResigned
from strandline.controller.store_events import (
    ControllerEpochSeen,
    HolderDied,
    LeaseObserved,
    WatchLost,
)
from strandline.errors import ErrorCode
from strandline.model import BrokerEpoch, BrokerId, ControllerEpoch
from tests.support.world.network import Mode
from tests.support.world.setups import three_brokers, with_active_controller
from tests.support.world.values import LEASE_FREE, state


def test_first_rank_takes_a_free_lease_and_records_its_epoch_before_deciding() -> None:
    world = three_brokers()
    world.advance(10)
    first, second = world.nodes[0], world.nodes[1]
    assert (first.controller.epoch, second.controller.epoch) == (1, None)
    assert world.store.record is not None
    assert world.store.record.holder_identity == "broker-0/pod-0/1"
    kinds = [type(effect) for effect in first.effects]
    assert kinds.index(WriteLease) < kinds.index(WriteControllerRecord) < kinds.index(LoadCluster)
    assert WritePartitionStatus not in kinds[: kinds.index(ControllerElected)]


def test_epoch_is_above_everything_that_is_known() -> None:
    for lease, record, partitions, seen in ((7, 1, 1, 1), (1, 7, 1, 1), (1, 1, 7, 1), (1, 1, 1, 7)):
        world = three_brokers(state(controller_epoch=partitions), nodes=(0,))
        assert world.store.record is not None
        world.store.record = replace(world.store.record, controller_epoch=ControllerEpoch(record))
        world.store.lease = replace(LEASE_FREE, controller_epoch=ControllerEpoch(lease))
        world.deliver(0, ControllerEpochSeen(controller_epoch=ControllerEpoch(seen)))
        world.advance(10)
        assert world.nodes[0].controller.epoch == 8


def test_renewed_lease_is_not_taken_and_an_unchanged_one_is_after_its_duration() -> None:
    world = with_active_controller(state())
    world.advance(20_000)
    assert world.nodes[0].controller.epoch == 1
    world.nodes[0].frozen = True
    world.advance(2_400)
    assert world.nodes[1].controller.epoch is None
    world.advance(700)
    assert world.nodes[1].controller.epoch == 2


def test_lease_of_a_dead_holder_is_taken_early() -> None:
    world = with_active_controller(state())
    world.nodes[0].frozen = True
    world.deliver(1, HolderDied(holder_identity="broker-9/pod-9"))
    world.advance(100)
    assert world.nodes[1].controller.epoch is None
    world.deliver(1, HolderDied(holder_identity="broker-0/pod-0/1"))
    world.advance(100)
    assert world.nodes[1].controller.epoch == 2


def test_stop_releases_the_lease_and_the_next_takes_it_at_once() -> None:
    world = with_active_controller(state())
    world.deliver(0, StopRequested())
    assert world.nodes[0].controller.is_stopped
    assert world.store.lease is not None
    assert world.store.lease.holder_identity == ""
    closed = world.nodes[0].sent(CloseSession)
    assert [effect.error for effect in closed[-3:]] == [ErrorCode.NOT_CONTROLLER] * 3
    world.advance(60)
    assert world.nodes[1].controller.epoch == 2
    assert world.nodes[0].controller.epoch is None


def test_stop_during_a_renewal_reads_before_it_releases() -> None:
    world = with_active_controller(state())
    world.hold(WriteLease, Mode.DELAY)
    world.advance(600)
    world.deliver(0, StopRequested())
    assert world.nodes[0].controller.is_stopped
    assert world.store.lease is not None
    assert world.store.lease.holder_identity == ""


def test_taking_write_whose_response_is_lost_is_found_by_reading() -> None:
    for mode in (Mode.LOSE_RESPONSE, Mode.LOSE):
        world = three_brokers(nodes=(0,))
        world.hold(WriteLease, mode)
        world.advance(600)
        assert world.nodes[0].controller.epoch is not None
        assert world.store.lease is not None
        assert world.store.lease.controller_epoch == world.nodes[0].controller.epoch


def test_missing_lease_is_waited_for_and_never_created() -> None:
    world = three_brokers(nodes=(0,))
    world.store.lease = None
    world.advance(5_000)
    assert world.nodes[0].controller.epoch is None
    assert world.nodes[0].sent(WriteLease) == []
    world.store.lease = LEASE_FREE
    world.advance(600)
    assert world.nodes[0].controller.epoch == 1


def test_missing_broker_cluster_is_waited_for() -> None:
    world = three_brokers(nodes=(0,))
    record, world.store.record = world.store.record, None
    world.advance(2_000)
    assert world.nodes[0].controller.epoch is None
    world.store.record = record
    world.advance(600)
    assert world.nodes[0].controller.epoch == 1


def test_holder_that_cannot_renew_resigns_before_another_may_take() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.hold(WriteLease, Mode.DELAY)
    world.advance(1_900)
    assert world.nodes[0].controller.epoch == 1
    world.advance(600)
    resigned = world.nodes[0].sent(ControllerResigned)
    assert [notice.reason for notice in resigned] == ["renew deadline passed"]


def test_stopped_process_does_not_write_a_lease_that_it_lost() -> None:
    world = with_active_controller(state())
    world.nodes[0].frozen = True
    world.advance(4_000)
    before = len(world.nodes[0].effects)
    world.nodes[0].frozen = False
    world.settle()
    after = world.nodes[0].effects[before:]
    assert isinstance(after[1], ControllerResigned)
    assert not [effect for effect in after if isinstance(effect, WritePartitionStatus)]
    assert world.nodes[1].controller.epoch == 2


def test_late_watch_event_of_an_earlier_holder_costs_a_read_and_not_the_lease() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.deliver(0, LeaseObserved(lease=replace(LEASE_FREE, holder_identity="broker-7/old")))
    assert world.nodes[0].controller.epoch == 1
    world.deliver(0, LeaseObserved(lease=None))
    assert world.nodes[0].controller.epoch == 1


def test_label_edit_of_the_lease_keeps_the_controller_active() -> None:
    world = with_active_controller(state(), nodes=(0,))
    assert world.store.lease is not None
    world.store.lease = replace(world.store.lease, resource_version=world.store.next_version())
    world.advance(5_000)
    assert world.nodes[0].controller.epoch == 1


def test_controller_of_a_store_that_went_back_to_its_earlier_term_records_a_higher_epoch() -> None:
    world = with_active_controller(state(), nodes=(0,))
    store = world.store
    before = store.lease, store.record
    world.deliver(0, ControllerEpochSeen(controller_epoch=ControllerEpoch(2)))
    world.advance(100)
    assert world.nodes[0].controller.epoch == 3
    store.lease, store.record = before
    world.advance(2_000)
    assert store.record is not None
    assert store.record.controller_epoch == 4
    assert world.nodes[0].controller.epoch == 4


def test_deleted_lease_makes_the_controller_resign() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.store.lease = None
    world.deliver(0, LeaseObserved(lease=None))
    assert world.nodes[0].controller.epoch is None


def test_recording_write_whose_response_is_lost_is_found_by_reading() -> None:
    for mode in (Mode.LOSE_RESPONSE, Mode.LOSE):
        world = three_brokers(nodes=(0,))
        world.hold(WriteControllerRecord, mode)
        world.advance(10)
        assert world.nodes[0].controller.epoch == 1


def test_controller_that_sees_a_higher_epoch_resigns_and_returns_with_a_higher_one() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.deliver(0, ControllerEpochSeen(controller_epoch=ControllerEpoch(1)))
    assert world.nodes[0].controller.epoch == 1
    world.deliver(0, ControllerEpochSeen(controller_epoch=ControllerEpoch(5)))
    assert world.nodes[0].sent(ControllerResigned)[0].controller_epoch == 1
    world.advance(100)
    assert world.nodes[0].controller.epoch == 6


def test_inactive_controller_refuses_every_broker() -> None:
    world = with_active_controller(state(), nodes=(0, 1))
    world.deliver(
        1,
        SessionOpened(
            session_id=77,
            broker_id=BrokerId(2),
            broker_epoch=BrokerEpoch(1),
            clean_since_epoch=BrokerEpoch(1),
            incarnation="pod-2/1",
            hosted=(),
        ),
    )
    closed = world.nodes[1].sent(CloseSession)
    assert [(effect.session_id, effect.error) for effect in closed] == [
        (77, ErrorCode.NOT_CONTROLLER)
    ]
    world.alter(2, 1, state().isr)
    assert world.alter_responses(1)[-1].error is ErrorCode.NOT_CONTROLLER


def test_failed_lists_are_requested_again() -> None:
    world = three_brokers(state(), nodes=(0,))
    world.hold(LoadCluster, Mode.LOSE)
    world.advance(10)
    assert world.nodes[0].controller.epoch is None
    world.advance(600)
    assert world.nodes[0].controller.epoch == 1


def test_lost_watch_lists_again_and_finds_what_was_missed() -> None:
    world = with_active_controller(state(), nodes=(0,), partitions=2)
    world.nodes[0].cut = True
    world.put_partition(state(leader=1, leader_epoch=1, partition_epoch=1), number=0)
    del world.store.partitions["orders-1"]
    world.nodes[0].cut = False
    world.hold(LoadCluster, Mode.LOSE)
    world.deliver(0, WatchLost())
    world.advance(600)
    assert world.states_sent(0, 2)[-1].leader == 1
    world.alter(1, 0, state().isr[:2], leader_epoch=1)
    assert world.alter_responses(0)[-1].error is ErrorCode.NONE


def test_commands_of_two_controllers_never_share_an_id() -> None:
    """A late response to a former controller's command is never taken for one to the present's."""
    world = with_active_controller(state())
    world.nodes[0].frozen = True
    world.advance(4_000)
    assert world.nodes[1].controller.epoch == 2
    for broker_id in (0, 1, 2):
        world.hello(broker_id, 1)
    world.advance(1)
    former, present = (
        {each.request_id for each in node.sent(SendFullState)}
        for node in (world.nodes[0], world.nodes[1])
    )
    assert former
    assert present
    assert {number >> 32 for number in former} == {1}
    assert {number >> 32 for number in present} == {2}
    outside = [each.request_id for each in world.nodes[1].sent(WriteLease)]
    assert outside[0] >> 32 == 0
