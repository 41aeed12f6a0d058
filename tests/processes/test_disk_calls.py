"""Each disk call of a whole broker's event loop is one of a table, and no larger than it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from strandline.config.replication import ReplicationConfig
from strandline.log.segment import INDEX_SUFFIX, LOG_SUFFIX
from strandline.log.segment_cut import CUT_AT_ONCE_BYTES_MAX
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually
from tests.support.loop_disk_calls import OUTSIDE, LoopCall, read_calls

from .conftest import MakeGroup

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

MIB = 1 << 20
PARTITIONS = 3
AT_ONCE = 20
VALUE_BYTES = 1_000
SEGMENT_BYTES = 1 << 16
SMALL_SEGMENTS = {"segmentBytes": SEGMENT_BYTES, "maxMessageBytes": SEGMENT_BYTES}
READ_MAX_BYTES = ReplicationConfig().fetch_max_bytes + 4_096 + 61
"""A follower's part of a response, one interval of the index before it, and a batch's header."""

PERMITTED: dict[tuple[str, str], int] = {
    # An append: one client's batch, or what one response to a follower holds of a partition.
    ("pwritev", ".log"): MIB,
    # A follower's read, at most one for each partition of a response; a small read of a consumer at
    # the tail; a truncation's look for its batch within one interval of the index.
    ("pread", ".log"): READ_MAX_BYTES,
    # A roll, one for each segment that fills up.
    ("create", ".log"): 0,
    # The first read of a sealed segment, one of each kind: the index has log.index.size.max.bytes
    # at most, and is never made there.
    ("open", ".log"): 0,
    ("open", ".index"): 0,
    # A truncation: renames of what it takes whole, a cut of a short tail or a small write where a
    # long one begins, the removal of two small files.
    ("ftruncate", ".log"): CUT_AT_ONCE_BYTES_MAX,
    ("rename", ".log"): 0,
    ("remove", ".index"): 0,
    ("remove", ".summary"): 0,
    # Retention, at each check: the oldest segments, up to the first that stays.
    ("stat", ".log"): 0,
    # Before the first append that counts without an fsync, once in the life of a process.
    ("remove", ".flushed.json"): 0,
    ("open", "data directory"): 0,
    ("fsync", "data directory"): 0,
    # What is free, once a second at most.
    ("statvfs", "data directory"): 0,
    # The client's certificate of the API server: a small file, at a start.
    ("create", OUTSIDE): 0,
    ("open", OUTSIDE): 0,
    ("remove", OUTSIDE): 0,
    ("stat", OUTSIDE): 0,
}
"""The greatest size of each kind of call that an event loop may make; 0 for calls without one."""

MUST_BE_SEEN = {
    ("pwritev", ".log"),
    ("pread", ".log"),
    ("create", ".log"),
    ("ftruncate", ".log"),
    ("open", ".log"),
    ("statvfs", "data directory"),
}
"""What the life below causes for sure: a test that sees nothing has no watch."""


def test_every_disk_call_of_the_event_loop_is_known_and_bounded(make_group: MakeGroup) -> None:
    group = make_group(
        watched=True,
        **{
            "log.retention.check.interval.ms": 200,
            "log.flush.offset.checkpoint.interval.ms": 500,
        },
    )
    live(group)
    calls = list(calls_of(group))
    unknown = [call for call in calls if (call.call, call.file) not in PERMITTED]
    assert not unknown, "\n".join(map(str, unknown))
    larger = [call for call in calls if call.size_bytes > PERMITTED[call.call, call.file]]
    assert not larger, "\n".join(map(str, larger))
    assert {(call.call, call.file) for call in calls} >= MUST_BE_SEEN


def calls_of(group: BrokerGroup) -> Iterator[LoopCall]:
    for broker in group.brokers:
        yield from read_calls(broker.calls_file)


def live(group: BrokerGroup) -> None:
    """Create, produce, roll, read, delete, take over, catch up, truncate and start again."""
    group.create_topic("orders", partitions=PARTITIONS, config=SMALL_SEGMENTS)
    group.create_topic("flushed", flush_messages=1, config=SMALL_SEGMENTS)
    group.wait_full_isr("orders", PARTITIONS)
    group.wait_full_isr("flushed")
    producer = producer_of(group.bootstrap())
    orders = [long_values(producer, "orders", number) for number in range(PARTITIONS)]
    flushed = long_values(producer, "flushed", 0)
    for sent in (*orders, flushed):
        send(sent, 10 * AT_ONCE)
    read_all(group.bootstrap(), "orders", 10 * AT_ONCE)
    delete_records(group, "orders", 1, offset=5 * AT_ONCE)
    catch_up_without_indexes(group, orders[0])
    truncate(group, orders[0])
    delete_topic(group, "flushed")
    for broker in group.brokers:
        assert broker.stop() == 0
    group.start()
    group.wait_full_isr("orders", PARTITIONS)
    send(orders[2], AT_ONCE)


def long_values(producer: Producer, topic: str, number: int) -> SentRecords:
    return SentRecords(producer, topic, partition=number, prefix="x" * VALUE_BYTES)


def send(sent: SentRecords, count: int) -> None:
    """Send in batches that are smaller than a segment."""
    for _ in range(0, count, AT_ONCE):
        sent.send(AT_ONCE)
        sent.settle()


def delete_records(group: BrokerGroup, topic: str, number: int, *, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": group.bootstrap()})
    (deleted,) = admin.delete_records([TopicPartition(topic, number, offset)]).values()
    assert deleted.result().low_watermark == offset
    del admin


def catch_up_without_indexes(group: BrokerGroup, sent: SentRecords) -> None:
    """Kill a follower, take the leader's index files away, and let the follower catch up."""
    leader = group.wait_leader("orders")
    follower = (leader + 1) % len(group.brokers)
    group.brokers[follower].kill()
    send(sent, 10 * AT_ONCE)
    folder = group.log_folder(leader, group.topic_id("orders"))
    sealed = sorted(folder.glob("*" + LOG_SUFFIX))[:-1]

    def all_flushed() -> bool:
        assert all(path.with_suffix(INDEX_SUFFIX).exists() for path in sealed)
        return True

    eventually(all_flushed, FAULT_LIMIT_MS, "indexes of sealed segments")
    for path in sealed:
        path.with_suffix(INDEX_SUFFIX).unlink()
    group.start()
    group.wait_full_isr("orders", PARTITIONS)


