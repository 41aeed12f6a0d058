"""Changes that come together are announced together, and no message overtakes what it follows."""

from __future__ import annotations

from collections import Counter
from functools import partial

from strandline.controller.effects import (
    ReplyAlterPartition,
    SendFullState,
    SendLeaderAndIsr,
    SendUpdateMetadata,
    WritePartitionStatus,
)
from strandline.controller.events import BrokerResponseReceived
from strandline.errors import ErrorCode
from strandline.model import BrokerId, ControllerEpoch
from tests.support.world.network import Mode
from tests.support.world.session_messages import FromController
from tests.support.world.setups import with_active_controller
from tests.support.world.values import NAME, entry, state, tp
from tests.support.world.world import World

LOST = 100
"""Partitions that the dead broker leads: more than store calls may be out at once."""
DEATH_IS_PROVED_MS = 60
AC, ABC = (entry(0), entry(2)), (entry(0), entry(1), entry(2))


def kill_leader(world: World) -> int:
    """Kill broker 1; return how many effects the controller had returned before its death."""
    before = len(world.nodes[0].effects)
    world.kill(1)
    world.advance(DEATH_IS_PROVED_MS)
    return before


def with_one_answer_out(*, partitions: int = 2) -> World:
    """Return a world in which broker 1 died, and the write of the last partition is unanswered."""
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=partitions)
    world.hold(WritePartitionStatus, Mode.DELAY, partial(writes, number=partitions - 1))
    kill_leader(world)
    return world


def writes(call: object, number: int) -> bool:
    return isinstance(call, WritePartitionStatus) and call.name == f"{NAME}-{number}"


def said_to(world: World, broker_id: int, since: int = 0) -> list[FromController]:
    return [
        effect
        for effect in world.nodes[0].effects[since:]
        if isinstance(effect, FromController) and effect.broker_id == broker_id
    ]


def numbers_sent(world: World, broker_id: int) -> list[list[int]]:
    """Return the partitions of each LeaderAndIsr that a broker got."""
    return [
        [command.tp.partition for command in effect.partitions]
        for effect in said_to(world, broker_id)
        if isinstance(effect, SendLeaderAndIsr)
    ]


def test_partitions_that_a_dead_broker_led_are_announced_together() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=LOST)
    assert world.timing.store_calls_in_flight_max < LOST
    before = kill_leader(world)
    assert {world.state(number).leader for number in range(LOST)} == {0}
    for broker_id in (0, 2):
        messages = said_to(world, broker_id, before)
        assert Counter(type(each) for each in messages) == {
            SendLeaderAndIsr: 1,
            SendUpdateMetadata: 2,  # one says which brokers live, the other one who leads
        }
        assert numbers_sent(world, broker_id)[-1] == list(range(LOST))


def test_new_partitions_are_announced_together_and_as_new() -> None:
    world = with_active_controller(None, nodes=(0,), partitions=LOST, sessions=(0, 1))
    world.hello(2, 0)
    for broker_id in (0, 1, 2):
        assert numbers_sent(world, broker_id) == [list(range(LOST))]
    assert all(c.is_new for each in world.nodes[0].sent(SendLeaderAndIsr) for c in each.partitions)


def test_one_partition_alone_is_announced_at_once() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.DELAY)
    kill_leader(world)
    assert numbers_sent(world, 0) == []
    world.release()
    assert numbers_sent(world, 0) == [[0]]


def test_an_answer_waits_for_others_only_so_long() -> None:
    world = with_one_answer_out()
    assert numbers_sent(world, 0) == []
    world.advance(world.timing.announcement_wait_ms)
    assert numbers_sent(world, 0) == [[0]]
    world.release()
    assert numbers_sent(world, 0) == [[0], [1]]


def test_answers_that_come_later_do_not_prolong_the_wait() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,), partitions=3)
    for number in (1, 2):
        world.hold(WritePartitionStatus, Mode.DELAY, partial(writes, number=number))
    kill_leader(world)
    world.advance(world.timing.announcement_wait_ms - 1)
    world.release()
    assert numbers_sent(world, 0) == []
    world.advance(1)
    assert numbers_sent(world, 0) == [[0, 1]]


def test_a_response_to_the_first_states_does_not_send_the_next_ones_early() -> None:
    world = with_one_answer_out()
    session_id = world.sessions[0][1]
    heartbeat = world.heartbeat_of(0)
    assert heartbeat is not None
    world.deliver(0, heartbeat)
    response = BrokerResponseReceived(
        session_id=session_id,
        request_id=1,
        broker_id=BrokerId(0),
        error=ErrorCode.NONE,
        controller_epoch=ControllerEpoch(1),
    )
    world.deliver(0, response)
    assert numbers_sent(world, 0) == []
    world.release()
    assert numbers_sent(world, 0) == [[0, 1]]


def test_a_refusal_does_not_overtake_the_state_that_it_rests_on() -> None:
    world = with_one_answer_out()
    before = len(world.nodes[0].effects)
    world.alter(2, 0, ABC, leader_epoch=0, partition_epoch=0)
    kinds = [type(each) for each in said_to(world, 2, before)]
    assert kinds == [SendLeaderAndIsr, SendUpdateMetadata, ReplyAlterPartition]
    assert world.alter_responses(0)[-1].error is not ErrorCode.NONE


def test_a_new_session_gets_a_state_once_that_waited() -> None:
    world = with_one_answer_out()
    before = len(world.nodes[0].effects)
    world.hello(2, 0)
    kinds = [type(each) for each in said_to(world, 2, before)]
    assert kinds[-1] is SendFullState
    assert len(world.states_sent(0, 2, number=0)) == len(world.states_sent(0, 0, number=0)) + 1


def test_each_partition_epoch_is_announced_although_changes_wait() -> None:
    world = with_one_answer_out()
    elected = world.state()
    newer = state(
        leader=2,
        isr=AC,
        leader_epoch=elected.leader_epoch + 1,
        partition_epoch=elected.partition_epoch + 1,
    )
    world.put_partition(newer)
    world.settle()
    assert world.states_sent(0, 0)[-1] == elected
    world.advance(world.timing.announcement_wait_ms)
    assert world.states_sent(0, 0)[-2:] == [elected, newer]
    assert tp() in {c.tp for c in world.nodes[0].sent(SendUpdateMetadata)[-1].partitions}
