"""Offsets by time with real clients: every codec, a dead leader, deleted records, a restart."""

from __future__ import annotations

import subprocess

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SILENT_BROKER_MS
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

LIMIT_SECONDS = 20
ANSWER_LIMIT_SECONDS = 5
FIRST_MS = 1_700_000_000_000
STEP_MS = 1_000
BATCH_RECORDS = 5
BATCHES = 8
RECORDS = BATCHES * BATCH_RECORDS
VALUE = b"v" * 2_000
EXACT_CODECS = ("none", "gzip")
CODECS = (*EXACT_CODECS, "snappy", "lz4", "zstd")


def time_of(offset: int) -> int:
    return FIRST_MS + offset * STEP_MS


def send_batches(group: BrokerGroup, topic: str, codec: str) -> None:
    """Send records one second apart, BATCH_RECORDS in each batch."""
    producer = Producer(
        {
            "bootstrap.servers": group.bootstrap(),
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 1_000,
        }
    )
    for offset in range(RECORDS):
        producer.produce(topic, VALUE, partition=0, timestamp=time_of(offset))
        if offset % BATCH_RECORDS == BATCH_RECORDS - 1:
            assert producer.flush(LIMIT_SECONDS) == 0


def offset_at(group: BrokerGroup, topic: str, timestamp_ms: int) -> int:
    """Return what confluent-kafka's consumer is told for a time; -1 for none.

    A consumer that was told of a dead leader asks for no other one: the caller asks anew.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": group.bootstrap(),
            "group.id": "unused",
            "socket.timeout.ms": SILENT_BROKER_MS,
        }
    )
    try:
        (found,) = consumer.offsets_for_times(
            [TopicPartition(topic, 0, timestamp_ms)], timeout=ANSWER_LIMIT_SECONDS
        )
    finally:
        consumer.close()
    assert found.error is None
    return int(found.offset)


def test_clients_find_offsets_by_time(group: BrokerGroup) -> None:
    for codec in CODECS:
        group.create_topic(codec, config={"segmentBytes": 16_384})
    for codec in CODECS:
        group.wait_full_isr(codec)
        send_batches(group, codec, codec)
        for wanted in (0, 1, 13, 20, RECORDS - 1):
            first = wanted if codec in EXACT_CODECS else wanted - wanted % BATCH_RECORDS
            assert offset_at(group, codec, time_of(wanted)) == first, (codec, wanted)
            assert offset_at(group, codec, time_of(wanted) - STEP_MS // 2) == first, (codec, wanted)
        assert offset_at(group, codec, time_of(RECORDS)) == -1
        assert offset_at(group, codec, 0) == 0


def test_times_are_found_after_a_leaders_death_a_deletion_and_a_restart(
    group: BrokerGroup,
) -> None:
    group.create_topic("orders", config={"segmentBytes": 16_384})
    group.wait_full_isr("orders")
    send_batches(group, "orders", "gzip")
    group.brokers[group.wait_leader("orders")].kill()

    def finds(wanted: int, expected: int) -> None:
        def found() -> bool:
            assert offset_at(group, "orders", time_of(wanted)) == expected
            return True

        what = f"offset {expected} for the time of {wanted}"
        eventually(found, FAULT_LIMIT_MS, what, retry_on=(AssertionError, KafkaException))

    finds(17, 17)
    group.start()
    group.wait_full_isr("orders")
    admin = AdminClient({"bootstrap.servers": group.bootstrap()})
    (deleted,) = admin.delete_records([TopicPartition("orders", 0, 22)]).values()
    assert deleted.result(LIMIT_SECONDS).low_watermark == 22
    for broker in group.brokers:
        broker.kill()
    group.start()
    group.wait_leader("orders")
    finds(17, 22)
    finds(31, 31)
    finds(RECORDS, -1)


def test_kcat_finds_offsets_by_time(group: BrokerGroup) -> None:
    group.create_topic("asked")
    group.wait_full_isr("asked")
    send_batches(group, "asked", "none")
    asked = ["kcat", "-b", group.bootstrap(), "-Q", "-t", f"asked:0:{time_of(7)}"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    assert told.stdout.split() == ["asked", "[0]", "offset", "7"]