def truncate(group: BrokerGroup, sent: SentRecords) -> None:
    """Freeze a leader that has more than the others until another one leads.

    Meanwhile the index files of its sealed segments go.
    """
    old = group.wait_leader("orders")
    others = [broker for broker in range(len(group.brokers)) if broker != old]
    unsafe = long_values(producer_of(group.bootstrap(), acks="1"), "orders", 0)
    send(unsafe, 1)
    for other in others:
        group.brokers[other].freeze()
    send(unsafe, 6 * AT_ONCE)
    group.brokers[old].freeze()
    for path in group.log_folder(old, group.topic_id("orders")).glob("*" + INDEX_SUFFIX):
        path.unlink()
    for other in others:
        group.brokers[other].thaw()
    group.wait_leader("orders", other_than=old)
    send(sent, AT_ONCE)
    group.brokers[old].thaw()
    group.brokers[old].wait_for("truncated")
    group.wait_full_isr("orders", PARTITIONS)


def delete_topic(group: BrokerGroup, topic: str) -> None:
    """Delete a topic, and wait until no broker has a folder of it."""
    topic_id = group.topic_id(topic)
    group.control_plane.kubectl("delete", "replicatedtopic", topic, "-n", group.namespace)

    def gone() -> bool:
        assert not any(group.log_folder(each, topic_id).exists() for each in range(3))
        return True

    eventually(gone, FAULT_LIMIT_MS, f"no folder of {topic}")
