"""Responses whose records lie in files: the client cannot tell, whatever happens on the way."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import uvloop

from strandline.broker_interface import (
    Buffer,
    ConsumerFetchedPartition,
    ConsumerFetchPartition,
)
from strandline.kafka_listener import schemas
from strandline.kafka_listener.listener_settings import ListenerSettings
from tests.kafka import requests
from tests.kafka.requests import only
from tests.kafka.serving import is_serving
from tests.kafka.support import ListenerThread, MemoryBroker, make_batch
from tests.kafka.wire_client import WireClient
from tests.support.eventually import eventually

WITHIN_MS = 5_000
GREAT = 20_000_000
"""More than the kernel takes from the broker before the client reads."""
GREAT_FETCH = requests.fetch(0, partition_max_bytes=GREAT)
BEFORE = b"the records of another fetch"
"""Of the file, in front of the records."""


@dataclass(eq=False)
class Records:
    """Records in a file of a test; the file is closed with the last reference to them."""

    fd: int
    size: int
    position: int = len(BEFORE)
    is_cut: bool = False
    failures: list[OSError] = field(default_factory=list)

    def __len__(self) -> int:
        return self.size

    def is_current(self) -> bool:
        return not self.is_cut

    def failed(self, error: OSError) -> None:
        self.failures.append(error)

    def __del__(self) -> None:
        os.close(self.fd)


class FileBroker(MemoryBroker):
    """Leaves batches in files, but for small ones; `records` are the last that it gave."""

    def __init__(self, folder: Path) -> None:
        super().__init__({"orders": 3})
        self._path = folder / "records"
        self.records: Records | None = None

    def _read(self, request: ConsumerFetchPartition, max_bytes: int) -> ConsumerFetchedPartition:
        fetched = super()._read(request, max_bytes)
        batches = b"".join(each for each in fetched.records if isinstance(each, Buffer))
        if len(batches) < 10_000:
            return fetched
        self._path.write_bytes(BEFORE + batches + b"what was appended since")
        records = Records(os.open(self._path, os.O_RDONLY), len(batches))
        self._path.unlink()
        self.records = records
        return replace(fetched, records=(records,))

    @property
    def given(self) -> Records:
        """What was given last."""
        assert self.records is not None
        return self.records


@pytest.fixture
def broker(tmp_path: Path) -> FileBroker:
    return FileBroker(tmp_path)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def running(broker: FileBroker, request: pytest.FixtureRequest) -> Iterator[ListenerThread]:
    new_loop: Callable[[], asyncio.AbstractEventLoop] = request.param
    settings = ListenerSettings(response_memory_max_bytes=3 * GREAT, response_timeout_ms=100)
    with ListenerThread(broker, settings=settings, new_loop=new_loop) as listener:
        yield listener


def put(broker: FileBroker, size: int, topic: str = "orders", partition: int = 0) -> bytes:
    """Append a batch of so many bytes or a few more; return it as it is stored."""
    log = broker.logs[topic, partition]
    log.append(make_batch([os.urandom(size)]))
    return bytes(log.batches[-1])


def begin(running: ListenerThread, client: WireClient) -> None:
    """Have a great response sent to a client that does not read, until the kernel has enough."""
    client.send(schemas.FETCH, 11, GREAT_FETCH)
    senders = running.listener._shared.connections

    def is_waiting() -> bool:
        return any(each._responses._files._is_waiting for each in senders)

    eventually(lambda: running.call(is_waiting), WITHIN_MS, "the kernel takes no more")


def open_as(names: set[str]) -> list[str]:
    """Return the descriptors of this process that are of a file or socket named there."""
    found = []
    for each in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{each}") in names:
                found.append(each)
    return found


@pytest.mark.parametrize("version", [4, 11, 12])
@pytest.mark.parametrize("size", [10_000, 1_000_000, GREAT])
def test_clients_get_the_records_and_what_comes_before_and_behind_them(
    running: ListenerThread, broker: FileBroker, version: int, size: int
) -> None:
    """Behind the records may stand nothing, a few fields, or another partition's records."""
    first, small, last = (
        put(broker, each, partition=number) for number, each in enumerate((size, 30, size))
    )
    message = requests.fetch(0, partition_max_bytes=GREAT)
    (topic,) = message["topics"]
    topic["partitions"] = [topic["partitions"][0] | {"index": each} for each in range(3)]
    with WireClient(running.port) as client:
        for _ in range(2):
            client.send(schemas.METADATA, 1, {"topics": []})
            client.send(schemas.FETCH, version, message)
            client.send(schemas.FETCH, version, requests.fetch(0, partition_max_bytes=GREAT))
            client.send(schemas.METADATA, 1, {"topics": []})
            assert client.receive()[1]["brokers"]
            fetched = client.receive()[1]["topics"][0]["partitions"]
            assert [bytes(each["records"]) for each in fetched] == [first, small, last]
            assert only(client.receive()[1])["records"] == first
            assert client.receive()[1]["brokers"]


