"""Kafka's own Java client: its KafkaProducer and KafkaConsumer in one Java process, driven by py4j.

The properties are the caller's, so that a test can take them from a page as a reader does.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from tests.support.commands import REPOSITORY, run
from tests.support.eventually import eventually
from tests.support.prometheus_program import PREPARE_LIMIT_SECONDS

SCRIPT = REPOSITORY / "hack" / "maven-jars"
PREPARED_WITHIN_SECONDS = 2 * PREPARE_LIMIT_SECONDS
"""Bound of the first use, which downloads the client and builds PySpark, which brings py4j."""
STOP_SECONDS = 20
SETTLE_SECONDS = 60
READ_LIMIT_MS = 60_000
POLL_MS = 200
SERIALIZERS = "org.apache.kafka.common.serialization"


class JavaClients:
    """Makes Java's producers and consumers in a running Java process."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def producer(self, settings: Mapping[str, str]) -> JavaProducer:
        """Return a producer of bytes with these properties."""
        serializer = f"{SERIALIZERS}.ByteArraySerializer"
        named = {"key.serializer": serializer, "value.serializer": serializer, **settings}
        kafka = self._java.org.apache.kafka.clients.producer
        return JavaProducer(self._java, kafka.KafkaProducer(self._properties(named)))

    def consumer(self, settings: Mapping[str, str], topic: str) -> JavaConsumer:
        """Return a consumer with these properties that reads partition 0 from its start."""
        deserializer = f"{SERIALIZERS}.ByteArrayDeserializer"
        named = {"key.deserializer": deserializer, "value.deserializer": deserializer, **settings}
        kafka = self._java.org.apache.kafka.clients.consumer
        consumer = kafka.KafkaConsumer(self._properties(named))
        partitions = self._java.java.util.ArrayList()
        partitions.add(self._java.org.apache.kafka.common.TopicPartition(topic, 0))
        consumer.assign(partitions)
        consumer.seekToBeginning(partitions)
        return JavaConsumer(self._java, consumer)

    def _properties(self, named: Mapping[str, str]) -> Any:
        properties = self._java.java.util.Properties()
        for name, value in named.items():
            properties.setProperty(name, value)
        return properties


class JavaProducer:
    """A KafkaProducer that keeps what it was given and the offsets that were acknowledged."""

    def __init__(self, java: Any, producer: Any) -> None:
        self._java = java
        self._producer = producer
        self._pending: defaultdict[int, deque[tuple[bytes, Any]]] = defaultdict(deque)
        self.offsets: dict[bytes, int] = {}

    def leader(self, topic: str) -> str:
        """Return the address at which this producer knows the leader of partition 0."""
        (partition,) = self._producer.partitionsFor(topic)
        leader = partition.leader()
        return f"{leader.host()}:{leader.port()}"

    def send(self, topic: str, values: Iterable[bytes], *, partition: int = 0) -> None:
        """Hand values to the producer, which sends them to one partition in their order."""
        record = self._java.org.apache.kafka.clients.producer.ProducerRecord
        for value in values:
            sent = self._producer.send(record(topic, partition, None, value))
            self._pending[partition].append((value, sent))

    def acknowledged(self) -> int:
        """Return how many values were acknowledged since the last `settle`."""
        return sum(bool(future.isDone()) for each in self._pending.values() for _, future in each)

    def take_acknowledged(self) -> list[bytes]:
        """Forget and return the values that were acknowledged; raise what Java tells of others."""
        taken: list[bytes] = []
        for queue in self._pending.values():
            # Java ends the records of a partition in their order.
            while queue and queue[0][1].isDone():
                value, future = queue.popleft()
                future.get()
                taken.append(value)
        return taken

    def settle(self) -> None:
        """Wait until every value was acknowledged; an error that Java tells fails the test."""
        seconds = self._java.java.util.concurrent.TimeUnit.SECONDS
        for value, future in chain.from_iterable(self._pending.values()):
            self.offsets[value] = int(future.get(SETTLE_SECONDS, seconds).offset())
        self._pending.clear()

    def close(self) -> None:
        self._producer.close()


class JavaConsumer:
    """A KafkaConsumer of one partition that keeps each value with its offset."""

    def __init__(self, java: Any, consumer: Any) -> None:
        self._java = java
        self._consumer = consumer
        self.found: dict[bytes, int] = {}

    def read(self, count: int) -> dict[bytes, int]:
        """Read on until there are `count` records in all; fail if a value comes twice."""

        def poll() -> bool:
            polled = self._consumer.poll(self._java.java.time.Duration.ofMillis(POLL_MS))
            for record in polled.iterator():
                value = bytes(record.value())
                assert value not in self.found
                self.found[value] = int(record.offset())
            assert len(self.found) >= count, f"{len(self.found)} records"
            return True

        eventually(poll, READ_LIMIT_MS, f"{count} records")
        return self.found

    def close(self) -> None:
        self._consumer.close()


def prepared() -> tuple[Path, Path]:
    """Return the folders of the client's jars and of Spark's packages; the first use fills them."""
    jars, packages = run(
        [str(SCRIPT), "java-client", "kafka-clients", sys.executable],
        limit_seconds=PREPARED_WITHIN_SECONDS,
    ).splitlines()[-2:]
    return Path(jars), Path(packages)


@contextmanager
def java_clients(log: Path) -> Iterator[JavaClients]:
    """Provide the Java client in a process of its own, which ends afterwards.

    log takes what Java prints to standard error
    """
    jars, packages = prepared()
    # At the end, so that packages of the tests' environment come first.
    sys.path.append(str(packages))
    from py4j.java_gateway import GatewayParameters, JavaGateway

    (py4j_jar,) = (packages / "pyspark" / "jars").glob("py4j-*.jar")
    with log.open("wb") as errors:
        process = _started([py4j_jar, *sorted(jars.glob("*.jar"))], errors)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        port, token = (process.stdout.readline().decode().strip() for _ in range(2))
        assert token, log.read_text()
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=int(port), auth_token=token)
        )
        try:
            yield JavaClients(gateway.jvm)
        finally:
            # What Python still holds of Java is let go while the connection is there.
            gc.collect()
            gateway.shutdown()
    finally:
        # Java ends at the end of its input.
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(class_path: Sequence[Path], errors: Any) -> subprocess.Popen[bytes]:
    """Start Java; it prints the port on loopback and the word that lets a client in."""
    joined = ":".join(map(str, class_path))
    server = ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
    return subprocess.Popen(
        ["java", "-cp", joined, *server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
    )
