"""Which brokers applied a topic's settings is written when it changes, from what they accepted."""

from __future__ import annotations

from dataclasses import replace

from strandline.controller.effects import ReadTopics, SendFullState, SendLeaderAndIsr
from strandline.controller.events import BrokerResponseReceived
from strandline.controller.topic_effects import TellAppliedConfig
from strandline.errors import ErrorCode
from strandline.model import (
    AppliedConfig,
    BrokerId,
    ControllerEpoch,
    StoredTopic,
    TopicId,
    TopicSettings,
)
from tests.support.world.network import Mode
from tests.support.world.setups import with_active_controller
from tests.support.world.timings import demo_timing
from tests.support.world.values import TOPIC, entry, state, topic
from tests.support.world.world import World

FIRST, SECOND = "digest-1", "digest-2"
OTHER = TopicId("00000000-0000-4000-8000-00000000000b")
ALL = (entry(0), entry(1), entry(2))
PERIOD_MS = demo_timing().applied_configs_period_ms
RETRY_MS = demo_timing().applied_configs_retry_ms


def applied(digest: str, *brokers: int) -> AppliedConfig:
    return AppliedConfig(digest=digest, brokers=tuple(map(BrokerId, brokers)))


def stored(digest: str = FIRST, told: AppliedConfig | None = None, **settings: int) -> StoredTopic:
    """Return the topic with these settings, whose status says this of them."""
    return replace(
        topic(),
        config_digest=digest,
        applied=told or AppliedConfig(),
        settings=TopicSettings(**settings),
    )


def running(found: StoredTopic, partitions: int = 1) -> World:
    """Return a world with a controller and three sessions, whose brokers have all partitions."""
    return with_active_controller(
        state(isr=ALL), nodes=(0,), found_topic=found, partitions=partitions
    )


def respond(world: World, *brokers: int, error: ErrorCode = ErrorCode.NONE) -> None:
    """Let brokers respond to all that they were sent, with one error for each partition."""
    node = world.nodes[0]
    sent: list[SendFullState | SendLeaderAndIsr] = [*node.sent(SendFullState)]
    for effect in [*sent, *node.sent(SendLeaderAndIsr)]:
        if effect.broker_id in brokers:
            response = BrokerResponseReceived(
                session_id=effect.session_id,
                broker_id=effect.broker_id,
                request_id=effect.request_id,
                error=ErrorCode.NONE,
                controller_epoch=ControllerEpoch(1),
                partitions=tuple((each.tp, error) for each in effect.partitions),
            )
            world.deliver(0, response)


def told(world: World) -> list[AppliedConfig]:
    return [each.applied for each in world.nodes[0].sent(TellAppliedConfig)]


def test_one_write_tells_of_all_brokers_that_accept_within_the_period() -> None:
    world = running(stored())
    respond(world, 0, 1, 2)
    assert told(world) == []
    world.advance(PERIOD_MS)
    assert told(world) == [applied(FIRST, 0, 1, 2)]
    assert world.store.topics[TOPIC].applied == applied(FIRST, 0, 1, 2)
    world.advance(3 * RETRY_MS)
    assert len(told(world)) == 1, "nothing is written while nothing changes"


def test_changed_settings_count_once_each_partition_of_the_broker_has_them() -> None:
    before = applied(FIRST, 0, 1, 2)
    world = running(stored(told=before), partitions=2)
    respond(world, 0, 1, 2)
    world.put_topic(stored(SECOND, before, retention_ms=5))
    world.advance(PERIOD_MS)
    assert told(world) == [], "no broker has them, and the digest of the status says so already"
    respond(world, 0, 2)
    world.advance(PERIOD_MS)
    assert told(world) == [applied(SECOND, 0, 2)]
    world.put_topic(stored(SECOND, applied(SECOND, 0, 2), retention_ms=5))
    respond(world, 1)
    world.advance(PERIOD_MS)
    assert told(world)[1:] == [applied(SECOND, 0, 1, 2)]


