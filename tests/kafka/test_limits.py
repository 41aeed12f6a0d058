"""Every bound of a connection and of a listener holds, and service goes on below it."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from functools import partial

import pytest
import uvloop

from strandline.kafka_listener import schemas, server
from strandline.kafka_listener.budget import Budget
from strandline.kafka_listener.listener_settings import ListenerSettings
from tests.kafka import requests
from tests.kafka.requests import only
from tests.kafka.serving import acknowledge, has_held, is_serving
from tests.kafka.support import CountingObserver, ListenerThread, MemoryBroker, make_batch
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
def test_reading_stops_at_the_bound_of_requests_and_goes_on_below_it(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.held_acks = []
    settings = ListenerSettings(requests_in_flight_max=2)
    with (
        ListenerThread(broker, settings=settings, new_loop=new_loop) as running,
        WireClient(running.port) as client,
    ):
        for _ in range(6):
            client.send(schemas.PRODUCE, 9, requests.produce(make_batch([bytes(60)])))
        eventually(lambda: broker.logs["orders", 0].end == 2, WITHIN_MS, "bound reached")
        assert is_serving(running)
        assert broker.logs["orders", 0].end == 2
        for index in range(6):
            eventually(partial(has_held, broker, index + 1), WITHIN_MS, "next appended")
            acknowledge(running, broker, index)
            assert only(client.receive()[1])["base_offset"] == index


BATCH = make_batch([bytes(2_000)])
LARGE = request_bytes(0, 9, requests.produce(BATCH), correlation_id=1)
"""A frame beyond the staging buffer of SMALL_MEMORY: it needs memory of its own to arrive."""
SMALL_MEMORY = ListenerSettings(receive_buffer_bytes=512, request_memory_max_bytes=2 * len(LARGE))


@BOTH_LOOPS
def test_frames_beyond_the_memory_of_requests_wait_in_their_order(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    """The first two fit; the third and the fourth come in when the memory before them is free."""
    with ListenerThread(broker, settings=SMALL_MEMORY, new_loop=new_loop) as running:
        clients = [WireClient(running.port) for _ in range(4)]
        memory = running.listener._shared.bounds.request_memory
        for number, client in enumerate(clients):
            client.socket.sendall(LARGE[:600])
            size, waiting = min(number + 1, 2) * (len(LARGE) - 4), max(0, number - 1)
            eventually(
                lambda: (memory.used, memory.waiting_count) == (size, waiting),  # noqa: B023
                WITHIN_MS,
                "each in its turn",
            )
        for client in clients:
            client.socket.sendall(LARGE[600:])
            assert client.receive_frame()[0] == 1
        eventually(lambda: (memory.used, memory.waiting_count) == (0, 0), WITHIN_MS, "all free")
        clients[0].socket.sendall(LARGE[:600])
        eventually(lambda: memory.used > 0, WITHIN_MS, "begun")
        for client in clients:
            client.socket.close()
        eventually(lambda: running.connection_count == 0, WITHIN_MS, "all left")
        assert memory.used == 0
    assert broker.logs["orders", 0].end == 4


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


def test_two_listeners_share_one_bound_of_connections(broker: MemoryBroker) -> None:
    settings = ListenerSettings(connections_max=1)
    with ListenerThread(broker, settings=settings) as running, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        second = running.run(
            server.start(
                listener_name="SECOND",
                broker=broker,
                bound=bound.dup(),
                settings=settings,
                observer=CountingObserver(),
                bounds=running.bounds,
            )
        )
        with WireClient(running.port) as client:
            client.ask(schemas.API_VERSIONS, 0, {})
            with WireClient(second.port) as refused:
                assert refused.is_closed_by_server()
        eventually(lambda: running.bounds.connections.used == 0, WITHIN_MS, "the client left")
        with WireClient(second.port) as client:
            client.ask(schemas.API_VERSIONS, 0, {})
            assert running.bounds.connections.used == 1
        running.run(second.close())
        assert running.bounds.connections.used == 0


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
        assert running.call(lambda: running.listener._shared.bounds.request_memory.used) == 0


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


@BOTH_LOOPS
def test_one_stuck_partition_stops_no_other_client(broker: MemoryBroker, new_loop: NewLoop) -> None:
    """Its partition's acknowledgements do not come: the producers' records are in the log."""
    broker.held_acks = []
    with (
        ListenerThread(broker, settings=SMALL_MEMORY, new_loop=new_loop) as running,
        WireClient(running.port) as one,
        WireClient(running.port) as two,
        WireClient(running.port) as other,
    ):
        for count in range(1, 11):
            one.send(schemas.PRODUCE, 9, requests.produce(BATCH))
            two.send(schemas.PRODUCE, 9, requests.produce(BATCH))
            eventually(partial(has_held, broker, 2 * count), WITHIN_MS, "appended")
        assert only(other.ask(schemas.FETCH, 11, requests.fetch(0)))["records"]
        assert other.ask(schemas.METADATA, 1, {"topics": []})["brokers"]
        assert running.call(lambda: running.listener._shared.bounds.request_memory.used) == 0


def test_a_frame_that_does_not_come_to_its_end_stops_no_small_request(broker: MemoryBroker) -> None:
    with (
        ListenerThread(broker, settings=SMALL_MEMORY) as running,
        WireClient(running.port) as slow,
        WireClient(running.port) as other,
    ):
        slow.socket.sendall(struct.pack(">ihhi", 50_000_000, schemas.PRODUCE, 9, 1) + bytes(400))
        memory = running.listener._shared.bounds.request_memory
        eventually(lambda: memory.used == 50_000_000, WITHIN_MS, "announced")
        assert not other.ask(schemas.FETCH, 11, requests.fetch(0))["error_code"]
        assert other.ask(schemas.METADATA, 1, {"topics": []})["brokers"]


@BOTH_LOOPS
def test_at_the_bound_of_waiting_acknowledgements_only_producers_wait(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.held_acks = []
    settings = ListenerSettings(acks_waiting_max=2)
    with (
        ListenerThread(broker, settings=settings, new_loop=new_loop) as running,
        WireClient(running.port) as one,
        WireClient(running.port) as two,
        WireClient(running.port) as other,
    ):
        for _ in range(2):
            one.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        eventually(partial(has_held, broker, 2), WITHIN_MS, "bound reached")
        two.send(schemas.PRODUCE, 9, requests.produce(make_batch([b"b"])))
        acks = running.listener._shared.bounds.waiting_acks
        eventually(lambda: acks.waiting_count == 1, WITHIN_MS, "the third waits")
        assert only(other.ask(schemas.FETCH, 11, requests.fetch(0)))["records"]
        assert len(broker.held_acks) == 2
        acknowledge(running, broker, 0)
        eventually(partial(has_held, broker, 3), WITHIN_MS, "the third is appended")
        for index in (1, 2):
            acknowledge(running, broker, index)
        assert [only(two.receive()[1])["base_offset"]] == [2]
        eventually(lambda: acks.used == 0, WITHIN_MS, "none waits")


@pytest.mark.parametrize("api_key", sorted(set(schemas.APIS) - {schemas.PRODUCE}))
def test_a_request_without_records_has_a_bound_of_its_own(
    broker: MemoryBroker, api_key: int
) -> None:
    settings = ListenerSettings(plain_request_max_bytes=1_000)
    with ListenerThread(broker, settings=settings) as running, WireClient(running.port) as client:
        client.socket.sendall(struct.pack(">ihhi", 1_001, api_key, 1, 1))
        assert client.is_closed_by_server()
        assert is_serving(running)


LARGE_BATCH = make_batch([bytes(20_000_000)])
"""More than the kernel takes from the broker before the client reads."""
LARGE_FETCH = requests.fetch(0, partition_max_bytes=20_000_000)


def memory_for(responses: int, **others: int) -> ListenerSettings:
    """Return settings under which so many responses of a large batch fit into the memory."""
    most = responses * 20_100_000
    return ListenerSettings(response_memory_max_bytes=most, **others)


def begin_fetches(running: ListenerThread, clients: list[WireClient], *, admitted: int) -> Budget:
    """Send one large fetch from each client, each after the one before has its place.

    The kernel takes some of each response, at most half; the event loop keeps all of it meanwhile.
    """
    memory = running.listener._shared.context.response_memory
    writing = running.listener._shared.connections
    for number, client in enumerate(clients, start=1):
        client.send(schemas.FETCH, 11, LARGE_FETCH)
        written, waiting = min(number, admitted), max(0, number - admitted)

        def are_placed(written: int = written, waiting: int = waiting) -> bool:
            begun = [each for each in writing if each._transport.get_write_buffer_size()]
            return (len(begun), memory.waiting_count) == (written, waiting)

        eventually(lambda: running.call(are_placed), WITHIN_MS, "each in its turn")
        assert written * len(LARGE_BATCH) <= memory.used <= memory.most
    return memory


@BOTH_LOOPS
def test_fetches_beyond_the_memory_of_responses_wait_and_small_requests_do_not(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.logs["orders", 0].append(LARGE_BATCH)
    broker.logs["audit", 0].append(make_batch([b"small"]))
    with (
        ListenerThread(broker, settings=memory_for(2), new_loop=new_loop) as running,
        WireClient(running.port) as other,
    ):
        slow = [WireClient(running.port) for _ in range(4)]
        memory = begin_fetches(running, slow, admitted=2)
        assert only(other.ask(schemas.FETCH, 11, requests.fetch(0, topic="audit")))["records"]
        assert other.ask(schemas.METADATA, 1, {"topics": []})["brokers"]
        for client in (slow[1], slow[0], slow[2], slow[3]):
            assert len(only(client.receive()[1])["records"]) == len(LARGE_BATCH)
        eventually(lambda: (memory.used, memory.waiting_count) == (0, 0), WITHIN_MS, "all free")
        for client in slow:
            client.socket.close()


@BOTH_LOOPS
def test_a_client_that_leaves_gives_the_memory_of_its_response_to_the_next(
    broker: MemoryBroker, new_loop: NewLoop
) -> None:
    broker.logs["orders", 0].append(LARGE_BATCH)
    with ListenerThread(broker, settings=memory_for(1), new_loop=new_loop) as running:
        slow = [WireClient(running.port) for _ in range(3)]
        memory = begin_fetches(running, slow, admitted=1)
        slow[1].socket.close()
        eventually(lambda: memory.waiting_count == 1, WITHIN_MS, "one of two waits no more")
        slow[0].socket.close()
        assert len(only(slow[2].receive()[1])["records"]) == len(LARGE_BATCH)
        eventually(lambda: (memory.used, memory.waiting_count) == (0, 0), WITHIN_MS, "all free")
        slow[2].socket.close()


@BOTH_LOOPS
def test_a_client_that_takes_no_response_is_closed_only_while_others_wait(
    broker: MemoryBroker, new_loop: NewLoop, caplog: pytest.LogCaptureFixture
) -> None:
    broker.logs["orders", 0].append(LARGE_BATCH)
    caplog.set_level(logging.INFO)
    settings = memory_for(1, response_timeout_ms=100)
    with ListenerThread(broker, settings=settings, new_loop=new_loop) as running:
        slow, patient = WireClient(running.port), WireClient(running.port)
        begin_fetches(running, [slow], admitted=1)
        swept = running.loop.time() + 0.3
        eventually(lambda: running.loop.time() > swept, WITHIN_MS, "swept more than once")
        assert running.connection_count == 2
        patient.send(schemas.FETCH, 11, LARGE_FETCH)
        assert len(only(patient.receive()[1])["records"]) == len(LARGE_BATCH)
        eventually(lambda: running.connection_count == 1, WITHIN_MS, "the slow one is closed")
        for client in (slow, patient):
            client.socket.close()
    assert "slow reader closed" in caplog.messages


def test_a_response_takes_at_most_a_16th_of_the_memory_that_is_free(broker: MemoryBroker) -> None:
    settings = ListenerSettings(response_memory_max_bytes=64_000, fetch_max_bytes=5_000)
    with ListenerThread(broker, settings=settings) as running, WireClient(running.port) as client:
        client.ask(schemas.FETCH, 11, requests.fetch(0))
    assert broker.fetch_calls[0]["max_bytes"] == 4_000


@pytest.mark.parametrize(
    ("used", "most"),
    [(0, 4_000), (16_000, 3_000), (48_000, 1_000), (60_000, 1_000), (70_000, 1_000)],
)
def test_a_response_may_have_less_while_others_hold_more_but_a_64th_of_all(
    used: int, most: int
) -> None:
    settings = ListenerSettings(response_memory_max_bytes=64_000)
    assert settings.fetch_response_max_bytes(used) == most
