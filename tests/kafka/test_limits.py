"""Every bound of a connection and of a listener holds, and service goes on below it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial

import pytest
import uvloop

from strandline.kafka_listener import schemas
from strandline.kafka_listener.listener_settings import ListenerSettings
from tests.kafka import requests
from tests.kafka.requests import only
from tests.kafka.serving import acknowledge, has_held, is_serving
from tests.kafka.support import ListenerThread, MemoryBroker, make_batch
from tests.kafka.wire_client import WireClient, request_bytes
from tests.support.eventually import eventually

WITHIN_MS = 5_000
BOTH_LOOPS = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


@BOTH_LOOPS
@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_frames_arrive_whole_however_they_are_cut(
    broker: MemoryBroker, new_loop: NewLoop, piece: int
) -> None:
    settings = ListenerSettings(receive_buffer_bytes=64)
    sizes = (1, 20, 300) if piece < 1000 else (1, 20, 300_000, 5, 900_000)
    data = b"".join(
        request_bytes(0, 9, requests.produce(make_batch([bytes(size)])), correlation_id=number)
        for number, size in enumerate(sizes)
    )
    with (
        ListenerThread(broker, settings=settings, new_loop=new_loop) as running,
        WireClient(running.port) as client,
    ):
        for start in range(0, len(data), piece):
            client.socket.sendall(data[start : start + piece])
        assert [client.receive_frame()[0] for _ in sizes] == list(range(len(sizes)))
    assert [len(batch) for batch in broker.logs["orders", 0].batches] == [
        len(make_batch([bytes(size)])) for size in sizes
    ]


@BOTH_LOOPS
@pytest.mark.parametrize(
    "settings",
    [
        ListenerSettings(requests_in_flight_max=2),
        ListenerSettings(connection_memory_max_bytes=400),
        ListenerSettings(append_memory_max_bytes=400),
    ],
    ids=["requests", "bytes of a connection", "bytes of a listener"],
)
def test_reading_stops_at_every_bound_and_goes_on_below_it(
    broker: MemoryBroker, new_loop: NewLoop, settings: ListenerSettings
) -> None:
    broker.held_acks = []
    with (
        ListenerThread(broker, settings=settings, new_loop=new_loop) as running,
        WireClient(running.port) as client,
    ):
        for _ in range(6):
            client.send(schemas.PRODUCE, 9, requests.produce(make_batch([bytes(60)])))
        eventually(lambda: broker.logs["orders", 0].end == 2, WITHIN_MS, "bound reached")
        assert is_serving(running) or settings.append_memory_max_bytes == 400
        assert broker.logs["orders", 0].end == 2
        for index in range(6):
            eventually(partial(has_held, broker, index + 1), WITHIN_MS, "next appended")
            acknowledge(running, broker, index)
            assert only(client.receive()[1])["base_offset"] == index


def test_other_connections_go_on_when_memory_is_free_again(broker: MemoryBroker) -> None:
    broker.held_acks = []
    settings = ListenerSettings(append_memory_max_bytes=200)
    with ListenerThread(broker, settings=settings) as running:
        with WireClient(running.port) as one, WireClient(running.port) as two:
            one.send(schemas.PRODUCE, 9, requests.produce(make_batch([bytes(60)])))
            eventually(lambda: broker.logs["orders", 0].end == 1, WITHIN_MS, "first appended")
            two.send(schemas.PRODUCE, 9, requests.produce(make_batch([bytes(60)])))
            budget = running.listener._shared.request_memory
            eventually(lambda: len(budget._waiting) == 1, WITHIN_MS, "second waits")
            acknowledge(running, broker, 0)
            eventually(lambda: broker.logs["orders", 0].end == 2, WITHIN_MS, "second appended")
        eventually(lambda: running.connection_count == 0, WITHIN_MS, "both left")
        assert running.call(lambda: budget.used_bytes) == 0


@BOTH_LOOPS
def test_a_client_that_takes_no_responses_stops_being_read(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.logs["orders", 0].append(make_batch([bytes(4_000_000)]))
    settings = ListenerSettings(write_buffer_high_bytes=100_000)
    with (
        ListenerThread(broker, settings=settings, new_loop=new_loop) as running,
        WireClient(running.port) as client,
    ):
        for _ in range(12):
            client.send(schemas.FETCH, 11, requests.fetch(0, partition_max_bytes=9_000_000))
        eventually(lambda: len(broker.fetch_calls) >= 1, WITHIN_MS, "first fetch")
        assert is_serving(running)
        assert len(broker.fetch_calls) < 12
        records = [bytes(only(client.receive()[1])["records"]) for _ in range(12)]
    assert set(records) == {bytes(broker.logs["orders", 0].batches[0])}


def test_connections_beyond_the_bound_are_closed(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with ListenerThread(broker, settings=ListenerSettings(connections_max=1)) as running:
        with WireClient(running.port) as first:
            first.ask(schemas.API_VERSIONS, 0, {})
            with WireClient(running.port) as second:
                assert second.is_closed_by_server()
            first.ask(schemas.API_VERSIONS, 0, {})
        eventually(lambda: running.connection_count == 0, WITHIN_MS, "first left")
        assert is_serving(running)
    assert "connection refused, too many connections" in caplog.messages


@pytest.mark.parametrize(
    "begun,settings",
    [
        (b"", ListenerSettings(connection_idle_max_ms=50)),
        (b"\x00\x00", ListenerSettings(receive_timeout_ms=50)),
        (struct.pack(">ihhi", 90_000_000, 0, 9, 1), ListenerSettings(receive_timeout_ms=50)),
    ],
    ids=["idle", "length missing", "frame missing"],
)
def test_silent_connections_are_closed(
    broker: MemoryBroker, begun: bytes, settings: ListenerSettings
) -> None:
    with ListenerThread(broker, settings=settings) as running, WireClient(running.port) as client:
        client.socket.sendall(begun)
        assert client.is_closed_by_server()
        eventually(lambda: running.connection_count == 0, WITHIN_MS, "gone")
        assert running.call(lambda: running.listener._shared.request_memory.used_bytes) == 0


def test_a_connection_that_waits_for_its_response_is_not_idle(broker: MemoryBroker) -> None:
    settings = ListenerSettings(connection_idle_max_ms=50)
    with ListenerThread(broker, settings=settings) as running, WireClient(running.port) as client:
        assert (
            only(client.ask(schemas.FETCH, 12, requests.fetch(0, max_wait_ms=300)))[
                "high_watermark"
            ]
            == 0
        )


def test_a_response_that_leaves_makes_room_for_the_next_request(broker: MemoryBroker) -> None:
    broker.held_acks = []
    settings = ListenerSettings(requests_in_flight_max=1)
    with ListenerThread(broker, settings=settings) as running, WireClient(running.port) as client:
        for _ in range(2):
            client.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        eventually(lambda: broker.logs["orders", 0].end == 1, WITHIN_MS, "bound reached")
        acknowledge(running, broker, 0)
        eventually(lambda: broker.logs["orders", 0].end == 2, WITHIN_MS, "next appended")
