"""The clients people have produce and consume through a leader's death, byte for byte."""

from __future__ import annotations

import gc
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Producer
from kafka.structs import TopicPartition

from tests.support.broker_group import BrokerGroup
from tests.support.clients import SILENT_BROKER_MS, SentRecords, producer_of, read_all

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

COUNT = 200
SEPARATOR = b"\xff"
"""Stands in no value below: kcat knows records by what is between them."""
KCAT_LIMIT_SECONDS = 60


def open_sockets() -> dict[int, socket.socket]:
    found = [item for item in gc.get_objects() if isinstance(item, socket.socket)]
    return {id(item): item for item in found if item.fileno() >= 0}


@pytest.fixture(autouse=True)
def close_leaks() -> Iterator[None]:
    """Close the sockets that kafka-python opened to a dead broker and keeps after close()."""
    before = open_sockets()
    yield
    for name, leaked in open_sockets().items():
        if name not in before:
            leaked.close()


def values(seed: int) -> list[bytes]:
    """Return values of all sizes and all bytes but SEPARATOR."""
    source = random.Random(seed)
    sizes = [1, 100, 3_000, 20_000]
    made = [source.randbytes(source.choice(sizes)).replace(SEPARATOR, b"\0") for _ in range(COUNT)]
    return [b"%d:" % number + value for number, value in enumerate(made)]


def in_order(found: dict[bytes, int]) -> list[bytes]:
    return [value for value, _ in sorted(found.items(), key=lambda item: item[1])]


def kcat(group: BrokerGroup, topic: str, *options: str) -> list[str]:
    return [
        "kcat",
        *("-D", r"\xff", "-b", group.bootstrap(), "-t", topic, "-p", "0"),
        *("-X", f"socket.timeout.ms={SILENT_BROKER_MS}", "-X", "retry.backoff.ms=50"),
        *options,
    ]


def kcat_consume(group: BrokerGroup, topic: str, count: int) -> list[bytes]:
    command = kcat(group, topic, "-C", "-o", "beginning", "-c", str(count), "-q")
    done = subprocess.run(command, capture_output=True, timeout=KCAT_LIMIT_SECONDS, check=True)
    return done.stdout.split(SEPARATOR)[:-1]


def killed_leader(group: BrokerGroup, topic: str) -> None:
    leader = group.wait_leader(topic)
    group.brokers[leader].kill()


def ready_topic(group: BrokerGroup, topic: str) -> None:
    group.create_topic(topic)
    group.wait_full_isr(topic)


def test_kcat_produces_idempotently_through_a_leader_kill(
    group: BrokerGroup, tmp_path: Path
) -> None:
    ready_topic(group, "kcat")
    wanted = values(1)
    options = ("-P", "-X", "enable.idempotence=true", "-X", "linger.ms=5")
    errors = tmp_path / "kcat.stderr"
    with errors.open("wb") as stderr:
        producer = subprocess.Popen(
            kcat(group, "kcat", *options), stdin=subprocess.PIPE, stderr=stderr
        )
    assert producer.stdin is not None
    half = COUNT // 2
    producer.stdin.write(SEPARATOR.join(wanted[:half]) + SEPARATOR)
    producer.stdin.flush()
    read_all(group.bootstrap(), "kcat", 1)
    killed_leader(group, "kcat")
    producer.stdin.write(SEPARATOR.join(wanted[half:]))
    producer.stdin.close()
    assert producer.wait(KCAT_LIMIT_SECONDS) == 0, errors.read_text()
    assert in_order(read_all(group.bootstrap(), "kcat", COUNT)) == wanted
    assert kcat_consume(group, "kcat", COUNT) == wanted


def produce_confluent(group: BrokerGroup, topic: str, wanted: list[bytes]) -> None:
    producer: Producer = producer_of(group.bootstrap())
    sent = SentRecords(producer, topic)
    for number, value in enumerate(wanted):
        if number == COUNT // 2:
            sent.settle()
            killed_leader(group, topic)
        sent.send_value(value)
    sent.settle()


def produce_kafka_python(group: BrokerGroup, topic: str, wanted: list[bytes]) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=group.bootstrap().split(","),
        acks="all",
        retries=1_000,
        retry_backoff_ms=50,
        max_in_flight_requests_per_connection=1,
    )
    pending = []
    for number, value in enumerate(wanted):
        if number == COUNT // 2:
            producer.flush(KCAT_LIMIT_SECONDS)
            killed_leader(group, topic)
        pending.append(producer.send(topic, value, partition=0))
    producer.flush(KCAT_LIMIT_SECONDS)
    offsets = [future.get(KCAT_LIMIT_SECONDS).offset for future in pending]
    producer.close()
    assert offsets == list(range(COUNT))


def consume_kafka_python(group: BrokerGroup, topic: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=group.bootstrap().split(","),
        group_id=None,
        consumer_timeout_ms=20_000,
        auto_offset_reset="earliest",
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found: list[bytes] = []
    for record in consumer:
        found.append(record.value)
        if len(found) == COUNT // 2:
            killed_leader(group, topic)
        if len(found) == COUNT:
            break
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("topic", "produce"),
    [
        pytest.param("confluent", produce_confluent, id="confluent-kafka"),
        pytest.param("kafka-python", produce_kafka_python, id="kafka-python"),
    ],
)
def test_libraries_produce_and_consume_through_leader_kills(
    group: BrokerGroup, topic: str, produce: Callable[[BrokerGroup, str, list[bytes]], None]
) -> None:
    ready_topic(group, topic)
    wanted = values(2)
    produce(group, topic, wanted)
    assert in_order(read_all(group.bootstrap(), topic, COUNT)) == wanted
    group.start()
    group.wait_full_isr(topic)
    assert consume_kafka_python(group, topic) == wanted
