"""Bad input to a running broker: the broker refuses it, changes nothing, and logs one line."""

from __future__ import annotations

import random
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import grpc
import pytest

from strandline.core.events import FollowerFetchReceived
from strandline.core.fetch_changes import FetchPartition
from strandline.errors import ErrorCode
from strandline.kafka_listener import schemas
from strandline.kafka_listener.wire import Message
from strandline.model import BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicPartition
from strandline.rpc.fetch_session import FollowerFetchSession
from strandline.rpc.frames import RecordsFrame, decode, encode_fetch
from strandline.runtime.observability.log_rate_limit import BURST_LINES_MAX
from strandline_api.v1 import controller_pb2 as pb
from tests.kafka.requests import fetch, list_offsets, only, produce
from tests.kafka.support import make_batch
from tests.kafka.wire_client import WireClient
from tests.processes.victim import MALFORMED, RECORDS, TOPIC, Victim
from tests.support.broker_group import BrokerGroup

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

PRODUCE, FETCH = (schemas.PRODUCE, 9), (schemas.FETCH, 12)
LIST_OFFSETS, EPOCH_END = (schemas.LIST_OFFSETS, 6), (schemas.OFFSET_FOR_LEADER_EPOCH, 4)
METADATA = (schemas.METADATA, 9)
REPLICATE = "/strandline.v1.Replication/Replicate"
SESSION = "/strandline.v1.Controller/Session"
PROBE = "/strandline.v1.Peer/Probe"
RESPONSE_LIMIT_SECONDS = 10
OVERSIZE_BYTES = 1_100_000
GARBAGE = random.Random(1).randbytes(4_000)
NO_PROTOCOL = {
    "random": GARBAGE,
    "a frame of 2 GiB": b"\x7f\xff\xff\xff" + GARBAGE,
    "a negative length": b"\xff\xff\xff\xff",
    "a bad start of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GARBAGE,
    "a long header": b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
}


@pytest.fixture(scope="module")
def victim(shared_group: BrokerGroup) -> Victim:
    shared_group.start()
    return Victim(shared_group)


@pytest.fixture(autouse=True)
def unchanged(victim: Victim) -> Iterator[None]:
    """Fail each test that changed anything, or that left log lines which it did not expect."""
    yield
    more = [victim.drain(of=broker) for broker in range(3)]
    victim.assert_unchanged()
    assert more == [[], [], []]


def corrupt_batch() -> bytes:
    batch = bytearray(make_batch([b"value"]))
    batch[-1] ^= 1
    return bytes(batch)


