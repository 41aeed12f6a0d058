"""A follower that becomes leader knows the sequence numbers of its former leader's producers."""

from __future__ import annotations

import pytest

from strandline.errors import ErrorCode
from strandline.kafka_listener.schemas import INIT_PRODUCER_ID, PRODUCE
from strandline.kafka_listener.wire import Message
from tests.kafka.requests import only, produce
from tests.kafka.support import make_batch
from tests.kafka.wire_client import WireClient
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.eventually import eventually
from tests.support.load import scan_log

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

TOPIC = "sequences"
PRODUCE_VERSION, INIT_VERSION = 9, 4
REMEMBERED = 5
"""How many batches of a producer every replica remembers."""
RECORDS_EACH = 2
"""Records of a batch: more than one, so that a sequence number is not a batch's number."""
BEFORE = 1
"""Records of another producer at the beginning, so that offsets differ from sequence numbers."""


class Producer:
    """One producer id, whose batch n can be sent to any broker, and more than once."""

    def __init__(self, group: BrokerGroup) -> None:
        self._group = group
        message: Message = {
            "transactional_id": None,
            "transaction_timeout_ms": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        response = self._ask(group.wait_leader(TOPIC), INIT_PRODUCER_ID, INIT_VERSION, message)
        assert response["error_code"] == ErrorCode.NONE
        self.producer_id = int(response["producer_id"])

    def _ask(self, broker: int, api_key: int, version: int, message: Message) -> Message:
        with WireClient(self._group.brokers[broker].internal_port) as client:
            return client.ask(api_key, version, message)

    def send(self, leader: int, batch: bytes) -> tuple[int, int]:
        """Send a batch with acks=all; return error and base offset."""
        response = only(self._ask(leader, PRODUCE, PRODUCE_VERSION, produce(batch, topic=TOPIC)))
        return response["error_code"], response["base_offset"]

    def send_batch(self, leader: int, number: int) -> tuple[int, int]:
        """Send the batch with this number, the same bytes each time."""
        values = [b"%d-%d" % (number, record) for record in range(RECORDS_EACH)]
        sequence = number * RECORDS_EACH
        return self.send(
            leader, make_batch(values, producer_id=self.producer_id, sequence=sequence)
        )

    def wait_acked(self, leader: int, number: int) -> None:
        """Send a batch until it is acknowledged at its offset, as a client's library does."""

        def acked() -> bool:
            assert self.send_batch(leader, number) == (ErrorCode.NONE, offset_of(number))
            return True

        eventually(acked, FAULT_LIMIT_MS, f"batch {number} at broker {leader}")


def offset_of(number: int) -> int:
    return BEFORE + number * RECORDS_EACH


def test_every_replica_knows_the_last_five_batches_of_a_producer(group: BrokerGroup) -> None:
    """Two leaders die, one after the other; neither successor was a leader before."""
    topic_id = group.create_topic(TOPIC, assignments=[[0, 1, 2]], min_insync_replicas=1)
    group.wait_full_isr(TOPIC)
    producer = Producer(group)
    leader = group.wait_leader(TOPIC)
    eventually(
        lambda: producer.send(leader, make_batch([b"before"])) == (ErrorCode.NONE, 0),
        FAULT_LIMIT_MS,
        "the first record",
    )
    newest = 6
    for number in range(newest + 1):
        producer.wait_acked(leader, number)
    led = [leader]
    while len(led) < len(group.brokers):
        group.brokers[leader].kill()
        leader = group.wait_leader(TOPIC, other_than=leader)
        led.append(leader)
        # A retry of a batch that the dead leader acknowledged gets its offset, without a write.
        producer.wait_acked(leader, newest)
        for number in range(newest - REMEMBERED + 1, newest + 1):
            assert producer.send_batch(leader, number) == (ErrorCode.NONE, offset_of(number))
        # The batch before those: the broker cannot know that it is in the log, so it refuses it.
        refused = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert producer.send_batch(leader, newest - REMEMBERED) == refused
        assert producer.send_batch(leader, newest + 2) == refused
        newest += 1
        producer.wait_acked(leader, newest)
    assert sorted(led) == [0, 1, 2]
    group.start()
    group.wait_full_isr(TOPIC)
    wanted = [b"before"] + [
        b"%d-%d" % (number, record)
        for number in range(newest + 1)
        for record in range(RECORDS_EACH)
    ]

    def equal_logs() -> bool:
        for broker in range(3):
            found = scan_log(group.log_folder(broker, topic_id), broker, 0)
            assert [each.value.encode() for each in found] == wanted, broker
        return True

    eventually(equal_logs, FAULT_LIMIT_MS, "every record once in every log")
