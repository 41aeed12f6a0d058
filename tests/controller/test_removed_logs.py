"""A broker whose log this controller had removed is no in-sync replica of it any more.

The topic may come back at any moment: before the garbage collector has deleted its Partitions,
before the broker has heard of the deletion, and before it has told what its trash holds.
"""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.effects import SendStopReplica
from strandline.controller.events import BrokerResponseReceived, HostedReplica
from strandline.controller.notices import LeaderElected
from strandline.errors import ErrorCode
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
)
from tests.controller import test_restores
from tests.controller.test_restores import FOUND, TRASHED, asked, told
from tests.support.world.setups import with_active_controller
from tests.support.world.values import NAME, replica, state, topic, tp
from tests.support.world.world import World


def deleted(*, responded: bool = False) -> World:
    """Return a world that told its brokers to delete the logs of a topic; its Partition is left."""
    world = with_active_controller(state(), nodes=(0,))
    for broker_id in (0, 1, 2):
        report(world, broker_id, replica(tp()))
    world.delete_topic()
    world.advance(100)
    stops = world.nodes[0].sent(SendStopReplica)
    assert [each.broker_id for each in stops] == [0, 1, 2]
    for stop in stops if responded else ():
        respond(world, stop)
    world.nodes[0].effects.clear()
    return world


def report(world: World, broker_id: int, *hosted: HostedReplica, in_trash: bool = False) -> None:
    """Let a broker tell what it has, and the controller act on it."""
    test_restores.report(world, broker_id, *hosted, trashed=(TRASHED,) if in_trash else ())
    world.advance(100)


def respond(world: World, stop: SendStopReplica) -> None:
    event = BrokerResponseReceived(
        session_id=stop.session_id,
        broker_id=stop.broker_id,
        request_id=stop.request_id,
        error=ErrorCode.NONE,
        controller_epoch=ControllerEpoch(1),
        partitions=((tp(), ErrorCode.NONE),),
    )
    world.deliver(0, event)


def come_back(world: World) -> None:
    world.put_topic(topic())
    world.advance(1_000)


def recreate(world: World) -> None:
    """Let the garbage collector have the Partition, and the operator make another one."""
    del world.store.partitions[f"{NAME}-0"]
    come_back(world)
    world.put_partition(None, recover=True)
    world.advance(1_000)


def behind(world: World, *, end: int) -> HostedReplica:
    """Return a log of a broker that has applied the stored state."""
    found = world.state()
    return replace(
        replica(tp()),
        leader_epoch=found.leader_epoch,
        partition_epoch=found.partition_epoch,
        accepted_leader_epoch=found.leader_epoch,
        accepted_partition_epoch=found.partition_epoch,
        last_epoch=LeaderEpoch(0 if end else -1),
        log_end_offset=end,
    )


def test_the_state_of_a_partition_that_was_left_elects_nobody() -> None:
    world = deleted()
    for broker_id in (0, 1, 2):
        report(world, broker_id, in_trash=True)
    come_back(world)
    assert (world.state().leader, world.state().reason) == (NO_LEADER, STATE_LOST)
    assert told(world) == []
    assert set(asked(world)) == {0, 1, 2}


def test_a_topic_that_returns_before_any_report_waits_for_the_logs() -> None:
    world = deleted()
    come_back(world)
    assert (world.state().leader, world.state().reason) == (NO_LEADER, STATE_LOST)
    assert told(world) == []
    assert set(asked(world)) == {0, 1, 2}


def test_a_report_from_before_the_deletion_names_no_log() -> None:
    world = deleted()
    for broker_id in (0, 1, 2):
        report(world, broker_id, replica(tp()))
    recreate(world)
    assert (world.state().leader, world.state().reason) == (NO_LEADER, STATE_LOST)
    assert told(world) == []
    report(world, 1, in_trash=True)
    assert 1 in asked(world)
    report(world, 1, behind(world, end=3))
    assert told(world) == []


def test_a_log_that_a_broker_took_back_counts_after_its_response() -> None:
    world = deleted(responded=True)
    recreate(world)
    assert told(world) == []
    report(world, 1, FOUND)
    assert set(told(world)) == {1}


def test_a_broker_whose_trash_was_emptied_gets_a_state() -> None:
    world = deleted(responded=True)
    recreate(world)
    report(world, 2)
    assert set(told(world)) == {2}
    assert world.state().reason == STATE_LOST


def test_an_empty_trash_is_believed_after_the_response_only() -> None:
    world = deleted()
    recreate(world)
    report(world, 2)
    assert told(world) == []


def test_empty_logs_do_not_lead_while_a_trash_has_one() -> None:
    world = deleted(responded=True)
    recreate(world)
    for broker_id in (0, 1, 2):
        report(world, broker_id, behind(world, end=0), in_trash=True)
    assert world.nodes[0].sent(LeaderElected) == []
    led_since = replace(behind(world, end=0), term_epoch=LeaderEpoch(0), led_by=BrokerId(0))
    for broker_id in (0, 1, 2):
        report(world, broker_id, led_since, in_trash=True)
    assert len(world.nodes[0].sent(LeaderElected)) == 1
