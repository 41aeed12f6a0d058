"""A broker's memory stays under a stated bound beside many clients that idle, stall or catch up.

The promise speaks of 5 GiB to catch up on; here it is 40 times a partition of PARTITION_BYTES, so
that the test ends soon. What bounds the memory does not know how much there is to read.
`tests/long/test_many_clients.py` has the full size.
"""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from strandline.kafka_listener import schemas
from strandline.log.record_batch import read_fetched
from tests.kafka import requests
from tests.kafka.requests import only
from tests.kafka.wire_client import WireClient, request_bytes
from tests.processes.conftest import MakeGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.eventually import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

MIB = 1 << 20
IDLE, SLOW, CATCHING_UP = 1_700, 200, 40
PARTITION_BYTES = 24 * MIB
VALUE_BYTES = 100_000
FLUSHED_EVERY = 1_000
"""Records, 100 MB, that a producer keeps at most."""
RECORDS = PARTITION_BYTES // VALUE_BYTES
RSS_MAX_MIB = 360
"""110 for the broker itself, 128 for large responses, 64 for the connections' buffers, and 58 for
small responses and what the interpreter keeps."""
LIMIT_MS = 60_000


def peak_rss_mib(broker: BrokerProgram) -> int:
    status = (Path("/proc") / str(broker.process.pid) / "status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) // 1024


def fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 900_000, "linger.ms": 20})
    for left in reversed(range(records)):
        producer.produce(topic, b"v" * VALUE_BYTES, partition=0)
        producer.poll(0)
        if left % FLUSHED_EVERY == 0:
            assert producer.flush(60) == 0


def stall(port: int) -> socket.socket:
    """Ask for as much as may come, and read none of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(("127.0.0.1", port))
    wanted = requests.fetch(0, topic="bulk", partition_max_bytes=64 * MIB, max_bytes=64 * MIB)
    client.sendall(request_bytes(schemas.FETCH, 11, wanted, correlation_id=1))
    return client


def catch_up(port: int, offset: int, end: int) -> int:
    """Read the topic from one offset to another; return the bytes."""
    size = 0
    with WireClient(port) as client:
        client.socket.settimeout(LIMIT_MS / 1000)
        while offset < end:
            wanted = requests.fetch(
                offset, topic="bulk", partition_max_bytes=16 * MIB, max_bytes=16 * MIB
            )
            records = bytes(only(client.ask(schemas.FETCH, 11, wanted))["records"])
            assert records
            size += len(records)
            offset = read_fetched(records).headers[-1].next_offset
    return size


def test_memory_stays_under_its_bound_beside_idle_slow_and_late_clients(
    make_group: MakeGroup,
) -> None:
    group = make_group()
    group.create_topic("bulk", min_insync_replicas=1, assignments=[[0]])
    group.create_topic("tail", min_insync_replicas=1, assignments=[[0]])
    group.wait_partition("bulk", "a leader", lambda status: status["leader"] == 0)
    group.wait_partition("tail", "a leader", lambda status: status["leader"] == 0)
    broker = group.brokers[0]
    port = int(broker.wait_for("registered")["listeners"]["INTERNAL"])
    fill(group.bootstrap(), "bulk", RECORDS)
    with ExitStack() as opened, ThreadPoolExecutor(CATCHING_UP) as pool:
        for _ in range(IDLE):
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(SLOW):
            opened.enter_context(stall(port))
        reading = [pool.submit(catch_up, port, 0, RECORDS) for _ in range(CATCHING_UP)]
        sent = SentRecords(producer_of(group.bootstrap()), "tail")
        sent.send(200)
        sent.settle()
        assert read_all(group.bootstrap(), "tail", 200) == sent.offsets
        assert min(each.result() for each in reading) >= RECORDS * VALUE_BYTES
    assert peak_rss_mib(broker) < RSS_MAX_MIB
    eventually(lambda: "strandline_requests_total" in broker.get("/metrics")[1], LIMIT_MS, "lives")
