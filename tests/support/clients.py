"""confluent-kafka's producer and consumer on one partition.

The producer keeps each acknowledged value with its offset, so that a test can compare it with
what a consumer reads.
"""

from __future__ import annotations

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.eventually import eventually

DELIVERY_LIMIT_SECONDS = 60
READ_LIMIT_MS = 60_000
SILENT_BROKER_MS = 2_000


def producer_of(bootstrap: str, *, acks: str = "all", retry_max_ms: int = 100) -> Producer:
    """Return a producer that notices failovers quickly; idempotent if acks is all.

    It tries a refused batch again at least once in retry_max_ms.
    """
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "linger.ms": 2,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": retry_max_ms,
            "delivery.timeout.ms": DELIVERY_LIMIT_SECONDS * 1000,
            # A frozen leader keeps its connections open: only this timeout ends the wait for it.
            "socket.timeout.ms": SILENT_BROKER_MS,
        }
    )


class SentRecords:
    """Values sent to one partition and the offsets under which they were acknowledged."""

    def __init__(
        self, producer: Producer, topic: str, *, partition: int = 0, prefix: str = "value"
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._prefix = prefix.encode()
        self.offsets: dict[bytes, int] = {}
        self.errors: list[KafkaError] = []
        self._count = 0

    def send(self, count: int) -> None:
        """Hand this many records to the library."""
        for _ in range(count):
            self.send_value(self._prefix + b"-%d" % self._count)

    def send_value(self, value: bytes) -> None:
        """Hand one record to the library."""
        if self._count == 0:
            self.wait_known()
        self._count += 1
        self._producer.produce(
            self._topic, value, partition=self._partition, on_delivery=self._done
        )
        self._producer.poll(0)

    def wait_known(self) -> None:
        """Wait until the library knows the partition, of a topic that is new or back."""
        eventually(self.is_known, DELIVERY_LIMIT_SECONDS * 1000, f"metadata of {self._topic}")

    def is_known(self) -> bool:
        """Ask, and tell whether the library knows the partition; else it gives records up at once.

        A broker may hear of a new topic's partitions one after the other.
        """
        found = self._producer.list_topics(self._topic, DELIVERY_LIMIT_SECONDS)
        return self._partition in found.topics[self._topic].partitions

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            value, offset = message.value(), message.offset()
            assert isinstance(value, bytes)
            assert offset is not None
            self.offsets[value] = offset

    def settle(self) -> None:
        """Wait until every record was acknowledged."""
        left = self._producer.flush(DELIVERY_LIMIT_SECONDS)
        assert left == 0
        assert self.errors == []


def read_all(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    found: dict[bytes, int] | None = None,
) -> dict[bytes, int]:
    """Read `count` records of a partition from its beginning; fail if a value comes twice.

    Values and offsets are added to `found` as they come, for tests that look at it meanwhile.
    """
    found = {} if found is None else found
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "socket.timeout.ms": SILENT_BROKER_MS,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])

    def poll() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                value, offset = message.value(), message.offset()
                assert isinstance(value, bytes)
                assert offset is not None
                assert value not in found
                found[value] = offset
        assert len(found) >= count, f"{len(found)} records"
        return True

    try:
        eventually(poll, READ_LIMIT_MS, f"{count} records of {topic}-{partition}")
    finally:
        consumer.close()
    return found
