"""kcat, confluent-kafka and kafka-python produce and consume through a leader's death.

Each client reads while it writes. Once about half of the records are read, the test freezes the
leader, lets the client send the other half, and kills the leader while the requests still lie
unread in the leader's sockets.
"""

from __future__ import annotations

import gc
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import kafka
import pytest
from kafka.structs import TopicPartition

from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS, BrokerGroup
from tests.support.clients import SILENT_BROKER_MS, SentRecords, producer_of, read_all
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

COUNT = 200
HALF = COUNT // 2
SEPARATOR = b"\xff"
"""Ends a record of kcat's input and output; no value below contains it."""
LIMIT_SECONDS = 60
IN_FLIGHT_BYTES = 10_000
"""More than all requests of a client together, apart from its produce requests."""
SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
ESTABLISHED = "01"


def open_sockets() -> dict[int, socket.socket]:
    """Return sockets as kafka-python opens them; connections to an API server are of a subclass."""
    found = [item for item in gc.get_objects() if type(item) is socket.socket]
    return {id(item): item for item in found if item.fileno() >= 0}


@contextmanager
def leaks_closed() -> Iterator[None]:
    """Close the sockets that kafka-python opened to a dead broker and keeps after close()."""
    before = open_sockets()
    yield
    for name, leaked in open_sockets().items():
        if name not in before:
            leaked.close()


@pytest.fixture(autouse=True)
def close_leaks() -> Iterator[None]:
    with leaks_closed():
        yield


def test_a_leak_is_closed_and_the_connection_to_the_api_server_stays(group: BrokerGroup) -> None:
    group.control_plane.reader.close()
    with leaks_closed():
        leaked = socket.create_connection(
            (group.brokers[0].address, group.brokers[0].internal_port)
        )
        assert group.controller() >= 0
    assert leaked.fileno() == -1
    assert group.controller() >= 0


def values(seed: int) -> list[bytes]:
    """Return values of several sizes, made of any bytes but SEPARATOR."""
    source = random.Random(seed)
    sizes = [1, 100, 3_000, 20_000]
    made = [source.randbytes(source.choice(sizes)).replace(SEPARATOR, b"\0") for _ in range(COUNT)]
    return [b"%d:" % number + value for number, value in enumerate(made)]


def in_order(found: dict[bytes, int]) -> list[bytes]:
    return [value for value, _ in sorted(found.items(), key=lambda item: item[1])]


def unread_bytes(port: int) -> int:
    """Return how many bytes lie unread in the sockets of a local port."""
    lines = [line for table in SOCKET_TABLES for line in Path(table).read_text().splitlines()[1:]]
    return sum(
        int(queues.partition(":")[2], 16)
        for _, local, _, state, queues, *_ in map(str.split, lines)
        if state == ESTABLISHED and local.endswith(f":{port:04X}")
    )


class FailoverRun:
    """A topic whose leader is killed while one client writes and reads it."""

    def __init__(self, group: BrokerGroup, topic: str, folder: Path) -> None:
        self.group = group
        self.topic = topic
        self.folder = folder
        self.bootstrap = group.bootstrap()

    def kill_leader(
        self, read: Callable[[], int], send_rest: Callable[[], object], *, once_read: int = HALF
    ) -> None:
        """Wait until `once_read` records are read; then freeze the leader, send, and kill it."""
        eventually(lambda: read() >= once_read, FORMED_LIMIT_MS, f"{once_read} records read")
        leader = self.group.brokers[self.group.wait_leader(self.topic)]
        leader.freeze()
        send_rest()
        port = leader.internal_port
        eventually(lambda: unread_bytes(port) > IN_FLIGHT_BYTES, FORMED_LIMIT_MS, "in flight")
        leader.kill()


