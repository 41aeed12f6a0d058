"""kcat, confluent-kafka and kafka-python produce and consume through the listener."""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from strandline.errors import ErrorCode
from tests.kafka.support import CountingObserver, ListenerThread, MemoryBroker

SECONDS = 10.0
RECORDS = 200
CODECS = ("none", "gzip", "lz4", "zstd")


@pytest.fixture
def values() -> list[bytes]:
    source = random.Random(5)
    return [source.randbytes(source.randrange(1, 900)) for _ in range(RECORDS)]


@pytest.fixture
def served_alone(observer: CountingObserver) -> Iterator[None]:
    """Fail a test whose client sent a request that is not served."""
    yield
    assert observer.unsupported == []


def confluent_produce(address: str, values: list[bytes], **settings: Any) -> list[int]:
    """Produce to orders-0; return the acknowledged offsets."""
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": address, "linger.ms": 2, **settings})
    for number, value in enumerate(values):
        producer.produce("orders", value, key=b"%d" % number, partition=0, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    return offsets


def confluent_consume(
    address: str, count: int, *, offset: int = OFFSET_BEGINNING, **settings: Any
) -> list[tuple[int | None, bytes | None]]:
    """Consume from orders-0 by assignment; return offsets and values."""
    consumer = Consumer({
        "bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False,
        "auto.offset.reset": "error", "fetch.wait.max.ms": 20, **settings,
    })  # fmt: skip
    try:
        consumer.assign([TopicPartition("orders", 0, offset)])
        found: list[tuple[int | None, bytes | None]] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=SECONDS)
            assert messages, f"only {len(found)} of {count} arrived"
            for message in messages:
                assert message.error() is None, message.error()
                found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_idempotent_round_trip(
    running: ListenerThread, values: list[bytes], served_alone: None, codec: str,
    broker: MemoryBroker,
) -> None:  # fmt: skip
    compressible = [gzip.compress(value) + b"=" * 500 for value in values]
    offsets = confluent_produce(
        running.address, compressible,
        **{"acks": "all", "enable.idempotence": True, "compression.type": codec},
    )  # fmt: skip
    assert offsets == list(range(RECORDS))
    assert confluent_consume(running.address, RECORDS) == list(enumerate(compressible))
    codecs_stored = {batch[22] & 7 for batch in broker.logs["orders", 0].batches}
    assert codecs_stored == {{"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}[codec]}


@pytest.mark.parametrize("acks", ["0", "1"])
def test_confluent_kafka_with_fewer_acks(
    running: ListenerThread, values: list[bytes], served_alone: None, acks: str
) -> None:
    confluent_produce(running.address, values, acks=acks)
    assert [value for _, value in confluent_consume(running.address, RECORDS)] == values


def test_confluent_kafka_reads_from_the_middle_of_a_batch(
    running: ListenerThread, values: list[bytes], served_alone: None, broker: MemoryBroker
) -> None:
    confluent_produce(running.address, values)
    middle = broker.logs["orders", 0].starts[-1] + 1
    assert middle < RECORDS
    found = confluent_consume(running.address, RECORDS - middle, offset=middle)
    assert found == list(enumerate(values))[middle:]


def test_confluent_kafka_sees_both_ends_and_the_cluster(
    running: ListenerThread, values: list[bytes], served_alone: None
) -> None:
    confluent_produce(running.address, values)
    consumer = Consumer({"bootstrap.servers": running.address, "group.id": "unused"})
    try:
        ends = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=SECONDS)
    finally:
        consumer.close()
    assert ends == (0, RECORDS)
    seen = AdminClient({"bootstrap.servers": running.address}).list_topics(timeout=SECONDS)
    assert {name: len(topic.partitions) for name, topic in seen.topics.items()} == {
        "orders": 2,
        "audit": 1,
    }


def test_confluent_kafka_is_refused_transactions_at_once(running: ListenerThread) -> None:
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": "payments"})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(SECONDS)
    code = raised.value.args[0].code()
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_confluent_kafka_fails_on_an_unknown_topic(running: ListenerThread) -> None:
    errors: list[Any] = []
    producer = Producer({
        "bootstrap.servers": running.address, "message.timeout.ms": 3000,
        "topic.metadata.propagation.max.ms": 100,
    })  # fmt: skip
    producer.produce("nowhere", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    assert [str(error.name()) for error in errors] == ["UNKNOWN_TOPIC_OR_PART"]


@pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_kafka_python_round_trip_with_its_defaults(
    running: ListenerThread, values: list[bytes], served_alone: None, codec: str | None
) -> None:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=running.address, compression_type=codec)
    try:
        sent = [producer.send("orders", value, partition=0) for value in values]
        assert [each.get(timeout=SECONDS).offset for each in sent] == list(range(RECORDS))
    finally:
        producer.close(timeout=SECONDS)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=running.address, group_id=None, consumer_timeout_ms=5000
    )
    try:
        partition = kafka.TopicPartition("orders", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found = [next(consumer).value for _ in values]
    finally:
        consumer.close()
    assert found == values


@pytest.mark.processes
def test_kcat_round_trip(running: ListenerThread, served_alone: None) -> None:
    kcat = shutil.which("kcat")
    assert kcat is not None, "kcat is not installed"
    lines = "".join(f"line {number}\n" for number in range(RECORDS))
    common = [kcat, "-b", running.address, "-t", "orders", "-p", "0"]
    subprocess.run(
        [*common, "-P", "-X", "enable.idempotence=true"],
        input=lines, text=True, check=True, timeout=20,
    )  # fmt: skip
    consumed = subprocess.run(
        [*common, "-C", "-o", "beginning", "-e", "-q"],
        capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert consumed.stdout == lines
