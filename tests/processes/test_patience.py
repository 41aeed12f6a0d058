"""Who writes a record twice: a client that gives up on others, and never a broker."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from strandline.dump_log.log_reader import read_log
from tests.support.broker_group import FORMED_LIMIT_MS, BrokerGroup
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

PARTITIONS = 2
SECONDS, FROZEN_AT, THAWED_AT = 12.0, 1.0, 8.5
"""Two of three brokers are frozen for longer than an impatient client waits."""
IMPATIENT_MS, PATIENT_MS = 6_000, 120_000
FLUSH_SECONDS = 60
METADATA_SECONDS = 10


@dataclass(slots=True)
class Outcomes:
    """How the sends ended, by the name of the error, "" for an acknowledgement."""

    ended: Counter[str] = field(default_factory=Counter)

    def note(self, error: KafkaError | None, _message: Message) -> None:
        self.ended["" if error is None else error.name()] += 1


def wait_known(group: BrokerGroup, topic: str) -> None:
    """Wait until each broker tells clients of all partitions; the store has them before."""

    def is_known(address: str) -> bool:
        client = AdminClient({"bootstrap.servers": address})
        found = client.list_topics(topic, timeout=METADATA_SECONDS).topics[topic]
        return len(found.partitions) == PARTITIONS

    for address in group.bootstrap().split(","):
        eventually(partial(is_known, address), FORMED_LIMIT_MS, f"{topic} at {address}")


def write_beside_frozen_brokers(group: BrokerGroup, topic: str, patience_ms: int) -> Outcomes:
    """Write to both partitions; one is led by a broker that is frozen for a while."""
    wait_known(group, topic)
    producer = Producer(
        {
            "bootstrap.servers": group.bootstrap(),
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "delivery.timeout.ms": patience_ms,
            "request.timeout.ms": 1_500,
            "socket.timeout.ms": 3_000,
        }
    )
    outcomes, begun, sent = Outcomes(), time.monotonic(), 0
    steps = [
        *((FROZEN_AT, partial(group.brokers[each].freeze)) for each in (1, 2)),
        *((THAWED_AT, partial(group.brokers[each].thaw)) for each in (1, 2)),
    ]
    while (now := time.monotonic() - begun) < SECONDS:
        while steps and steps[0][0] <= now:
            steps.pop(0)[1]()
        for number in range(PARTITIONS):
            producer.produce(topic, b"%d" % sent, partition=number, on_delivery=outcomes.note)
        sent += 1
        producer.poll(0.05)
    assert producer.flush(FLUSH_SECONDS) == 0
    return outcomes


def copies(group: BrokerGroup, topic_id: str) -> Counter[tuple[int, bytes, int]]:
    """Return how often a log has a record of a producer epoch, by partition, value and epoch."""
    found: Counter[tuple[int, bytes, int]] = Counter()
    for number in range(PARTITIONS):
        for batch in read_log(group.log_folder(number, topic_id, number)):
            for record in batch.records or ():
                found[number, record.value or b"", batch.header.producer_epoch] += 1
    return found


def test_a_client_that_gives_nothing_up_has_every_record_once(group: BrokerGroup) -> None:
    topic_id = group.create_topic("patient", assignments=[[0, 1, 2], [1, 2, 0]])
    group.wait_full_isr("patient", PARTITIONS)
    outcomes = write_beside_frozen_brokers(group, "patient", PATIENT_MS)
    group.wait_full_isr("patient", PARTITIONS)
    assert outcomes.ended.keys() == {""}
    found = copies(group, topic_id)
    assert set(found.values()) == {1}
    assert {epoch for _, _, epoch in found} == {0}
    assert found.total() == outcomes.ended[""]


def test_a_record_is_there_twice_only_in_two_epochs_of_a_client_that_gave_up(
    group: BrokerGroup,
) -> None:
    topic_id = group.create_topic("impatient", assignments=[[0, 1, 2], [1, 2, 0]])
    group.wait_full_isr("impatient", PARTITIONS)
    outcomes = write_beside_frozen_brokers(group, "impatient", IMPATIENT_MS)
    group.wait_full_isr("impatient", PARTITIONS)
    assert outcomes.ended.keys() == {"", "_MSG_TIMED_OUT"}
    found = copies(group, topic_id)
    assert set(found.values()) == {1}, "no epoch has a record twice"
    assert len({epoch for _, _, epoch in found}) > 1
