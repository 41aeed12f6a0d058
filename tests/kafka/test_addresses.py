"""What clients are shown of the cluster is made once per change, however many requests ask."""

from __future__ import annotations

import uuid
from dataclasses import replace

from strandline.broker_interface import (
    BrokerMetadata,
    MetadataSnapshot,
    PartitionMetadata,
    TopicMetadata,
)
from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import LeaderHints, MetadataView, MetadataViews
from strandline.kafka_listener.apis.metadata import metadata
from strandline.kafka_listener.budget import Budget
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.response import RequestContext
from strandline.kafka_listener.turns import at_once
from strandline.model import NO_LEADER, BrokerId, Endpoint, LeaderEpoch, TopicId
from tests.kafka.support import MemoryBroker
from tests.support.counted_calls import calls_of

ME = BrokerId(0)
ENDPOINT = Endpoint(listener="TEST", host="h", port=1)
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def snapshot(partitions: int, *, leader: BrokerId = ME) -> MetadataSnapshot:
    """Return one topic of that many partitions."""
    return MetadataSnapshot(
        cluster_id="memory",
        controller=ME,
        brokers=(BrokerMetadata(broker_id=ME, endpoint=ENDPOINT),),
        topics=(
            TopicMetadata(
                name="orders",
                topic_id=TopicId(str(uuid.UUID(int=1))),
                partitions=tuple(
                    PartitionMetadata(
                        partition=each,
                        leader=leader,
                        leader_epoch=LeaderEpoch(3),
                        replicas=(ME,),
                        isr=(ME,),
                        offline=(),
                    )
                    for each in range(partitions)
                ),
            ),
        ),
    )


class FixedMetadata(MemoryBroker):
    """Shows the snapshot that a test sets."""

    shown = snapshot(1)

    def metadata(self, listener: str) -> MetadataSnapshot:  # noqa: ARG002 - the interface's
        return self.shown


def context_over(broker: FixedMetadata) -> RequestContext:
    return RequestContext(
        broker=broker,
        listener_name="TEST",
        settings=ListenerSettings(),
        response_memory=Budget(most=1 << 20),
    )


def test_a_request_for_unchanged_metadata_makes_no_message() -> None:
    broker = FixedMetadata()
    context = context_over(broker)
    request = {"topics": [{"name": "orders"}]}
    broker.shown = snapshot(1_000)
    first = calls_of(lambda: at_once(metadata(context, 9, request)))
    again = calls_of(lambda: at_once(metadata(context, 9, request)))
    assert first > 1_000
    assert again < 100


def test_changed_metadata_is_shown_at_once() -> None:
    broker = FixedMetadata()
    context = context_over(broker)
    assert context.metadata().topics[0]["partitions"][0]["leader_id"] == ME
    broker.shown = snapshot(2, leader=NO_LEADER)
    shown = context.metadata().topics[0]["partitions"]
    assert [each["error_code"] for each in shown] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2


def test_a_dead_broker_is_listed_and_leads_nothing() -> None:
    broker = FixedMetadata()
    dead = BrokerMetadata(broker_id=ME, endpoint=ENDPOINT, is_live=False)
    broker.shown = replace(snapshot(1), brokers=(dead,))
    view = context_over(broker).metadata()
    assert [each["node_id"] for each in view.brokers] == [ME]
    (partition,) = view.topics[0]["partitions"]
    assert partition["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition["leader_id"] == NO_LEADER
    hints = LeaderHints(lambda: view)
    assert hints.of("orders", 0, MOVED) is None, "a client would go there at once"
    assert hints.endpoints() == []


def test_views_keep_one_view() -> None:
    views = MetadataViews()
    one, other = snapshot(1), snapshot(1)
    view = views.of(one)
    assert views.of(one) is view
    assert views.of(other) is not view
    assert views.of(one) is not view


def test_a_hint_costs_the_same_whatever_partition_it_is_for() -> None:
    view = MetadataView(snapshot(10_000))
    hints = LeaderHints(lambda: view)
    few = calls_of(lambda: [hints.of("orders", each, MOVED) for each in range(10)])
    last = calls_of(lambda: [hints.of("orders", each, MOVED) for each in range(9_990, 10_000)])
    assert last <= few
    assert hints.of("orders", 9_999, MOVED) == {"leader_id": ME, "leader_epoch": 3}
    assert hints.of("orders", 10_000, MOVED) is None
    assert hints.of("absent", 0, MOVED) is None
    assert hints.of("orders", 0, ErrorCode.NONE) is None
    assert [each["node_id"] for each in hints.endpoints()] == [ME]


def test_hints_that_are_not_needed_read_no_metadata() -> None:
    asked: list[MetadataView] = []

    def read() -> MetadataView:
        asked.append(MetadataView(snapshot(1)))
        return asked[-1]

    hints = LeaderHints(read)
    assert hints.of("orders", 0, ErrorCode.OFFSET_OUT_OF_RANGE) is None
    assert hints.endpoints() == []
    assert asked == []


def test_a_broker_is_shown_with_its_rack_and_one_without_has_none() -> None:
    brokers = (
        BrokerMetadata(broker_id=ME, endpoint=ENDPOINT, rack="zone-a"),
        BrokerMetadata(broker_id=BrokerId(1), endpoint=ENDPOINT),
    )
    shown = MetadataView(replace(snapshot(1), brokers=brokers)).brokers
    assert [each["rack"] for each in shown] == ["zone-a", None]
