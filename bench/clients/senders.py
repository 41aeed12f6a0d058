"""One producer of each client library, with the library's defaults and acks=all.

All of them are driven alike: `send` begins a record to a partition, `acked` tells what was
acknowledged since it was asked last, and when.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import kafka
from confluent_kafka import KafkaError, Message, Producer

from strandline_cli.clusters import cache_folder
from tests.support.java_client import JavaProducer, java_clients

VALUE: Final = bytes(100)
BUILD_LIMIT_SECONDS: Final = 600
END_LIMIT_SECONDS: Final = 60
FRANZ: Final = Path(__file__).with_name("franz")

Acked = list[tuple[int, float]]
"""Partitions of acknowledged records, with seconds of the monotonic clock."""


class NotAcknowledged(Exception):
    """A library gave a record up, so that the wait has no end."""


class Sender(ABC):
    """A producer that is running."""

    def __init__(self) -> None:
        """Begin without any acknowledgement."""
        self._acked: deque[tuple[int, float]] = deque()
        self._failed: list[str] = []

    @abstractmethod
    def send(self, partition: int) -> None:
        """Hand one record to the library."""

    def acked(self) -> Acked:
        """Return what was acknowledged since the last call.

        Raises:  NotAcknowledged if the library gave a record up
        """
        if self._failed:
            raise NotAcknowledged(self._failed[0])
        return [self._acked.popleft() for _ in range(len(self._acked))]

    def _note(self, partition: int) -> None:
        self._acked.append((partition, time.monotonic()))


class Librdkafka(Sender):
    """librdkafka, by confluent-kafka."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Connect."""
        super().__init__()
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def send(self, partition: int) -> None:
        """Hand one record to the library."""
        self._producer.produce(self._topic, VALUE, partition=partition, on_delivery=self._done)

    def acked(self) -> Acked:
        """Let the library tell first."""
        self._producer.poll(0)
        return super().acked()

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(str(error))
        elif (partition := message.partition()) is not None:
            self._note(partition)


class KafkaPython(Sender):
    """kafka-python, whose default is acks=1."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Connect."""
        super().__init__()
        self._topic = topic
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")

    def send(self, partition: int) -> None:
        """Hand one record to the library."""
        sent = self._producer.send(self._topic, VALUE, partition=partition)
        sent.add_callback(lambda told: self._note(told.partition))
        sent.add_errback(lambda error: self._failed.append(repr(error)))

    def close(self) -> None:
        """End the library's thread."""
        self._producer.close(END_LIMIT_SECONDS)


class Java(Sender):
    """Kafka's own client."""

    def __init__(self, producer: JavaProducer, topic: str) -> None:
        """Take a producer of a running Java."""
        super().__init__()
        self._producer, self._topic = producer, topic

    def send(self, partition: int) -> None:
        """Hand one record to the library."""
        self._producer.send(self._topic, [b"%d" % partition], partition=partition)

    def acked(self) -> Acked:
        """Ask for each record that is under way."""
        for value in self._producer.take_acknowledged():
            self._note(int(value))
        return super().acked()


class Franz(Sender):
    """franz-go, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take the program as it runs."""
        super().__init__()
        self._process = process
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, partition: int) -> None:
        """Hand one record to the library."""
        if self._process.stdin is None:
            raise AssertionError
        self._process.stdin.write(f"{partition}\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._note(int(line))


@contextmanager
def librdkafka(bootstrap: str, topic: str, _: Path) -> Iterator[Sender]:
    """Provide librdkafka."""
    yield Librdkafka(bootstrap, topic)


@contextmanager
def kafka_python(bootstrap: str, topic: str, _: Path) -> Iterator[Sender]:
    """Provide kafka-python."""
    sender = KafkaPython(bootstrap, topic)
    try:
        yield sender
    finally:
        sender.close()


@contextmanager
def java(bootstrap: str, topic: str, folder: Path) -> Iterator[Sender]:
    """Provide Kafka's Java client."""
    with java_clients(folder / "java.log") as clients:
        producer = clients.producer({"bootstrap.servers": bootstrap, "acks": "all"})
        try:
            yield Java(producer, topic)
        finally:
            producer.close()


@contextmanager
def franz_go(bootstrap: str, topic: str, _: Path) -> Iterator[Sender]:
    """Provide franz-go; the first use builds it."""
    process = subprocess.Popen(
        [str(_built()), bootstrap, topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Franz(process)
    finally:
        process.kill()
        process.communicate()


def _built() -> Path:
    program = cache_folder() / "franz-go" / "franz"
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "-C", str(FRANZ), "build", "-trimpath", "-o", str(program), "."],
        check=True,
        stdout=sys.stderr,
        timeout=BUILD_LIMIT_SECONDS,
    )
    return program


LIBRARIES: Final[dict[str, Callable[[str, str, Path], Any]]] = {
    "librdkafka": librdkafka,
    "Java": java,
    "kafka-python": kafka_python,
    "franz-go": franz_go,
}
"""By name: what provides a running sender."""