def with_kcat(run: FailoverRun, wanted: list[bytes]) -> list[bytes]:
    command = [
        "kcat",
        *("-D", r"\xff", "-b", run.bootstrap, "-t", run.topic, "-p", "0"),
        *("-X", f"socket.timeout.ms={SILENT_BROKER_MS}", "-X", "retry.backoff.ms=50"),
    ]
    produce = ("-P", "-X", "enable.idempotence=true", "-X", "linger.ms=5")
    consume = ("-C", "-o", "beginning", "-c", str(COUNT), "-q", "-u")
    found, errors = run.folder / "found", run.folder / "errors"
    with found.open("wb") as stdout, errors.open("wb") as stderr:
        reader = subprocess.Popen([*command, *consume], stdout=stdout, stderr=stderr)
        writer = subprocess.Popen([*command, *produce], stdin=subprocess.PIPE, stderr=stderr)
    stdin = writer.stdin
    assert stdin is not None
    try:
        stdin.write(SEPARATOR.join(wanted[:HALF]) + SEPARATOR)
        stdin.flush()

        def send_rest() -> None:
            stdin.write(SEPARATOR.join(wanted[HALF:]))
            stdin.close()

        # kcat reads its input in blocks, so a part of the first half stays in the pipe.
        run.kill_leader(lambda: found.read_bytes().count(SEPARATOR), send_rest, once_read=HALF // 2)
        assert writer.wait(LIMIT_SECONDS) == 0, errors.read_text()
        assert reader.wait(LIMIT_SECONDS) == 0, errors.read_text()
    finally:
        for process in (reader, writer):
            process.kill()
            process.wait()
        stdin.close()
        print(errors.read_text())
    return found.read_bytes().split(SEPARATOR)[:-1]


def with_confluent_kafka(run: FailoverRun, wanted: list[bytes]) -> list[bytes]:
    found: dict[bytes, int] = {}
    sent = SentRecords(producer_of(run.bootstrap), run.topic)

    def send(part: list[bytes]) -> None:
        for value in part:
            sent.send_value(value)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_all, run.bootstrap, run.topic, COUNT, found=found)
        send(wanted[:HALF])
        run.kill_leader(lambda: len(found), lambda: send(wanted[HALF:]))
        sent.settle()
        reading.result(LIMIT_SECONDS)
    assert in_order(sent.offsets) == wanted
    return list(found)


def with_kafka_python(run: FailoverRun, wanted: list[bytes]) -> list[bytes]:
    found: list[bytes] = []
    producer = kafka.KafkaProducer(
        bootstrap_servers=run.bootstrap.split(","),
        acks="all",
        retries=1_000,
        retry_backoff_ms=50,
        max_in_flight_requests_per_connection=1,
    )

    def send(part: list[bytes]) -> list[kafka.producer.future.FutureRecordMetadata]:
        return [producer.send(run.topic, value, partition=0) for value in part]

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_with_kafka_python, run, found)
        pending = send(wanted[:HALF])
        run.kill_leader(lambda: len(found), lambda: pending.extend(send(wanted[HALF:])))
        producer.flush(LIMIT_SECONDS)
        reading.result(LIMIT_SECONDS)
    offsets = [future.get(LIMIT_SECONDS).offset for future in pending]
    producer.close()
    assert offsets == list(range(COUNT))
    return found


def read_with_kafka_python(run: FailoverRun, found: list[bytes]) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=run.bootstrap.split(","),
        group_id=None,
        consumer_timeout_ms=2 * FAULT_LIMIT_MS,
        auto_offset_reset="earliest",
    )
    partition = TopicPartition(run.topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    for record in consumer:
        found.append(record.value)
        if len(found) == COUNT:
            break
    consumer.close()


@pytest.mark.parametrize(
    ("client", "topic"),
    [
        pytest.param(with_kcat, "kcat", id="kcat"),
        pytest.param(with_confluent_kafka, "confluent", id="confluent-kafka"),
        pytest.param(with_kafka_python, "kafka-python", id="kafka-python"),
    ],
)
def test_a_client_produces_and_consumes_through_a_leader_kill(
    group: BrokerGroup,
    tmp_path: Path,
    client: Callable[[FailoverRun, list[bytes]], list[bytes]],
    topic: str,
) -> None:
    group.create_topic(topic)
    group.wait_full_isr(topic)
    wanted = values(1)
    assert client(FailoverRun(group, topic, tmp_path), wanted) == wanted
    assert in_order(read_all(group.bootstrap(), topic, COUNT)) == wanted