def test_a_client_that_reads_slowly_keeps_no_thread(
    running: ListenerThread, broker: FileBroker
) -> None:
    batch = put(broker, GREAT)
    bounds = running.listener._shared.bounds
    with ThreadPoolExecutor(1) as only_thread:
        object.__setattr__(bounds, "sending_threads", only_thread)
        with WireClient(running.port) as slow, WireClient(running.port) as other:
            begin(running, slow)
            assert only(other.ask(schemas.FETCH, 11, GREAT_FETCH))["records"] == batch
            assert only(slow.receive()[1])["records"] == batch


def test_a_log_that_is_cut_meanwhile_gives_no_whole_response(
    running: ListenerThread, broker: FileBroker
) -> None:
    put(broker, GREAT)
    with WireClient(running.port) as client:
        begin(running, client)
        broker.given.is_cut = True
        with pytest.raises((EOFError, ConnectionResetError)):
            client.receive()
    eventually(lambda: running.connection_count == 0, WITHIN_MS, "closed")
    assert broker.given.failures == []
    assert is_serving(running)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_file_that_ends_too_early_is_the_disks_failure_unless_its_log_was_cut(
    running: ListenerThread, broker: FileBroker, is_cut: bool
) -> None:
    put(broker, GREAT)
    with WireClient(running.port) as client:
        begin(running, client)
        broker.given.is_cut = is_cut
        fd = os.open(f"/proc/self/fd/{broker.given.fd}", os.O_RDWR)
        os.ftruncate(fd, GREAT // 2)
        os.close(fd)
        with pytest.raises((EOFError, ConnectionResetError)):
            client.receive()
    eventually(lambda: running.connection_count == 0, WITHIN_MS, "closed")
    assert [failure.errno for failure in broker.given.failures] == ([] if is_cut else [errno.EIO])


@pytest.mark.parametrize("more_requests", [0, 2])
def test_a_client_that_leaves_gives_its_descriptors_and_its_memory_back(
    running: ListenerThread, broker: FileBroker, more_requests: int
) -> None:
    """With requests behind that of the response nobody reads its socket, which would tell."""
    put(broker, GREAT)
    memory = running.bounds.response_memory
    with WireClient(running.port) as client:
        begin(running, client)
        (connection,) = running.listener._shared.connections
        fd = connection._transport.get_extra_info("socket").fileno()
        kept = {os.readlink(f"/proc/self/fd/{each}") for each in (fd, broker.given.fd)}
        broker.records = None
        assert len(open_as(kept)) == 3
        for _ in range(more_requests):
            client.send(schemas.METADATA, 1, {"topics": []})
        assert memory.used > GREAT
    eventually(lambda: running.connection_count == 0, WITHIN_MS, "closed")
    assert memory.used == 0
    eventually(lambda: not open_as(kept), WITHIN_MS, "all descriptors closed")


def test_a_client_that_takes_no_response_is_closed_when_others_want_its_memory(
    running: ListenerThread, broker: FileBroker
) -> None:
    batch = put(broker, GREAT)
    slow = [WireClient(running.port) for _ in range(2)]
    for client in slow:
        begin(running, client)
    with WireClient(running.port) as patient:
        assert only(patient.ask(schemas.FETCH, 11, GREAT_FETCH))["records"] == batch
        eventually(lambda: running.connection_count < 3, WITHIN_MS, "a slow one is closed")
    for client in slow:
        client.socket.close()


def test_a_listener_that_closes_sends_the_rest(running: ListenerThread, broker: FileBroker) -> None:
    batch = put(broker, GREAT)
    with WireClient(running.port) as client:
        begin(running, client)
        closing = asyncio.run_coroutine_threadsafe(
            running.listener.close(grace_ms=WITHIN_MS), running.loop
        )
        assert only(client.receive()[1])["records"] == batch
        assert client.is_closed_by_server()
        closing.result(timeout=WITHIN_MS / 1000)
