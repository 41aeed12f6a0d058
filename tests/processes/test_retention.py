"""Logs that begin later: by retention, by a client, after a kill of all brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually

from .conftest import MakeGroup

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

VALUE = b"v" * 4_000
SEGMENT_BYTES = 16_384
KEPT_BYTES = 4 * SEGMENT_BYTES
RECORDS = 60
LIMIT_SECONDS = 20


@pytest.fixture
def fast_group(make_group: MakeGroup) -> BrokerGroup:
    """Provide brokers that look for old segments often."""
    return make_group(**{"log.retention.check.interval.ms": 200})


def consumer_of(group: BrokerGroup) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": group.bootstrap(),
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )


def log_start(group: BrokerGroup, topic: str) -> int:
    """Return the earliest offset of partition 0, as a client sees it."""
    consumer = consumer_of(group)
    try:
        found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=LIMIT_SECONDS)
    finally:
        consumer.close()
    assert found is not None
    return int(found[0])


def first_offset(group: BrokerGroup, topic: str, *, asked: int) -> int:
    """Return the offset of the first record that a consumer gets which begins at `asked`."""
    consumer = consumer_of(group)
    consumer.assign([TopicPartition(topic, 0, asked)])
    try:
        message = consumer.poll(LIMIT_SECONDS)
    finally:
        consumer.close()
    assert message is not None
    assert message.error() is None
    offset = message.offset()
    assert offset is not None
    return offset


def send(group: BrokerGroup, topic: str, count: int, *, prefix: str) -> SentRecords:
    sent = SentRecords(producer_of(group.bootstrap()), topic, prefix=prefix)
    for number in range(count):
        sent.send_value(b"%s-%d-" % (prefix.encode(), number) + VALUE)
        # One batch for each record: a batch may not be larger than a segment.
        sent.settle()
    return sent


def log_bytes(folder: Path) -> int:
    """Return the bytes of a log's segments; the broker must not delete one meanwhile."""
    try:
        return sum(path.stat().st_size for path in folder.glob("*.log"))
    except FileNotFoundError as gone:
        raise AssertionError("a segment was deleted meanwhile") from gone


def delete_below(group: BrokerGroup, topic: str, offset: int) -> int:
    """Delete records with confluent-kafka's admin client; return the low watermark."""
    admin = AdminClient({"bootstrap.servers": group.bootstrap()})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    return int(deleted.result(LIMIT_SECONDS).low_watermark)


def test_a_log_shrinks_on_every_replica_and_consumers_go_on_at_its_start(
    fast_group: BrokerGroup,
) -> None:
    group = fast_group
    config = {
        "segmentBytes": SEGMENT_BYTES,
        "retentionBytes": KEPT_BYTES,
        "fileDeleteDelayMs": 100,
    }
    topic_id = group.create_topic("small", config=config)
    group.wait_full_isr("small")
    away = (group.wait_leader("small") + 1) % 3
    send(group, "small", 5, prefix="first")
    group.brokers[away].kill()
    sent = send(group, "small", RECORDS, prefix="more")

    def shrunk() -> bool:
        sizes = {
            number: log_bytes(group.log_folder(number, topic_id))
            for number in range(3)
            if number != away
        }
        if all(KEPT_BYTES <= size <= KEPT_BYTES + 2 * SEGMENT_BYTES for size in sizes.values()):
            return True
        # A segment that grew while others waited for a flush is rolled by the next record.
        sent.send_value(b"again-%d-" % len(sent.offsets) + VALUE)
        sent.settle()
        raise AssertionError(sizes)

    eventually(shrunk, FAULT_LIMIT_MS, "logs as small as retention.bytes says")

    def begins() -> int:
        start = log_start(group, "small")
        assert first_offset(group, "small", asked=0) == start
        return start

    # The log may lose one more segment between the two looks.
    start = eventually(begins, FAULT_LIMIT_MS, "consumers begin at the log start")
    assert start > 5
    kept = {value: offset for value, offset in sent.offsets.items() if offset >= start}
    assert read_all(group.bootstrap(), "small", len(kept)) == kept
    # The broker that was away ends below the leader's log start: it begins there.
    group.start()
    group.wait_full_isr("small")

    def cleaned() -> bool:
        for number in range(3):
            folder = group.log_folder(number, topic_id)
            assert int(min(folder.glob("*.log")).stem) <= start, number
            assert list(folder.glob("*.deleted")) == []
        assert int(min(group.log_folder(away, topic_id).glob("*.log")).stem) > 5
        return True

    eventually(cleaned, FAULT_LIMIT_MS, "deleted files gone")


def test_deleted_records_stay_deleted_when_all_brokers_are_killed(group: BrokerGroup) -> None:
    group.create_topic("erased")
    group.wait_full_isr("erased")
    sent = send(group, "erased", 10, prefix="value")
    assert delete_below(group, "erased", 7) == 7
    assert log_start(group, "erased") == 7
    for broker in group.brokers:
        broker.kill()
    group.start()
    group.wait_leader("erased")

    def begins_there() -> bool:
        assert log_start(group, "erased") == 7
        return True

    # A leader refuses while its high watermark is below where its leadership began (KIP-207).
    eventually(
        begins_there,
        FAULT_LIMIT_MS,
        "the log start after a restart of all brokers",
        retry_on=(AssertionError, KafkaException),
    )
    kept = {value: offset for value, offset in sent.offsets.items() if offset >= 7}
    assert read_all(group.bootstrap(), "erased", 3) == kept
    with pytest.raises(KafkaException) as refused:
        delete_below(group, "erased", 11)
    error = refused.value.args[0]
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert delete_below(group, "erased", -1) == 10
