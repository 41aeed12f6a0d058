"""What the controller does at sessions, probes and registrations of brokers, and deletions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.controller.effects import (
    CloseSession,
    ProbeBroker,
    ReadBroker,
    ReadTopics,
    SendFullState,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    WritePartitionStatus,
)
from strandline.controller.events import (
    BrokerResponseReceived,
    HeartbeatReceived,
    HostedReported,
    ProbeResponseReceived,
    ProbeVerdict,
    SessionBroken,
)
from strandline.controller.notices import (
    BrokerDead,
    BrokerRegistered,
    RequestFenced,
    TopicDeletionConfirmed,
)
from strandline.controller.store_events import (
    BrokerRead,
    PartitionDeleted,
    PartitionObserved,
    StoreOutcome,
)
from strandline.controller.timing import LeaseTiming
from strandline.errors import ConfigError, ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    DeletedTopic,
    StoredBroker,
    TopicId,
    TopicPartition,
)
from tests.support.world.network import Mode
from tests.support.world.setups import three_brokers, with_active_controller
from tests.support.world.values import TOPIC, entry, replica, state, topic, tp
from tests.support.world.world import World

GHOST = TopicId("uid-ghost")


def closed(world: World) -> list[tuple[int, ErrorCode]]:
    return [(e.session_id, e.error) for e in world.nodes[0].sent(CloseSession)]


def dead(world: World) -> list[int]:
    return [notice.broker_id for notice in world.nodes[0].sent(BrokerDead)]


def test_hello_gets_the_full_state() -> None:
    world = with_active_controller(
        state(replicas=(0, 1), isr=(entry(0), entry(1))), nodes=(0,), partitions=2
    )
    full = world.nodes[0].sent(SendFullState)
    assert [len(effect.partitions) for effect in full] == [2, 2, 0]
    assert [len(effect.metadata) for effect in full] == [2, 2, 2]
    assert [b.broker_id for b in full[0].brokers] == [0, 1, 2]
    assert len(world.nodes[0].sent(BrokerRegistered)) == 3


def test_hello_of_an_ended_process_is_refused() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    world.register(1, epoch=3)
    world.settle()
    session_id = world.hello(1, 0, epoch=2)
    assert closed(world) == [(session_id, ErrorCode.STALE_BROKER_EPOCH)]
    assert world.nodes[0].sent(RequestFenced)
    session_id = world.hello(1, 0)
    assert len(closed(world)) == 1


def test_hello_that_knows_more_waits_for_a_quorum_read() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    world.nodes[0].cut = True
    world.register(1, epoch=2)
    world.hold(ReadBroker, Mode.DELAY)
    session_id = world.hello(1, 0)
    world.advance(600)
    assert len(world.nodes[0].sent(SendFullState)) == 1
    world.release()
    assert len(world.nodes[0].sent(SendFullState)) == 2
    assert closed(world) == []
    assert session_id == world.sessions[1][1]


def test_read_that_began_before_a_hello_does_not_judge_it() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    world.nodes[0].cut = True
    world.hold(ReadBroker, Mode.DELAY)
    first = world.hello(1, 0, epoch=2)
    early = world.held[0].content
    assert isinstance(early, ReadBroker)
    found = world.store.brokers[1]
    world.register(1, epoch=2)
    world.hold(ReadBroker, Mode.DELAY)
    second = world.hello(1, 0)
    world.deliver(0, BrokerRead(request_id=early.request_id, outcome=StoreOutcome.OK, broker=found))
    assert closed(world) == [(first, ErrorCode.NOT_CONTROLLER)]
    world.held.pop(0)
    world.release()
    assert len(world.nodes[0].sent(SendFullState)) == 2
    assert second == world.sessions[1][1]


@pytest.mark.parametrize(
    "epoch, incarnation, error",
    [
        (9, None, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (1, "pod-1/other", ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_hello_that_the_quorum_read_does_not_confirm_is_refused(
    epoch: int, incarnation: str | None, error: ErrorCode
) -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    session_id = world.hello(1, 0, epoch=epoch, incarnation=incarnation)
    assert closed(world) == [(session_id, error)]


def test_hello_without_broker_object_is_refused_until_it_registers() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    world.nodes[0].cut = True
    world.register(7)
    found = world.store.brokers[7]
    world.hold(ReadBroker, Mode.LOSE)
    session_id = world.hello(7, 0)
    assert closed(world) == [(session_id, ErrorCode.NOT_CONTROLLER)]
    world.store.brokers[7] = StoredBroker(
        name="c-7", resource_version="1", broker_id=BrokerId(7), registration=None
    )
    registered, world.store.brokers[7] = world.store.brokers[7], found
    world.hold(ReadBroker, Mode.DELAY)
    session_id = world.hello(7, 0)
    world.store.brokers[7] = registered
    world.release()
    assert closed(world)[-1] == (session_id, ErrorCode.BROKER_ID_NOT_REGISTERED)


def test_second_hello_replaces_the_first_one() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    world.nodes[0].cut = True
    first = world.hello(0, 0)
    second = world.hello(0, 0)
    assert closed(world)[-1] == (first, ErrorCode.NOT_CONTROLLER)
    world.deliver(0, SessionBroken(session_id=first, broker_id=BrokerId(0)))
    assert len(world.nodes[0].sent(ProbeBroker)) == 3
    world.register(1, epoch=2)
    world.hold(ReadBroker, Mode.DELAY)
    world.hold(ReadBroker, Mode.DELAY)
    third = world.hello(1, 0)
    fourth = world.hello(1, 0)
    assert closed(world)[-1] == (third, ErrorCode.NOT_CONTROLLER)
    world.deliver(0, SessionBroken(session_id=fourth, broker_id=BrokerId(1)))
    world.release()
    world.release()
    # One for each hello of broker 0, including the one of the setup, and none for broker 1.
    assert len(world.nodes[0].sent(SendFullState)) == 3
    assert second == world.sessions[0][1]


def test_hellos_that_wait_are_refused_by_a_resignation() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=())
    world.nodes[0].cut = True
    world.register(1, epoch=2)
    world.hold(ReadBroker, Mode.DELAY)
    session_id = world.hello(1, 0)
    world.nodes[0].frozen = True
    world.advance(2_500)
    world.nodes[0].frozen = False
    world.settle()
    assert closed(world)[0] == (session_id, ErrorCode.NOT_CONTROLLER)


def break_session(world: World, verdict: ProbeVerdict) -> None:
    """End the session of broker 1; probes of it have this verdict from now on."""
    _, session_id = world.sessions.pop(1)
    world.probes[1] = verdict
    world.deliver(0, SessionBroken(session_id=session_id, broker_id=BrokerId(1)))


@pytest.mark.parametrize(
    "verdict, dead_after_ms",
    [
        (ProbeVerdict.REFUSED, 60),
        (ProbeVerdict.OTHER_INCARNATION, 0),
        (ProbeVerdict.NO_ANSWER, 2_000),
        (ProbeVerdict.ANSWERED, None),
    ],
)
def test_broken_session_is_judged_by_probes(
    verdict: ProbeVerdict, dead_after_ms: int | None
) -> None:
    world = with_active_controller(state(), nodes=(0,))
    break_session(world, verdict)
    if dead_after_ms:
        world.advance(dead_after_ms - 1)
        assert dead(world) == []
    world.advance(1 if dead_after_ms else 0)
    world.advance(5_000 if dead_after_ms is None else 0)
    assert dead(world) == ([] if dead_after_ms is None else [1])


def test_two_refused_probes_and_a_response_do_not_prove_death() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.kill(1)
    world.advance(31)
    world.probes[1] = ProbeVerdict.ANSWERED
    world.advance(200)
    assert dead(world) == []


def test_a_dying_process_that_gave_no_answer_is_dead_once_its_listener_refuses() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,))
    break_session(world, ProbeVerdict.REFUSED)
    world.advance(31)
    world.probes[1] = ProbeVerdict.NO_ANSWER
    world.advance(30)
    world.probes[1] = ProbeVerdict.REFUSED
    world.advance(60)
    assert dead(world) == []
    world.advance(30)
    assert dead(world) == [1]
    assert world.state().leader == 0


def test_probes_of_a_broker_without_an_answer_end_with_its_answer() -> None:
    world = with_active_controller(state(), nodes=(0,))
    break_session(world, ProbeVerdict.NO_ANSWER)
    world.advance(100)
    world.probes[1] = ProbeVerdict.ANSWERED
    world.advance(31)
    sent = len(world.nodes[0].sent(ProbeBroker))
    world.advance(1_000)
    assert len(world.nodes[0].sent(ProbeBroker)) == sent
    assert dead(world) == []


def test_silent_broker_with_an_open_session_is_dead_after_timeout_and_probe() -> None:
    world = with_active_controller(state(leader=1), nodes=(0,))
    session_id = world.sessions[1][1]
    world.silent.add(1)
    world.probes[1] = ProbeVerdict.NO_ANSWER
    world.advance(1_400)
    assert dead(world) == []
    world.advance(1_200)
    assert dead(world) == [1]
    assert (session_id, ErrorCode.NOT_CONTROLLER) in closed(world)
    assert world.state().leader == 0
    # The process was frozen: it opens a session again and has all its data.
    world.silent.clear()
    world.hello(1, 0)
    world.alter(0, 0, (*world.state().isr, entry(1)))
    assert world.alter_responses(0)[-1].error is ErrorCode.NONE


def test_silent_broker_that_responds_to_its_probe_lives() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.silent.add(1)
    world.advance(10_000)
    assert dead(world) == []
    assert len(world.nodes[0].sent(ProbeBroker)) < 12


def test_heartbeats_keep_a_broker_alive_and_are_fenced_by_epoch() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.probes[1] = ProbeVerdict.NO_ANSWER
    world.advance(10_000)
    assert dead(world) == []
    session_id = world.sessions[1][1]
    world.deliver(
        0,
        HeartbeatReceived(
            session_id=session_id, broker_id=BrokerId(1), broker_epoch=BrokerEpoch(7)
        ),
    )
    assert closed(world) == [(session_id, ErrorCode.STALE_BROKER_EPOCH)]
    world.deliver(
        0, HeartbeatReceived(session_id=998, broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))
    )
    assert closed(world)[-1] == (998, ErrorCode.NOT_CONTROLLER)


def test_late_probe_response_and_late_break_prove_nothing() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.deliver(
        0,
        ProbeResponseReceived(
            request_id=1, broker_id=BrokerId(1), verdict=ProbeVerdict.OTHER_INCARNATION
        ),
    )
    world.deliver(0, SessionBroken(session_id=997, broker_id=BrokerId(1)))
    world.advance(100)
    assert dead(world) == []


def test_older_registration_is_ignored() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.register(1, epoch=5)
    world.settle()
    count = len(world.nodes[0].effects)
    world.register(1, epoch=4)
    world.settle()
    assert dead(world) == [1]
    assert not [e for e in world.nodes[0].effects[count:] if isinstance(e, BrokerDead)]


def test_live_brokers_are_propagated_at_once() -> None:
    world = with_active_controller(state(), nodes=(0,))
    sent = len(world.nodes[0].sent(SendUpdateMetadata))
    world.kill(1)
    world.advance(61)
    news = world.nodes[0].sent(SendUpdateMetadata)[sent:]
    assert [b.broker_id for b in news[0].brokers] == [0, 2]
    # UpdateMetadata comes before the LeaderAndIsr of the same step (KAFKA-4443).
    kinds = [type(effect) for effect in world.nodes[0].effects]
    assert kinds.index(SendLeaderAndIsr) > kinds.index(SendUpdateMetadata)


def test_thirty_second_comparison_sends_what_a_broker_misses() -> None:
    world = with_active_controller(state(partition_epoch=4), nodes=(0,), partitions=3)
    session_id = world.sessions[1][1]
    report = HostedReported(
        session_id=session_id,
        broker_id=BrokerId(1),
        hosted=(replica(tp(0), 4), replica(tp(1), 3)),
    )
    world.deliver(0, report)
    commands = world.nodes[0].sent(SendLeaderAndIsr)
    assert [[c.tp for c in command.partitions] for command in commands] == [[tp(1), tp(2)]]
    world.deliver(0, HostedReported(session_id=996, broker_id=BrokerId(1), hosted=()))
    assert len(world.nodes[0].sent(SendLeaderAndIsr)) == 1


def test_data_of_a_topic_is_deleted_only_after_a_quorum_list() -> None:
    world = with_active_controller(state(), nodes=(0,), partitions=2)
    world.hold(ReadTopics, Mode.LOSE)
    world.delete_topic()
    world.settle()
    assert world.nodes[0].sent(SendStopReplica) == []
    world.advance(100)
    stops = world.nodes[0].sent(SendStopReplica)
    assert [(s.broker_id, s.partitions) for s in stops] == [(b, (tp(0), tp(1))) for b in (0, 1, 2)]
    assert world.nodes[0].sent(SendUpdateMetadata)[-1].removed == (tp(0), tp(1))
    assert world.nodes[0].sent(TopicDeletionConfirmed)[0].partitions == (tp(0), tp(1))
    # A late watch event of the old object does not bring it back.
    found = world.store.partitions["orders-0"]
    count = len(world.nodes[0].sent(SendLeaderAndIsr))
    world.deliver(0, PartitionObserved(partition=found))
    world.deliver(0, PartitionDeleted(name="orders-0", tp=tp()))
    assert len(world.nodes[0].sent(SendLeaderAndIsr)) == count


def test_topic_that_still_exists_keeps_its_data_against_the_watch() -> None:
    world = with_active_controller(state(), nodes=(0,))
    found = world.store.topics[TOPIC]
    world.delete_topic()
    world.store.topics[TOPIC] = found
    world.settle()
    assert len(world.nodes[0].sent(ReadTopics)) == 1
    assert world.nodes[0].sent(SendStopReplica) == []


def test_data_that_a_returning_broker_has_of_a_recorded_topic_is_deleted_after_proof() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    recorded = DeletedTopic(topic_id=GHOST, topic_name="ghost", deleted_at="t1")
    world.store.cluster = replace(world.store.cluster, deleted_topics=(recorded,))
    ghost = TopicPartition(topic_id=GHOST, partition=4)
    world.hello(1, 0, hosted=(replica(tp()), replica(ghost)))
    stops = world.nodes[0].sent(SendStopReplica)
    assert [(s.broker_id, s.partitions) for s in stops] == [(1, (ghost,))]


def test_data_that_a_returning_broker_has_of_an_unknown_topic_is_kept() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    ghost = TopicPartition(topic_id=GHOST, partition=4)
    for _ in range(2):
        world.hello(1, 0, hosted=(replica(tp()), replica(ghost)))
        world.advance(1_000)
    assert world.nodes[0].sent(SendStopReplica) == []
    assert len(world.nodes[0].sent(ReadTopics)) == 1


def test_data_of_an_unknown_topic_that_exists_is_kept() -> None:
    world = with_active_controller(state(), nodes=(0,), sessions=(0,))
    world.nodes[0].cut = True
    world.put_topic(topic(topic_id=GHOST))
    ghost = TopicPartition(topic_id=GHOST, partition=4)
    world.hello(1, 0, hosted=(replica(ghost),))
    assert world.nodes[0].sent(SendStopReplica) == []


def test_topic_created_again_under_its_name_is_another_one() -> None:
    world = with_active_controller(state(), nodes=(0,))
    world.delete_topic()
    world.settle()
    world.put_topic(topic(topic_id=GHOST))
    world.put_partition(None, topic_id=GHOST)
    world.settle()
    assert world.state().leader == 0
    assert world.nodes[0].sent(SendLeaderAndIsr)[-1].partitions[0].is_new


def test_name_that_changed_hands_while_a_request_waited() -> None:
    world = with_active_controller(state(isr=(entry(0), entry(1))), nodes=(0,))
    world.hold(WritePartitionStatus, Mode.DELAY)
    world.alter(0, 0, (entry(0),))
    world.put_topic(topic(topic_id=GHOST))
    world.put_partition(None, topic_id=GHOST)
    world.settle()
    world.release()
    world.advance(100)
    assert world.alter_responses(0)[-1].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.state().leader == 0


def test_lost_object_that_a_broker_has_on_disk_is_not_new() -> None:
    world = three_brokers(None, nodes=(0,))
    world.advance(10)
    for broker_id in (0, 1, 2):
        world.hello(broker_id, 0, hosted=(replica(tp(), 7),) if broker_id == 1 else ())
    assert (world.state().leader, world.state().reason) == (-1, "StateLost")


def test_t38_stale_registration_is_read_again_after_a_stale_broker_epoch() -> None:
    """The test makes this response up, because in a scenario a stream ends with its process."""
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


@pytest.mark.parametrize(
    "duration, deadline, retry, rank",
    [(2_000, 2_000, 500, 50), (3_000, 2_000, 2_000, 50), (3, 2, 0, 0), (3_000, 2_000, 500, -1)],
)
def test_lease_timing_that_cannot_work_is_refused(
    duration: int, deadline: int, retry: int, rank: int
) -> None:
    with pytest.raises(ConfigError, match="0 < retry_period_ms < renew_deadline_ms"):
        LeaseTiming(
            lease_duration_ms=duration,
            renew_deadline_ms=deadline,
            retry_period_ms=retry,
            probe_deadline_ms=500,
            rank_delay_ms=rank,
        )
