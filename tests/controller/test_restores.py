"""A broker takes a log from its trash before it gets a state of a partition to be rebuilt."""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.effects import SendFullState, SendLeaderAndIsr, SendRestoreReplica
from strandline.controller.events import BrokerResponseReceived, HostedReplica, HostedReported
from strandline.controller.notices import LeaderElected, RestoreFailed
from strandline.errors import ErrorCode
from strandline.model import (
    STATE_LOST,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TrashedReplica,
)
from tests.support.world.values import NAME, replica, topic, tp
from tests.support.world.world import World

TRASHED = TrashedReplica(tp=tp(), topic_name=NAME, deleted_at_ms=5)
FOUND = replace(
    replica(tp()),
    leader_epoch=LeaderEpoch(-1),
    partition_epoch=PartitionEpoch(-1),
    accepted_leader_epoch=LeaderEpoch(-1),
    accepted_partition_epoch=PartitionEpoch(-1),
)


def adopting(*trashed: int, brokers: tuple[int, ...] = (0, 1)) -> World:
    """Return a world with a Partition to recover on brokers 0 and 1; some have it in the trash."""
    world = World()
    world.add_node(0)
    for broker_id in brokers:
        world.register(broker_id)
    world.put_topic(topic(min_isr=1))
    world.advance(10)
    for broker_id in brokers:
        world.hello(broker_id, 0, trashed=(TRASHED,) if broker_id in trashed else ())
    world.put_partition(None, recover=True, assigned=(0, 1))
    world.advance(100)
    return world


def report(
    world: World, broker_id: int, *hosted: HostedReplica, trashed: tuple[TrashedReplica, ...] = ()
) -> None:
    world.advance(10)
    event = HostedReported(
        session_id=world.sessions[broker_id][1],
        broker_id=BrokerId(broker_id),
        hosted=hosted,
        trashed=trashed,
    )
    world.deliver(0, event)


def asked(world: World) -> list[int]:
    return [each.broker_id for each in world.nodes[0].sent(SendRestoreReplica)]


def told(world: World) -> list[int]:
    """Return the brokers that got a state of the partition."""
    return [
        effect.broker_id
        for effect in world.nodes[0].effects
        if isinstance(effect, SendLeaderAndIsr | SendFullState)
        and any(command.tp == tp() for command in effect.partitions)
    ]


def test_a_partition_that_a_trash_has_is_not_new_and_its_log_is_asked_for() -> None:
    world = adopting(1)
    assert (world.state().reason, world.state().leader) == (STATE_LOST, -1)
    assert asked(world) == [1]
    assert told(world) == [0]


def test_a_state_is_sent_once_the_log_is_on_disk() -> None:
    world = adopting(1)
    report(world, 1, FOUND)
    assert told(world) == [0, 1]
    assert asked(world) == [1]


def test_a_log_is_asked_for_once_for_each_report_that_names_it() -> None:
    world = adopting(1)
    report(world, 0)
    assert asked(world) == [1]
    report(world, 1, trashed=(TRASHED,))
    assert asked(world) == [1, 1]
    assert 1 not in told(world)


def test_a_broker_that_comes_later_restores_its_log_before_it_gets_a_state() -> None:
    world = adopting(0, brokers=(0,))
    world.register(1)
    world.hello(1, 0, trashed=(TRASHED,))
    world.advance(100)
    assert asked(world) == [0, 1]
    assert told(world) == []


def behind(world: World, found: HostedReplica) -> HostedReplica:
    """Return a log of a broker that has applied the stored fence."""
    fence = world.state()
    return replace(found, leader_epoch=fence.leader_epoch, partition_epoch=fence.partition_epoch)


def led(epoch: int, broker_id: int, *, end: int) -> HostedReplica:
    """Return a log that ends with records of a leadership, from before the fence."""
    return replace(
        FOUND,
        accepted_leader_epoch=LeaderEpoch(epoch),
        last_epoch=LeaderEpoch(epoch),
        term_epoch=LeaderEpoch(epoch),
        led_by=BrokerId(broker_id),
        led_as=BrokerEpoch(1),
        log_end_offset=end,
    )


def test_a_log_in_the_trash_of_a_broker_that_is_no_replica_counts_as_well() -> None:
    world = adopting(2, brokers=(0, 1, 2))
    assert asked(world) == [2]
    older, newest = led(1, 0, end=3), led(2, 2, end=7)
    for broker_id in (0, 1):
        report(world, broker_id, older)
    for broker_id in (0, 1):
        report(world, broker_id, behind(world, older))
    assert world.nodes[0].sent(LeaderElected) == []
    report(world, 2, newest)
    assert 2 in told(world)
    for broker_id, found in ((0, older), (1, older), (2, newest)):
        report(world, broker_id, behind(world, found))
    world.advance(100)
    (elected,) = world.nodes[0].sent(LeaderElected)
    assert (elected.leader, world.state().isr_ids) == (2, (2,))
    assert world.state().removing_replicas == (2,)


def test_a_failed_restore_is_told_of() -> None:
    world = adopting(1)
    (restore,) = world.nodes[0].sent(SendRestoreReplica)
    for request_id, error in (
        (restore.request_id, ErrorCode.NONE),
        (restore.request_id + 1, ErrorCode.FENCED_LEADER_EPOCH),
        (restore.request_id, ErrorCode.KAFKA_STORAGE_ERROR),
    ):
        world.deliver(
            0,
            BrokerResponseReceived(
                session_id=restore.session_id,
                broker_id=restore.broker_id,
                request_id=request_id,
                error=ErrorCode.NONE,
                controller_epoch=ControllerEpoch(1),
                partitions=((tp(), error),),
            ),
        )
    assert world.nodes[0].sent(RestoreFailed) == [
        RestoreFailed(broker_id=BrokerId(1), tp=tp(), error=ErrorCode.KAFKA_STORAGE_ERROR)
    ]
