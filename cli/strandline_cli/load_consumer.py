"""Consumes the records of the load, and writes them to the history.

There is one consumer without a group: it assigns every partition at its beginning, and the library
reconnects by itself. `load_generator` calls it between two sends, so it does not block then.
"""

from __future__ import annotations

from typing import IO

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from strandline_checker.history import Read, read_line

TAKEN_MAX = 500
"""Records read at once: enough to keep up, few enough not to delay the producer."""
CONNECTION = {
    # A new pod has another address, and its old address is silent: by default the library would
    # wait there for half a minute.
    "socket.connection.setup.timeout.ms": 2_000,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}
"""How the producer and the consumer of a load find brokers again."""
RETRIED_ERRORS = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - the library names its local errors so
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._PARTITION_EOF,  # noqa: SLF001
    }
)
"""Errors about brokers that come and go; the library retries by itself."""


class LoadConsumer:
    """Reads all partitions of a topic from the beginning; next_offset is by partition."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, name: str) -> None:
        self._name = name
        self.next_offset = dict.fromkeys(range(partitions), 0)
        self.errors: dict[str, int] = {}
        self._consumer = Consumer(
            {
                **CONNECTION,
                "bootstrap.servers": bootstrap,
                # The library demands a name; without subscribe or commit no group is joined.
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        )

    def take(self, history: IO[str], wait_seconds: float = 0.0) -> None:
        """Write the records that have arrived to the history."""
        for message in self._consumer.consume(TAKEN_MAX, timeout=wait_seconds):
            error = message.error()
            if error is not None:
                if error.code() not in RETRIED_ERRORS:
                    self.errors[error.name()] = self.errors.get(error.name(), 0) + 1
                continue
            value, offset, partition = message.value(), message.offset(), message.partition()
            if not isinstance(value, bytes) or offset is None or partition is None:
                continue
            read = Read(
                consumer=self._name,
                partition=partition,
                offset=offset,
                value=value.decode(errors="backslashreplace"),
            )
            history.write(read_line(read) + "\n")
            self.next_offset[partition] = offset + 1

    def unread(self, ends: dict[int, int]) -> dict[int, int]:
        """Return how many records below these offsets are unread, by partition that has any."""
        return {
            partition: end - self.next_offset[partition]
            for partition, end in sorted(ends.items())
            if self.next_offset[partition] < end
        }

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
