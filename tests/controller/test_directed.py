"""Directed scenarios: each lost records, split a log or stopped a partition without its rule.

The numbers in the titles are those of the scenario files.
"""

from __future__ import annotations

from strandline.controller.effects import (
    ReadBroker,
    ReadStoredPartition,
    ReplyAlterPartition,
    SendLeaderAndIsr,
    WritePartitionStatus,
)
from strandline.controller.elections import UNCLEAN_LAST_REPLICA
from strandline.controller.events import (
    BrokerResponseReceived,
    ProbeVerdict,
)
from strandline.controller.notices import (
    BrokerDead,
    ControllerResigned,
    IsrAccepted,
    IsrRefused,
    LeaderElected,
    PartitionOffline,
)
from strandline.errors import ErrorCode
from strandline.model import BrokerId, ControllerEpoch, ElectionKind

from .answers import unknown_answer
from .setups import three_brokers, with_active_controller
from .store import entry, state, topic
from .world import ControllerWorld, Mode

AB, ABC, A = (entry(0), entry(1)), (entry(0), entry(1), entry(2)), (entry(0),)


def last_answer(world: ControllerWorld, node: int = 0) -> ReplyAlterPartition:
    return world.answers(node)[-1]


def test_t31_new_controller_elects_only_where_the_dead_one_led() -> None:
    world = three_brokers(nodes=(1,))
    for number in range(6):
        world.put_partition(state(leader=number % 3), number=number)
    world.probes[0] = ProbeVerdict.REFUSED
    world.advance(60)
    assert world.nodes[1].controller.epoch == 1
    for broker_id in (1, 2):
        world.hello(broker_id, 1)
    world.advance(200)
    assert [world.state(n).leader_epoch for n in range(6)] == [1, 0, 0, 1, 0, 0]
    elected = world.nodes[1].sent(LeaderElected)
    assert sorted(notice.tp.partition for notice in elected) == [0, 3]
    assert all(world.state(n).isr_ids == (1, 2) for n in range(6))
    assert len(world.store.status_writes) == 6


def test_t10_joiner_that_restarted_meanwhile_is_refused_by_a_commit() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.register(2, epoch=2, clean_since=2)
    world.settle()
    world.hello(2, 0)
    world.alter(0, 0, ABC)
    answer = last_answer(world)
    assert answer.error is ErrorCode.INVALID_UPDATE_VERSION
    assert answer.stored == world.state()
    assert (world.state().isr, world.state().partition_epoch) == (AB, 1)
    refused = world.nodes[0].sent(IsrRefused)
    assert [notice.reason for notice in refused] == ["joiner of another broker epoch"]
    world.alter(0, 0, (*AB, entry(2, 2)))
    assert last_answer(world).error is ErrorCode.NONE
    assert world.state().isr_ids == (0, 1, 2)


def test_t11_zombie_write_conflicts_and_the_zombie_resigns() -> None:
    world = with_active_controller(state(leader=2))
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.kill(2)
    world.advance(70)
    assert len(world.held) == 1
    world.nodes[0].frozen = True
    world.advance(3_200)
    assert world.nodes[1].controller.epoch == 2
    world.hello(0, 1)
    world.hello(1, 1)
    world.advance(200)
    decided = world.state()
    assert (decided.leader, decided.controller_epoch) == (0, 2)
    world.nodes[0].frozen = False
    world.release()
    assert world.nodes[0].controller.epoch is None
    assert world.state() == decided


