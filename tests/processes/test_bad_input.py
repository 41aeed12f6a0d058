"""What anybody may send to a running broker: refused with the right error, nothing changed."""

from __future__ import annotations

import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from strandline.errors import ErrorCode
from strandline.kafka_listener.schemas import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, PRODUCE
from strandline.kafka_listener.wire import Message
from tests.kafka.requests import fetch, list_offsets, only, produce
from tests.kafka.support import make_batch
from tests.kafka.wire_client import WireClient
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.broker_process import BrokerProgram
from tests.support.clients import Sent, producer_of
from tests.support.eventually import eventually
from tests.support.load import scan_log

pytestmark = [pytest.mark.processes, pytest.mark.timeout(60)]

TOPIC = "bad-input"
PRODUCE_VERSION, FETCH_VERSION, OFFSETS_VERSION, EPOCH_VERSION = 9, 12, 6, 4
RECORDS = 5
OVERSIZE_BYTES = 1_100_000
GARBAGE = os.urandom(4_000)


class Victim:
    """The leader of a partition, and everything about it that must not change."""

    def __init__(self, group: BrokerGroup) -> None:
        self._group = group
        self._topic_id = group.create_topic(TOPIC)
        group.wait_full_isr(TOPIC)
        sent = Sent(producer_of(group.bootstrap()), TOPIC)
        sent.send(RECORDS)
        sent.settle()
        # An epoch above 0: the one below it is then a leader's that was.
        first = group.wait_leader(TOPIC)
        group.brokers[first].kill()
        group.wait_leader(TOPIC, other_than=first)
        group.start()
        group.wait_full_isr(TOPIC)
        self.leader = group.wait_leader(TOPIC)
        self.broker: BrokerProgram = group.brokers[self.leader]

    def state(self) -> tuple[dict[str, Any], list[int]]:
        """Return the partition's status and the length of each replica's log."""
        lengths = [
            len(scan_log(self._group.log_folder(broker, self._topic_id), broker, 0))
            for broker in range(3)
        ]
        return self._group.partition(TOPIC), lengths

    def ask(self, api_key: int, version: int, message: Message) -> Message:
        with WireClient(self.broker.internal_port) as client:
            return client.ask(api_key, version, message)


@pytest.fixture(scope="module")
def victim(shared_group: BrokerGroup) -> Victim:
    shared_group.start()
    return Victim(shared_group)


@pytest.fixture(autouse=True)
def unchanged(victim: Victim) -> Iterator[None]:
    """Compare state and processes before and after each test."""
    eventually(lambda: victim.state()[1] == [RECORDS] * 3, FAULT_LIMIT_MS, "equal logs")
    before = victim.state()
    yield
    assert victim.state() == before
    assert victim.broker.runs()
    assert only(victim.ask(PRODUCE, PRODUCE_VERSION, produce(b"", topic=TOPIC)))["error_code"] != 0
    answer = victim.ask(FETCH, FETCH_VERSION, fetch(0, topic=TOPIC))
    assert only(answer)["high_watermark"] == RECORDS


def corrupt_batch() -> bytes:
    batch = bytearray(make_batch([b"value"]))
    batch[-1] ^= 1
    return bytes(batch)


@pytest.mark.parametrize(
    ("batch", "topic", "partition", "error"),
    [
        pytest.param(corrupt_batch(), TOPIC, 0, ErrorCode.CORRUPT_MESSAGE, id="wrong CRC"),
        pytest.param(
            make_batch([b"value"])[:-3], TOPIC, 0, ErrorCode.CORRUPT_MESSAGE, id="a cut batch"
        ),
        pytest.param(
            b"\0" * 30, TOPIC, 0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, id="an old format"
        ),
        pytest.param(
            make_batch([b"v" * OVERSIZE_BYTES]),
            TOPIC,
            0,
            ErrorCode.MESSAGE_TOO_LARGE,
            id="oversize",
        ),
        pytest.param(
            make_batch([b"v"]), TOPIC, 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="partition"
        ),
        pytest.param(
            make_batch([b"v"]), TOPIC, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="negative"
        ),
        pytest.param(
            make_batch([b"v"]), "../../etc", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="escape"
        ),
    ],
)
def test_a_bad_batch_is_refused(
    victim: Victim, batch: bytes, topic: str, partition: int, error: ErrorCode
) -> None:
    request = produce(batch, topic=topic, partition=partition)
    answer = only(victim.ask(PRODUCE, PRODUCE_VERSION, request))
    assert (answer["error_code"], answer["base_offset"]) == (error, -1)


@pytest.mark.parametrize("offset", [-1, -(1 << 63), RECORDS + 1, (1 << 63) - 1])
def test_an_offset_outside_the_log_is_out_of_range(victim: Victim, offset: int) -> None:
    answer = only(victim.ask(FETCH, FETCH_VERSION, fetch(offset, topic=TOPIC)))
    assert answer["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("ahead", "error"),
    [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_leader_epoch_is_refused(victim: Victim, ahead: int, error: ErrorCode) -> None:
    epoch = victim.state()[0]["leaderEpoch"] + ahead
    request = fetch(0, topic=TOPIC)
    request["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
    assert only(victim.ask(FETCH, FETCH_VERSION, request))["error_code"] == error
    listed = victim.ask(
        LIST_OFFSETS, OFFSETS_VERSION, list_offsets(-1, topic=TOPIC, leader_epoch=epoch)
    )
    assert only(listed)["error_code"] == error
    asked = {"index": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
    ends = victim.ask(
        OFFSET_FOR_LEADER_EPOCH,
        EPOCH_VERSION,
        {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [asked]}]},
    )
    assert only(ends)["error_code"] == error


def port_of(broker: BrokerProgram, name: str) -> int:
    if name == "HTTP":
        return int(broker.wait_for("http listening")["port"])
    return int(broker.wait_for("registered")["listeners"][name])


@pytest.mark.parametrize("listener", ["INTERNAL", "GRPC", "HTTP"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GARBAGE, id="random"),
        pytest.param(b"\x7f\xff\xff\xff" + GARBAGE, id="a frame of 2 GiB"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative length"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GARBAGE, id="a bad start of HTTP/2"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", id="a long header"),
    ],
)
def test_garbage_on_a_port_ends_that_connection_alone(
    victim: Victim, listener: str, data: bytes
) -> None:
    lines = len(victim.broker.lines())
    with socket.create_connection(("127.0.0.1", port_of(victim.broker, listener)), 10) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                continue
        except OSError:
            pass  # ended before everything was sent
    assert len(victim.broker.lines()) <= lines + 1


def test_an_unknown_version_and_an_unknown_api_end_the_connection(victim: Victim) -> None:
    head = b"\x00\x00\x00\x0a"
    for api_key, version in ((PRODUCE, 99), (FETCH, 99), (999, 0)):
        request = api_key.to_bytes(2) + version.to_bytes(2) + b"\0\0\0\1" + b"\xff\xff"
        with socket.create_connection(("127.0.0.1", victim.broker.internal_port), 10) as client:
            client.sendall(head + request)
            assert client.recv(1) == b""


def test_an_unknown_path_is_not_found(victim: Victim) -> None:
    port = port_of(victim.broker, "HTTP")
    for path in ("/../../etc/passwd", "/metrics/x", "/%00"):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5)
        assert refusal.value.code in (400, 404)
        refusal.value.close()