def test_a_refused_command_applies_nothing() -> None:
    world = running(stored())
    respond(world, 0, 1, 2, error=ErrorCode.STALE_CONTROLLER_EPOCH)
    world.advance(PERIOD_MS)
    assert told(world) == []


def test_a_new_controller_believes_the_status_and_a_restart_of_a_broker_writes_nothing() -> None:
    world = running(stored(told=applied(FIRST, 0, 1, 2)))
    respond(world, 0, 1)
    world.break_session(1)
    world.register(1, epoch=2)
    world.hello(1, 0)
    world.advance(3 * RETRY_MS)
    respond(world, 0, 1, 2)
    world.advance(3 * RETRY_MS)
    assert told(world) == []


def test_a_write_that_is_not_stored_is_repeated() -> None:
    world = running(stored())
    # The object has another version, which no watch shows: each write is a conflict.
    world.store.topics[TOPIC] = replace(stored(), resource_version="77")
    respond(world, 0, 1, 2)
    world.advance(PERIOD_MS)
    world.advance(RETRY_MS)
    assert told(world) == [applied(FIRST, 0, 1, 2)] * 2


def test_after_a_conflict_the_next_write_names_the_version_that_a_watch_showed() -> None:
    world = running(stored())
    respond(world, 0, 1, 2)
    world.advance(PERIOD_MS)
    world.put_topic(replace(stored(), resource_version="77"))
    world.advance(2 * PERIOD_MS)
    writes = world.nodes[0].sent(TellAppliedConfig)
    assert [each.resource_version for each in writes] == ["1", "77"]


def test_a_list_that_began_before_a_watch_showed_a_topic_takes_no_settings_back() -> None:
    world = running(stored())
    respond(world, 0, 1, 2)
    world.advance(PERIOD_MS)
    world.hold(ReadTopics, Mode.DELAY_RESPONSE)
    world.put_topic(topic(topic_id=OTHER))
    world.settle()
    (listed,) = world.held
    world.put_topic(replace(stored(SECOND, retention_ms=5), resource_version="77"))
    world.settle()
    assert list(world.held) == [listed], "the list is older than the change"
    world.release()
    sent = [each for each in world.nodes[0].sent(SendLeaderAndIsr) if each.broker_id == 0]
    assert sent[-1].partitions[0].settings == TopicSettings(retention_ms=5)
    respond(world, 0, 1, 2)
    world.advance(RETRY_MS)
    assert world.nodes[0].sent(TellAppliedConfig)[-1].resource_version == "77"
    assert world.store.topics[TOPIC].applied == applied(SECOND, 0, 1, 2)


def test_a_deleted_topic_is_not_told_of() -> None:
    world = running(stored())
    respond(world, 0, 1, 2)
    world.delete_topic(TOPIC)
    world.advance(RETRY_MS)
    assert told(world) == []


def test_a_topic_without_a_digest_is_not_told_of() -> None:
    world = running(topic())
    respond(world, 0, 1, 2)
    world.advance(RETRY_MS)
    assert told(world) == []


def test_brokers_get_the_settings_of_a_topic_that_was_not_known_when_they_got_its_state() -> None:
    world = World()
    for broker_id in (0, 1, 2):
        world.register(broker_id)
    world.put_partition(state(isr=ALL))
    world.add_node(0)
    world.advance(10)
    for broker_id in (0, 1, 2):
        world.hello(broker_id, 0)
    world.advance(1)
    assert len(world.nodes[0].sent(SendFullState)) == 3
    world.put_topic(stored(flush_messages=1))
    world.advance(100)
    given = {
        each.broker_id: each.partitions[-1].settings
        for each in world.nodes[0].sent(SendLeaderAndIsr)
    }
    assert given == dict.fromkeys(map(BrokerId, (0, 1, 2)), TopicSettings(flush_messages=1))
