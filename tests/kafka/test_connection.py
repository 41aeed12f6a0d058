"""One connection: order of responses, acks=0, versions, bad input, failures and closing."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import struct
from collections.abc import Callable

import pytest
import uvloop

from strandline.errors import ErrorCode, InvariantViolation
from strandline.kafka_listener import schemas, server, wire
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.wire import Message
from strandline.log_fields import fields_of
from strandline.model import Endpoint
from tests.kafka import requests
from tests.kafka.requests import only
from tests.kafka.serving import acknowledge, is_serving
from tests.kafka.support import CountingObserver, ListenerThread, MemoryBroker, make_batch
from tests.kafka.wire_client import WireClient, request_bytes, response_message
from tests.support.eventually import eventually

WITHIN_MS = 5_000
BOTH_LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


# --- order ------------------------------------------------------------------------------


@BOTH_LOOPS
def test_pipelined_produces_append_at_once_and_get_responses_in_order(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.held_acks = []
    with ListenerThread(broker, new_loop=new_loop) as running, WireClient(running.port) as client:
        sent = [
            client.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"%d" % number])))
            for number in range(5)
        ]
        sent.append(client.send(schemas.METADATA, 1, {"topics": []}))
        eventually(lambda: broker.logs["orders", 0].end == 5, WITHIN_MS, "all appended")
        for index in (4, 2, 1, 3, 0):
            acknowledge(running, broker, index)
        responses = [client.receive() for _ in sent]
    assert [correlation_id for correlation_id, _ in responses] == sent
    assert [only(message)["base_offset"] for _, message in responses[:5]] == [0, 1, 2, 3, 4]


def test_produce_behind_a_waiting_fetch_is_appended_and_wakes_it(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    with WireClient(running.port) as client:
        waiting = client.send(schemas.FETCH, 12, requests.fetch(0, max_wait_ms=30_000))
        produced = client.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        first, second = client.receive(), client.receive()
    assert (first[0], second[0]) == (waiting, produced)
    assert only(first[1])["high_watermark"] == 1


def test_a_waiting_fetch_delays_no_other_connection(running: ListenerThread) -> None:
    with WireClient(running.port) as waiting:
        waiting.send(schemas.FETCH, 12, requests.fetch(0, max_wait_ms=30_000))
        assert is_serving(running)


def test_a_second_fetch_is_begun_when_the_first_has_its_response(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    with WireClient(running.port) as client:
        client.send(schemas.FETCH, 12, requests.fetch(0, max_wait_ms=30_000))
        client.send(schemas.FETCH, 12, requests.fetch(0, max_wait_ms=30_000))
        eventually(lambda: len(broker.fetch_calls) == 1, WITHIN_MS, "the first has begun")
        assert is_serving(running)
        assert len(broker.fetch_calls) == 1
        with WireClient(running.port) as other:
            other.ask(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        assert len([client.receive() for _ in range(2)]) == 2


def test_a_fetch_of_a_client_that_left_is_cancelled(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    with WireClient(running.port) as client:
        client.send(schemas.FETCH, 12, requests.fetch(0, max_wait_ms=30_000))
        eventually(lambda: len(broker.fetch_calls) == 1, WITHIN_MS, "fetch has begun")
    eventually(lambda: broker.fetches_cancelled == 1, WITHIN_MS, "fetch cancelled")


def test_an_append_of_a_client_that_left_is_not_cancelled(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    broker.held_acks = []
    with WireClient(running.port) as client:
        client.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        eventually(lambda: len(broker.held_acks or ()) == 1, WITHIN_MS, "appended")
    eventually(lambda: running.connection_count == 0, WITHIN_MS, "client has left")
    acknowledge(running, broker, 0)
    assert running.loop_errors == []
    assert is_serving(running)


# --- acks=0 -----------------------------------------------------------------------------


def test_acks_0_has_no_response(running: ListenerThread, broker: MemoryBroker) -> None:
    with WireClient(running.port) as client:
        client.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"]), acks=0))
        client.ask(schemas.METADATA, 1, {"topics": []})
    assert broker.logs["orders", 0].end == 1


@pytest.mark.parametrize("topic,batch", [("nowhere", make_batch([b"a"])), ("orders", b"junk")])
def test_acks_0_with_an_error_closes_the_connection(
    running: ListenerThread, topic: str, batch: bytes
) -> None:
    with WireClient(running.port) as client:
        client.send(schemas.PRODUCE, 9, requests.produce(batch, topic=topic, acks=0))
        assert client.is_closed_by_server()
    assert is_serving(running)


# --- versions ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 99, -1])
def test_unknown_version_of_api_versions_gets_a_response_of_version_0(
    running: ListenerThread, version: int
) -> None:
    body = struct.pack(">hhih", 18, version, 77, -1) + b"\x00\xff junk that we cannot know"
    with WireClient(running.port) as client:
        client.socket.sendall(struct.pack(">i", len(body)) + body)
        correlation_id, response = client.receive_frame()
        assert client.ask(schemas.API_VERSIONS, 4, {"client_software_name": "again",
                          "client_software_version": "1"})["error_code"] == 0  # fmt: skip
    assert correlation_id == 77
    assert response == struct.pack(">hihhh", ErrorCode.UNSUPPORTED_VERSION, 1, 18, 0, 4)


@pytest.mark.parametrize(
    "requested,api",
    [((0, 2), "Produce"), ((0, 12), "Produce"), ((1, 13), "Fetch"), ((1, 3), "Fetch"),
     ((2, 0), "ListOffsets"), ((11, 5), "unknown"), ((-7, 0), "unknown")],
)  # fmt: skip
def test_an_unsupported_request_closes_the_connection_and_is_counted(
    running: ListenerThread,
    observer: CountingObserver,
    caplog: pytest.LogCaptureFixture,
    requested: tuple[int, int],
    api: str,
) -> None:
    caplog.set_level(logging.WARNING, "strandline.kafka_listener")
    body = struct.pack(">hhih", *requested, 5, 6) + b"nosuch"
    with WireClient(running.port) as client:
        client.socket.sendall(struct.pack(">i", len(body)) + body)
        assert client.is_closed_by_server()
    assert observer.unsupported == [(api, "nosuch")]
    (record,) = caplog.records
    assert record.getMessage() == "unsupported request, connection closed"
    assert (fields_of(record)["api_key"], fields_of(record)["api_version"]) == requested
    assert is_serving(running)


def test_client_names_are_bounded_and_plain(broker: MemoryBroker) -> None:
    observer = CountingObserver()
    settings = ListenerSettings(client_names_max=2)
    with ListenerThread(broker, settings=settings, observer=observer) as running:
        for name in (b"a b", b"two", b"three", b"two", b""):
            body = struct.pack(">hhih", 99, 0, 5, len(name)) + name
            with WireClient(running.port) as client:
                client.socket.sendall(struct.pack(">i", len(body)) + body)
                assert client.is_closed_by_server()
    assert [client for _, client in observer.unsupported] == [
        "a_b", "two", "other", "two", "unknown",
    ]  # fmt: skip


# --- garbage ----------------------------------------------------------------------------


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


METADATA_9 = struct.pack(">hhih", 3, 9, 1, -1)
PRODUCE_3 = struct.pack(">hhih", 0, 3, 1, -1)
MALFORMED = [
    pytest.param(struct.pack(">i", -1), id="negative length"),
    pytest.param(struct.pack(">i", 0), id="length zero"),
    pytest.param(struct.pack(">i", 7), id="shorter than a header"),
    pytest.param(struct.pack(">i", 2**31 - 1), id="huge length"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", id="HTTP"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS hello"),
    pytest.param(framed(struct.pack(">hhi", 3, 1, 1)), id="no client id"),
    pytest.param(framed(struct.pack(">hhih", 3, 1, 1, 300) + b"x"), id="client id beyond frame"),
    pytest.param(framed(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe" + struct.pack(">i", 0)),
                 id="client id not UTF-8"),
    pytest.param(framed(METADATA_9), id="body missing"),
    pytest.param(framed(METADATA_9 + b"\x00\xff\xff\xff\xff\x0f"), id="array count beyond frame"),
    pytest.param(framed(METADATA_9 + b"\x00\xff\xff\xff\xff\xff\xff\x01"), id="endless varint"),
    pytest.param(framed(METADATA_9 + b"\x05"), id="header tags beyond frame"),
    pytest.param(framed(PRODUCE_3 + struct.pack(">hhii", -1, -1, 0, -1)), id="null topics"),
    pytest.param(framed(PRODUCE_3 + struct.pack(">hhii", -1, -1, 0, -9)), id="count below -1"),
    pytest.param(framed(PRODUCE_3 + struct.pack(">hhiih", -1, -1, 0, 1, -2)), id="bad string"),
]  # fmt: skip


@pytest.mark.parametrize("data", MALFORMED)
def test_malformed_input_closes_its_connection_with_one_log_line(
    running: ListenerThread, broker: MemoryBroker, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    caplog.set_level(logging.INFO, "strandline.kafka_listener")
    with WireClient(running.port) as client:
        client.socket.sendall(data)
        assert client.is_closed_by_server()
    assert [record.getMessage() for record in caplog.records] == [
        "malformed request, connection closed"
    ]
    assert broker.produce_calls == []
    assert is_serving(running)


def test_bytes_after_the_end_of_a_request_are_ignored(running: ListenerThread) -> None:
    all_topics = framed(METADATA_9 + b"\x00" + b"\x00" + b"\x00\x00\x00\x00" + b"\x01\x00\x00")
    with WireClient(running.port) as client:
        client.socket.sendall(all_topics)
        assert response_message(3, 9, client.receive_frame()[1])["topics"][0]["name"] == "orders"


def test_requests_before_a_malformed_one_get_responses(running: ListenerThread) -> None:
    with WireClient(running.port) as client:
        good = request_bytes(3, 1, {"topics": []}, correlation_id=8)
        client.socket.sendall(good + struct.pack(">i", -5) + good)
        correlation_id, _ = client.receive_frame()
        assert correlation_id == 8
        assert client.is_closed_by_server()


def test_more_elements_than_allowed_are_malformed(broker: MemoryBroker) -> None:
    settings = ListenerSettings(request_elements_max=10)
    with ListenerThread(broker, settings=settings) as running:
        requested: Message = {"topics": [{"name": "t"}] * 11}
        with WireClient(running.port) as client:
            client.send(schemas.METADATA, 4, requested)
            assert client.is_closed_by_server()
        with WireClient(running.port) as client:
            requested["topics"].pop()
            assert len(client.ask(schemas.METADATA, 4, requested)["topics"]) == 1


def tagged(count: int, *, in_header: bool) -> bytes:
    """Return a Metadata request with that many empty tagged fields in one place."""
    fields_ = wire.write_varint(count) + b"\x63\x00" * count
    head = struct.pack(">hhih", schemas.METADATA, 12, 1, 0)
    body = b"\x01\x01\x00"  # no topics, and two booleans
    frame = head + (fields_ + body + b"\x00" if in_header else b"\x00" + body + fields_)
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.parametrize("in_header", [False, True], ids=["body", "header"])
def test_tagged_fields_count_as_elements(broker: MemoryBroker, in_header: bool) -> None:
    settings = ListenerSettings(request_elements_max=10)
    with ListenerThread(broker, settings=settings) as running:
        with WireClient(running.port) as client:
            client.socket.sendall(tagged(11, in_header=in_header))
            assert client.is_closed_by_server()
        with WireClient(running.port) as client:
            client.socket.sendall(tagged(10, in_header=in_header))
            assert client.receive_frame()[0] == 1


def test_a_string_is_no_longer_in_compact_form_than_in_classic_form(broker: MemoryBroker) -> None:
    def named(size: int) -> Message:
        return {"topics": [{"name": "t" * size, "topic_id": bytes(16)}]}

    with ListenerThread(broker) as running:
        with WireClient(running.port) as client:
            client.send(schemas.METADATA, 12, named(32_768))
            assert client.is_closed_by_server()
        with WireClient(running.port) as client:
            (topic,) = client.ask(schemas.METADATA, 12, named(32_767))["topics"]
            assert topic["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION


@BOTH_LOOPS
def test_random_bytes_and_broken_requests_leave_the_server_serving(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    source = random.Random(20)
    whole = [
        request_bytes(0, 9, requests.produce(make_batch([b"a" * 100])), correlation_id=1),
        request_bytes(1, 12, requests.fetch(0), correlation_id=2),
        request_bytes(3, 12, {"topics": None}, correlation_id=3),
        request_bytes(2, 6, requests.list_offsets(-1), correlation_id=4),
    ]
    before = broker.logs["orders", 0].end
    with ListenerThread(broker, new_loop=new_loop) as running:
        for number in range(300):
            with socket.create_connection(("127.0.0.1", running.port)) as client:
                client.sendall(broken(source, whole, number))
        assert is_serving(running)
        eventually(lambda: running.connection_count == 0, WITHIN_MS, "all closed")
        assert running.call(lambda: running.listener._shared.bounds.request_memory.used) == 0
        assert running.loop_errors == []
    assert broker.logs["orders", 0].end - before <= 300


def broken(source: random.Random, whole: list[bytes], number: int) -> bytes:
    """Return random bytes, a request cut short, or one with some bytes changed."""
    if number % 3 == 0:
        return source.randbytes(source.randrange(1, 400))
    request = bytearray(source.choice(whole))
    if number % 3 == 1:
        return bytes(request[: source.randrange(1, len(request))])
    for _ in range(source.randrange(1, 4)):
        request[source.randrange(4, len(request))] = source.randrange(256)
    return bytes(request)


# --- failures of our own, and closing -----------------------------------------------------


def test_a_failing_handler_costs_one_connection(
    running: ListenerThread, broker: MemoryBroker, observer: CountingObserver,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    broker.failure = RuntimeError("planted")
    with WireClient(running.port) as client:
        client.send(schemas.METADATA, 1, {"topics": []})
        assert client.is_closed_by_server()
    assert caplog.messages == ["request failed, connection closed"]
    assert observer.responses == [("Metadata", ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert is_serving(running)


@BOTH_LOOPS
def test_a_broken_invariant_reaches_the_loops_exception_handler(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.failure = InvariantViolation("planted", value=1)
    with ListenerThread(broker, new_loop=new_loop) as running, WireClient(running.port) as client:
        client.send(schemas.METADATA, 1, {"topics": []})
        assert client.is_closed_by_server()
        eventually(lambda: running.loop_errors, WITHIN_MS, "handler called")
        assert isinstance(running.loop_errors[0]["exception"], InvariantViolation)


def test_closing_lets_pending_responses_leave(broker: MemoryBroker) -> None:
    broker.held_acks = []
    with ListenerThread(broker) as running, WireClient(running.port) as client:
        client.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        eventually(lambda: len(broker.held_acks or ()) == 1, WITHIN_MS, "appended")
        closing = asyncio.run_coroutine_threadsafe(
            running.listener.close(grace_ms=10_000), running.loop
        )
        acknowledge(running, broker, 0)
        assert only(client.receive()[1])["base_offset"] == 0
        assert client.is_closed_by_server()
        closing.result(timeout=10)
        with pytest.raises(ConnectionRefusedError):
            WireClient(running.port)
    assert running.connection_count == 0


@BOTH_LOOPS
def test_a_socket_bound_before_refuses_clients_until_it_is_opened(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.endpoints["BOUND"] = Endpoint(listener="BOUND", host="127.0.0.1", port=1)
    with socket.socket() as bound, ListenerThread(broker, new_loop=new_loop) as running:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            WireClient(port)
        opened = running.run(
            server.start(
                listener_name="BOUND",
                broker=broker,
                bound=bound.dup(),
                settings=ListenerSettings(),
                observer=CountingObserver(),
                bounds=running.bounds,
            )
        )
        assert opened.port == port
        with WireClient(port) as client:
            (response,) = client.ask(schemas.METADATA, 1, {"topics": []})["brokers"]
        assert response["port"] == 1
        running.run(opened.close())


def test_observer_hears_of_every_response(
    running: ListenerThread, observer: CountingObserver
) -> None:
    with WireClient(running.port) as client:
        client.ask(schemas.METADATA, 4, {"topics": [{"name": "nowhere"}]})
        client.ask(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
    assert observer.responses == [
        ("Metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("Produce", ErrorCode.NONE),
    ]
