"""Consumes the records of the load, and writes them to the history.

There is one consumer without a group: it assigns every partition at its beginning or, for a load
that compares what it reads, at its end. The library reconnects by itself. `load_generator` calls it
between two sends, so it does not block then.
"""

from __future__ import annotations

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from strandline_checker.history import Read, read_line

from .load_figures import FIGURES_MARK, ReadBack
from .load_history import HistoryFile

TAKEN_MAX = 500
"""Records read at once: enough to keep up, few enough not to delay the producer."""
QUEUE_MAX = {
    "queued.min.messages": 5_000,
    "queued.max.messages.kbytes": 1_024,
    "max.partition.fetch.bytes": 128 * 1_024,
    "fetch.max.bytes": 1_024 * 1_024,
}
"""What the library fetches ahead: by default 100,000 records of each partition, 43 MiB of memory
if they are as small as these."""
OFFSETS_SECONDS = 10.0
"""Bound of a request for the offsets at which a log begins and ends."""
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
    """Reads all partitions of a topic; next_offset is by partition.

    It begins at the beginning, or at the end if what it reads is compared: then retention may
    overtake it.
    Raises:  KafkaException if it shall begin at the end and nobody tells where that is
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        name: str,
        read_back: ReadBack | None = None,
    ) -> None:
        self._name = name
        self._topic = topic
        self._read_back = read_back
        self.next_offset = dict.fromkeys(range(partitions), 0)
        self.read = 0
        self.errors: dict[str, int] = {}
        self._consumer = Consumer(
            {
                **CONNECTION,
                **QUEUE_MAX,
                "bootstrap.servers": bootstrap,
                # The library demands a name; without subscribe or commit no group is joined.
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error" if read_back is None else "earliest",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        first = dict.fromkeys(self.next_offset, OFFSET_BEGINNING)
        if read_back is not None:
            first = {number: self._log_bounds(number)[1] for number in self.next_offset}
            self.next_offset = dict(first)
            read_back.next_offset = dict(first)
        self._consumer.assign(
            [TopicPartition(topic, number, offset) for number, offset in first.items()]
        )

    def take(self, history: HistoryFile, wait_seconds: float = 0.0) -> None:
        """Write the records that have arrived to the history."""
        for message in self._consumer.consume(TAKEN_MAX, timeout=wait_seconds):
            error = message.error()
            if error is not None:
                if error.code() not in RETRIED_ERRORS:
                    self.errors[error.name()] = self.errors.get(error.name(), 0) + 1
                continue
            self._take(message, history)

    def _take(self, message: Message, history: HistoryFile) -> None:
        content, offset, partition = message.value(), message.offset(), message.partition()
        if not isinstance(content, bytes) or offset is None or partition is None:
            return
        value = content.decode(errors="backslashreplace")
        # Figures are long, and nobody compares them.
        value = FIGURES_MARK if value.startswith(FIGURES_MARK) else value
        read = Read(consumer=self._name, partition=partition, offset=offset, value=value)
        history.write(read_line(read) + "\n")
        self.next_offset[partition] = offset + 1
        self.read += 1
        if self._read_back is not None:
            self._read_back.on_read(
                partition, offset, value, lambda: self._log_bounds(partition)[0]
            )

    def _log_bounds(self, partition: int) -> tuple[int, int]:
        """Return the offsets at which a partition begins and ends; else KafkaException."""
        where = TopicPartition(self._topic, partition)
        found = self._consumer.get_watermark_offsets(where, timeout=OFFSETS_SECONDS)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        return found

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