BAD_BATCHES = [
    pytest.param(corrupt_batch(), TOPIC, 0, ErrorCode.CORRUPT_MESSAGE, id="wrong CRC"),
    pytest.param(make_batch([b"v"])[:-3], TOPIC, 0, ErrorCode.CORRUPT_MESSAGE, id="a cut batch"),
    pytest.param(
        b"\0" * 30, TOPIC, 0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, id="an old format"
    ),
    pytest.param(
        make_batch([b"v" * OVERSIZE_BYTES]), TOPIC, 0, ErrorCode.MESSAGE_TOO_LARGE, id="oversize"
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
]


@pytest.mark.parametrize(("batch", "topic", "partition", "error"), BAD_BATCHES)
def test_a_bad_batch_is_refused(
    victim: Victim, batch: bytes, topic: str, partition: int, error: ErrorCode
) -> None:
    request = produce(batch, topic=topic, partition=partition)
    with WireClient(victim.broker.internal_port) as client:
        response = only(client.ask(*PRODUCE, request))
        assert (response["error_code"], response["base_offset"]) == (error, -1)
        place = {"api": "Produce", "topic": topic, "partition": partition}
        victim.assert_refusal_was_logged(client, error, place)


def test_a_bad_batch_with_acks_none_ends_the_connection(victim: Victim) -> None:
    with WireClient(victim.broker.internal_port) as client:
        client.send(*PRODUCE, produce(corrupt_batch(), topic=TOPIC, acks=0))
        assert client.is_closed_by_server()
        victim.assert_refusal_was_logged(client, ErrorCode.CORRUPT_MESSAGE, {"api": "Produce"})


ESCAPES = ["../../etc/passwd", "..", ".", "/etc", "a/b", "a\\b", "a\0b", "", "x" * 300]


@pytest.mark.parametrize("name", ESCAPES)
def test_an_illegal_topic_name_is_refused(victim: Victim, name: str) -> None:
    with WireClient(victim.broker.internal_port) as client:
        message = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
        (topic,) = client.ask(*METADATA, message)["topics"]
        assert topic["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
        place = {"api": "Metadata", "topic": name[:249]}
        victim.assert_refusal_was_logged(client, ErrorCode.INVALID_TOPIC_EXCEPTION, place)


@pytest.mark.parametrize("offset", [-1, -(1 << 63), RECORDS + 1, (1 << 63) - 1])
def test_an_offset_outside_the_log_is_out_of_range(victim: Victim, offset: int) -> None:
    with WireClient(victim.broker.internal_port) as client:
        response = only(client.ask(*FETCH, fetch(offset, topic=TOPIC)))
        assert response["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
        place = {"api": "Fetch", "topic": TOPIC, "partition": 0}
        victim.assert_refusal_was_logged(client, ErrorCode.OFFSET_OUT_OF_RANGE, place)


def with_epoch(api: tuple[int, int], epoch: int) -> Message:
    """Return a request that carries this leader epoch."""
    if api == FETCH:
        request = fetch(0, topic=TOPIC)
        request["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
        return request
    if api == LIST_OFFSETS:
        return list_offsets(-1, topic=TOPIC, leader_epoch=epoch)
    partition = {"index": 0, "current_leader_epoch": epoch, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [partition]}]}


@pytest.mark.parametrize("api", [FETCH, LIST_OFFSETS, EPOCH_END])
@pytest.mark.parametrize(
    ("ahead", "error"),
    [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_leader_epoch_is_refused(
    victim: Victim, api: tuple[int, int], ahead: int, error: ErrorCode
) -> None:
    with WireClient(victim.broker.internal_port) as client:
        response = only(client.ask(*api, with_epoch(api, victim.leader_epoch + ahead)))
        assert response["error_code"] == error
        victim.assert_refusal_was_logged(client, error, {"topic": TOPIC, "partition": 0})


def test_an_unknown_version_and_an_unknown_api_end_the_connection(victim: Victim) -> None:
    head = b"\x00\x00\x00\x0a"
    for api_key, version in ((schemas.PRODUCE, 99), (schemas.FETCH, 99), (999, 0)):
        request = api_key.to_bytes(2) + version.to_bytes(2) + b"\0\0\0\1" + b"\xff\xff"
        with socket.create_connection(("127.0.0.1", victim.broker.internal_port), 10) as client:
            client.sendall(head + request)
            assert client.recv(1) == b""
        line = victim.next_line()
        assert line["message"] == "unsupported request, connection closed"
        assert (line["api_key"], line["api_version"]) == (api_key, version)


# --- bytes that are no request of the port's protocol -------------------------------------


@pytest.mark.parametrize("listener", ["INTERNAL", "HTTP"])
@pytest.mark.parametrize("data", NO_PROTOCOL.values(), ids=NO_PROTOCOL)
def test_garbage_on_a_port_ends_that_connection_alone(
    victim: Victim, listener: str, data: bytes
) -> None:
    port = victim.send_and_wait_for_the_end(listener, data)
    line = victim.next_line()
    assert line["message"] == MALFORMED
    assert line["reason"]
    # aiohttp gives a peer's host without its port.
    assert line["peer"] == (f"127.0.0.1:{port}" if listener == "INTERNAL" else "127.0.0.1")


def test_a_request_that_never_ends_is_logged_with_its_connection(victim: Victim) -> None:
    port = victim.send_and_wait_for_the_end("INTERNAL", b"\0\0\x20\0" + GARBAGE)
    line = victim.next_line()
    assert line["message"] == "connection lost within a request"
    assert line["peer"] == f"127.0.0.1:{port}"


def test_garbage_on_the_port_for_brokers_ends_that_connection_alone(victim: Victim) -> None:
    ports = {victim.send_and_wait_for_the_end("GRPC", data) for data in NO_PROTOCOL.values()}
    lines = [victim.next_line() for _ in ports]
    assert {line["message"] for line in lines} == {"connection without a call"}
    assert {line["peer"] for line in lines} == {f"ipv4:127.0.0.1:{port}" for port in ports}


def test_an_unknown_path_is_not_found(victim: Victim) -> None:
    port = victim.port_of("HTTP")
    for path in ("/../../etc/passwd", "/metrics/x", "/%00"):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5)
        assert refusal.value.code in (400, 404)
        refusal.value.close()


# --- the port for brokers, in gRPC ----------------------------------------------------------


def follower_fetch(
    victim: Victim, *, broker_ahead: int = 0, leader_ahead: int = 0, offset: int = RECORDS
) -> bytes:
    """Return a follower's fetch; its epochs are the true ones plus the given differences."""
    follower = (victim.leader + 1) % 3
    registered = victim.group.get("brokers", f"demo-{follower}")["status"]
    partition = FetchPartition(
        tp=TopicPartition(topic_id=TopicId(victim.topic_id), partition=0),
        fetch_offset=offset,
        leader_epoch=LeaderEpoch(victim.leader_epoch + leader_ahead),
        last_fetched_epoch=LeaderEpoch(0),
        high_watermark=RECORDS,
        log_start_offset=0,
    )
    fetch = FollowerFetchReceived(
        request_id=1,
        follower=BrokerId(follower),
        broker_epoch=BrokerEpoch(registered["brokerEpoch"] + broker_ahead),
        clean_since_epoch=BrokerEpoch(0),
        max_wait_ms=0,
        partitions=(partition,),
    )
    return b"".join(encode_fetch(FollowerFetchSession().frame_of(fetch)))


def response_to(port: int, method: str, message: bytes) -> bytes | None:
    """Return the server's first message on a stream, None if the server ends the stream instead.

    The client keeps its side open until then, and leaves after the server has ended the stream:
    the broker logs a client that leaves first.
    """
    responded = threading.Event()

    def messages() -> Iterator[bytes]:
        yield message
        responded.wait(RESPONSE_LIMIT_SECONDS)

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(method)(messages(), timeout=RESPONSE_LIMIT_SECONDS)
        response: bytes | None = next(call, None)
        responded.set()
        for _ in call:
            pass
    return response


def fetched(victim: Victim, fetch_bytes: bytes) -> RecordsFrame | None:
    """Return the leader's response to a follower's fetch, None if the leader ends the stream."""
    response = response_to(victim.port_of("GRPC"), REPLICATE, fetch_bytes)
    if response is None:
        return None
    (frame, *_) = decode(response)
    assert isinstance(frame, RecordsFrame)
    return frame


@pytest.mark.parametrize(
    ("ahead", "error", "fence"),
    [
        ({"broker_ahead": -1}, ErrorCode.STALE_BROKER_EPOCH, "broker_epoch"),
        ({"leader_ahead": -1}, ErrorCode.FENCED_LEADER_EPOCH, "leader_epoch"),
    ],
)
def test_the_fetch_of_a_stale_follower_is_fenced(
    victim: Victim, ahead: dict[str, int], error: ErrorCode, fence: str
) -> None:
    frame = fetched(victim, follower_fetch(victim, **ahead))
    assert frame is not None
    assert (frame.error, bytes(frame.records)) == (error, b"")
    line = victim.next_line()
    assert (line["message"], line["fence"], line["detail"]) == ("fenced", fence, "fetch")


def test_the_hello_of_an_earlier_incarnation_is_refused(victim: Victim) -> None:
    group = victim.group
    controller = group.controller()
    other = (controller + 1) % 3
    epoch = group.get("brokers", f"demo-{other}")["status"]["brokerEpoch"] - 1
    hello = pb.Hello(broker_id=other, broker_epoch=epoch, incarnation="earlier")
    port = group.brokers[controller].wait_for("registered")["listeners"]["GRPC"]
    sent = pb.BrokerMessage(hello=hello).SerializeToString()
    response = response_to(port, SESSION, sent)
    assert response is not None
    assert pb.ControllerMessage.FromString(response).refused.error == ErrorCode.STALE_BROKER_EPOCH
    line = victim.next_line(of=controller)
    assert (line["message"], line["fence"]) == ("request fenced", "broker_epoch")
    assert (line["about_broker_id"], line["detail"]) == (other, "hello of an ended process")


OK, UNKNOWN_METHOD = grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED
NO_HELLO = pb.BrokerMessage(heartbeat=pb.Heartbeat(broker_epoch=1)).SerializeToString()
NONSENSE = [
    pytest.param(REPLICATE, b"\0\0\0\x09\x63garbage!", OK, "replication stream closed", id="frame"),
    pytest.param(REPLICATE, b"\xff\xff\xff\xff", OK, "replication stream closed", id="length"),
    pytest.param(SESSION, b"\xff\xff garbage", OK, "session closed", id="session"),
    pytest.param(SESSION, NO_HELLO, OK, "session closed", id="no hello"),
    pytest.param(PROBE, b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT, "probe refused", id="probe"),
    pytest.param("/x.Y/Z", b"", UNKNOWN_METHOD, "call not served", id="method"),
]


@pytest.mark.parametrize(("method", "message", "status", "logged"), NONSENSE)
def test_nonsense_ends_its_call_alone(
    victim: Victim, method: str, message: bytes, status: grpc.StatusCode, logged: str
) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{victim.port_of('GRPC')}") as channel:
        assert ended(channel.stream_stream(method)(iter([message]), timeout=10)) is status
    line = victim.next_line()
    assert line["message"] == logged
    assert line["peer"].startswith("ipv4:127.0.0.1:")


def ended(call: grpc.Call) -> grpc.StatusCode:
    """Return the status with which a call ends; fail if a message comes before."""
    with suppress(grpc.RpcError):
        assert list(call) == []
    return call.code()


def test_a_negative_offset_ends_the_stream(victim: Victim) -> None:
    assert fetched(victim, follower_fetch(victim, offset=-1)) is None
    line = victim.next_line()
    assert line["message"] == "replication stream closed"
    assert line["cause"] == "a fetch has a negative partition or offset"


# --- bounds of the log ------------------------------------------------------------------


def test_a_flood_of_garbage_fills_no_log(victim: Victim) -> None:
    """Keep this the last test of the file: it uses up the rate limit of these log lines."""
    for _ in range(10 * BURST_LINES_MAX):
        victim.send_and_wait_for_the_end("INTERNAL", b"\xff\xff\xff\xff")
    flood = victim.drain()
    assert {line["message"] for line in flood} == {MALFORMED}
    assert 0 < len(flood) <= BURST_LINES_MAX
    _, metrics = victim.broker.get("/metrics")
    counted = 'strandline_requests_total{api="unknown",error="INVALID_REQUEST"} '
    (sample,) = (line for line in metrics.splitlines() if line.startswith(counted))
    assert float(sample.removeprefix(counted)) >= 10 * BURST_LINES_MAX