def test_t11_zombie_that_still_believes_resigns_when_it_reads_the_higher_epoch() -> None:
    world = with_active_controller(state(leader=2), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.kill(2)
    world.advance(70)
    world.nodes[0].cut = True
    world.put_partition(
        state(leader=1, isr=AB, leader_epoch=1, partition_epoch=1, controller_epoch=2)
    )
    world.release()
    assert [n.reason for n in world.nodes[0].sent(ControllerResigned)] == [
        "higher controller epoch seen"
    ]
    assert world.state().leader == 1
    assert len(world.store.status_writes) == 0


def test_t12_requester_that_knows_more_makes_a_zombie_resign() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    world.put_partition(state(isr=AB, leader_epoch=1, partition_epoch=3, controller_epoch=2))
    world.alter(0, 0, ABC)
    assert last_answer(world).error is ErrorCode.NOT_CONTROLLER
    assert world.nodes[0].sent(ControllerResigned)


def test_t12_requester_that_knows_more_is_served_after_a_quorum_read() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    world.put_partition(state(isr=AB, leader_epoch=1, partition_epoch=3))
    world.alter(0, 0, ABC)
    assert last_answer(world).error is ErrorCode.NONE
    assert world.state().isr == ABC
    world.alter(0, 0, AB, partition_epoch=9)
    assert last_answer(world).error is ErrorCode.NOT_CONTROLLER
    assert world.nodes[0].controller.epoch == 1


def test_t13_lost_answers_do_not_raise_the_partition_epoch_twice() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    world.hold(WritePartitionStatus, Mode.LOSE_ANSWER)
    world.alter(0, 0, ABC, request_id=5)
    assert (last_answer(world).error, last_answer(world).request_id) == (ErrorCode.NONE, 5)
    assert world.state().partition_epoch == 1
    assert len(world.nodes[0].sent(IsrAccepted)) == 1
    # The leader's answer is lost: it repeats its request with the old partition epoch.
    world.alter(0, 0, ABC, request_id=6, partition_epoch=0)
    assert (last_answer(world).error, last_answer(world).request_id) == (ErrorCode.NONE, 6)
    assert len(world.store.status_writes) == 1


def test_t13_lost_answer_of_an_election() -> None:
    for mode in (Mode.LOSE_ANSWER, Mode.LOSE):
        world = with_active_controller(state(leader=1), nodes=(0,))
        world.nodes[0].cut = True
        world.hold(WritePartitionStatus, mode)
        world.kill(1)
        world.advance(70)
        assert (world.state().leader, world.state().leader_epoch) == (0, 1)
        assert len(world.nodes[0].sent(LeaderElected)) == 1


def test_t23_bounced_broker_is_a_failure_and_a_start() -> None:
    world = with_active_controller(state(), nodes=(0,))
    old_session = world.sessions[0][1]
    world.register(0, epoch=2)
    world.settle()
    dead = world.nodes[0].sent(BrokerDead)
    assert [(n.broker_id, n.broker_epoch) for n in dead] == [(0, 1)]
    # A clean bounce: the first in session leads, entries of the other epochs stay in sync.
    assert (world.state().leader, world.state().leader_epoch) == (1, 1)
    assert world.state().isr == ABC
    world.hello(0, 0)
    world.alter(0, 0, A, session_id=old_session)
    assert last_answer(world).error is ErrorCode.NOT_CONTROLLER
    world.alter(0, 0, A)
    assert last_answer(world).error is ErrorCode.STALE_BROKER_EPOCH
    command = world.nodes[0].sent(SendLeaderAndIsr)[-1]
    assert command.broker_epoch == (2 if command.broker_id == 0 else 1)


def test_t34_everybody_restarts_clean_and_every_partition_has_its_leader_again() -> None:
    for isr in (ABC, (entry(1),)):
        leader = isr[0].broker_id
        world = three_brokers(state(leader=leader, isr=isr), nodes=(0,), partitions=3)
        for broker_id in (0, 1, 2):
            world.register(broker_id, epoch=2, clean_since=1)
        world.advance(10)
        for broker_id in (0, 1, 2):
            world.hello(broker_id, 0)
        for number in range(3):
            found = world.state(number)
            assert found.leader == leader
            assert found.entry_of(found.leader) == entry(leader, 2)
            assert found.isr_ids == tuple(e.broker_id for e in isr)


def test_t30_last_replica_that_lost_its_disk_is_not_elected() -> None:
    world = three_brokers(state(leader=1, isr=(entry(1),)), nodes=(0,))
    world.register(1, epoch=2, clean_since=2)
    world.advance(10)
    for broker_id in (0, 1, 2):
        world.hello(broker_id, 0)
    assert (world.state().leader, world.state().reason) == (-1, UNCLEAN_LAST_REPLICA)
    assert len(world.nodes[0].sent(PartitionOffline)) == 1
    world.put_topic(topic(unclean=True))
    world.settle()
    assert world.state().leader == 1
    assert world.nodes[0].sent(LeaderElected)[-1].kind is ElectionKind.UNCLEAN


def test_t35_request_refused_by_the_new_controller_can_not_commit_later() -> None:
    world = with_active_controller(state(isr=AB))
    old_session = world.sessions[0][1]
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.alter(0, 0, ABC, request_id=1, session_id=old_session)
    assert len(world.held) == 1
    world.nodes[0].frozen = True
    world.advance(3_200)
    world.hello(0, 1)
    world.hello(1, 1)
    # N has no session with broker 2: it refuses, and says so by a commit.
    world.alter(0, 1, ABC, request_id=2)
    answer = last_answer(world, 1)
    assert answer.error is ErrorCode.INVALID_UPDATE_VERSION
    assert answer.stored is not None
    assert (answer.stored.isr, answer.stored.partition_epoch) == (AB, 1)
    world.release()
    world.nodes[0].frozen = False
    world.settle()
    assert world.state().isr == AB
    assert world.nodes[0].controller.epoch is None


def test_t36_own_lost_put_can_not_land_after_its_refusal() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.alter(0, 0, ABC)
    late = world.held.pop(0).effect
    assert isinstance(late, WritePartitionStatus)
    # Broker 2 dies; then the PUT times out, unknown to have been applied.
    world.kill(2)
    world.advance(70)
    world.deliver(0, unknown_answer(late))
    assert last_answer(world).error is ErrorCode.INVALID_UPDATE_VERSION
    assert (world.state().isr, world.state().partition_epoch) == (AB, 1)
    assert world.store.put_status(late) is None


def test_t36_lost_put_that_landed_is_found() -> None:
    world = with_active_controller(state(isr=AB), nodes=(0,))
    world.nodes[0].cut = True
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.alter(0, 0, ABC)
    late = world.held.pop(0).effect
    assert isinstance(late, WritePartitionStatus)
    world.hold(ReadStoredPartition, Mode.DELAY)
    world.deliver(0, unknown_answer(late))
    world.store.put_status(late)
    world.release()
    assert last_answer(world).error is ErrorCode.NONE
    assert world.state().isr == ABC


def test_t38_stale_registration_is_read_again_when_the_broker_says_so() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,))
    world.nodes[0].cut = True
    world.register(1, epoch=2, clean_since=2)
    world.deliver(
        0,
        BrokerResponseReceived(
            session_id=world.sessions[1][1],
            request_id=999,
            broker_id=BrokerId(1),
            error=ErrorCode.STALE_BROKER_EPOCH,
            controller_epoch=ControllerEpoch(1),
        ),
    )
    assert len(world.nodes[0].sent(ReadBroker)) == 1
    assert (world.state().leader, world.state().isr) == (0, (entry(0), entry(2)))
