"""Consumers' reads: which thread makes them, what a cut does to them, and how often they happen."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.broker_interface import (
    Buffer,
    ConsumerFetchedPartition,
    ConsumerFetchPartition,
    RecordsInFile,
)
from strandline.config.storage import ConsumerReadConfig
from strandline.errors import ErrorCode
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_fetched
from strandline.runtime.clients.consumer_fetches import RANGE_MIN_BYTES
from tests.runtime.clients.test_broker_api import ME, TOPIC, TP, Node, with_node
from tests.support.eventually import aeventually

LIMIT_MS = 5_000
IN_THREADS = ConsumerReadConfig(recent_bytes=0)
"""No record counts as recent: every read takes a thread."""


LARGE_VALUE = bytes(RANGE_MIN_BYTES // 3)
"""A batch has two of them: two batches are left in their file."""


async def admit_at_once(_size_bytes: int) -> bool:
    return False


async def fetch(
    node: Node,
    offset: int = 0,
    *,
    min_bytes: int = 1,
    max_bytes: int = 1_000_000,
    max_wait_ms: int = LIMIT_MS,
    partition_max_bytes: int = 1_000_000,
) -> ConsumerFetchedPartition:
    wanted = ConsumerFetchPartition(
        topic_name=TOPIC, partition=0, fetch_offset=offset, max_bytes=partition_max_bytes
    )
    (fetched,) = await node.broker_api.fetch(
        [wanted],
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        admit=admit_at_once,
    )
    return fetched


def bytes_of(fetched: ConsumerFetchedPartition) -> bytes:
    return b"".join(
        each if isinstance(each, Buffer) else os.pread(each.fd, len(each), each.position)
        for each in fetched.records
    )


def whole(log: PartitionLog) -> bytes:
    parts = log.read(from_offset=0, up_to_offset=log.log_end_offset, max_bytes=1 << 30)
    return b"".join(parts)


class Reads:
    """Every read of a file: its thread and its bytes; a test may hold those of threads.

    Unless a test says so, no page is in memory.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, in_memory: bool = False) -> None:
        self.threads: set[int] = set()
        self.byte_count = 0
        self.begun = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._pread = os.pread
        self._loop_thread = threading.get_ident()
        self._preadv = os.preadv
        self._in_memory = in_memory
        monkeypatch.setattr(os, "pread", self._read)
        monkeypatch.setattr(os, "preadv", self._read_at_once)

    @property
    def on_loop(self) -> bool:
        return self._loop_thread in self.threads

    @property
    def in_threads(self) -> bool:
        return bool(self.threads - {self._loop_thread})

    def _read_at_once(self, fd: int, into: list[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if not self._in_memory:
            raise BlockingIOError
        self.threads.add(threading.get_ident())
        count = self._preadv(fd, into, position, flags)
        self.byte_count += count
        return count

    def _read(self, fd: int, length: int, position: int) -> bytes:
        self.threads.add(threading.get_ident())
        if threading.get_ident() != self._loop_thread:
            self.begun.set()
            assert self.may_go_on.wait(LIMIT_MS / 1000)
        data = self._pread(fd, length, position)
        self.byte_count += len(data)
        return data


@pytest.mark.parametrize(
    ("config", "in_memory", "leaves_loop"),
    [
        (ConsumerReadConfig(), False, False),
        (IN_THREADS, False, True),
        (ConsumerReadConfig(on_loop_max_bytes=50), False, True),
        (IN_THREADS, True, False),
    ],
    ids=["small and recent", "not recent", "not small", "in memory"],
)
def test_only_reads_that_ask_no_disk_stay_on_the_event_loop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: ConsumerReadConfig,
    in_memory: bool,
    leaves_loop: bool,
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, 4)
        expected = whole(node.store.logs[TP])
        reads = Reads(monkeypatch, in_memory=in_memory)
        assert bytes_of(await fetch(node)) == expected
        assert (reads.on_loop, reads.in_threads) == (not leaves_loop, leaves_loop)

    with_node(tmp_path, scenario, config)


def test_reads_across_sealed_segments_equal_the_log(tmp_path: Path) -> None:
    """The small index rolls a segment after 128 entries; files are closed by a small pool."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(*range(0, 900, 2))
        log = node.store.logs[TP]
        assert log.segment_count > 2
        expected = whole(log)
        assert bytes_of(await fetch(node)) == expected
        position, offset = 0, 0
        while offset < log.log_end_offset:
            part = bytes_of(await fetch(node, offset, partition_max_bytes=1_000))
            assert part == expected[position : position + len(part)]
            assert 0 < len(part) <= 1_000
            position += len(part)
            offset = read_fetched(part).headers[-1].next_offset
        assert position == len(expected)

    with_node(tmp_path, scenario, IN_THREADS)


def in_files(fetched: ConsumerFetchedPartition) -> list[RecordsInFile]:
    """Return the records of a fetch, all of which are left in files."""
    assert fetched.error is ErrorCode.NONE
    return [each for each in fetched.records if not isinstance(each, Buffer)]


@pytest.mark.parametrize("in_memory", [True, False])
def test_many_records_are_left_in_their_file_and_only_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, 4, value=LARGE_VALUE)
        expected = whole(node.store.logs[TP])
        reads = Reads(monkeypatch, in_memory=in_memory)
        fetched = await fetch(node)
        assert reads.byte_count < 10_000
        assert (reads.on_loop, reads.in_threads) == (in_memory, not in_memory)
        assert [len(each) for each in in_files(fetched)] == [len(expected)]
        assert bytes_of(fetched) == expected

    with_node(tmp_path, scenario, IN_THREADS)


def test_records_in_files_are_current_until_their_log_is_cut(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, 4, value=LARGE_VALUE)
        log = node.store.logs[TP]
        expected = whole(log)
        fetched = await fetch(node)
        (records,) = in_files(fetched)
        await node.send(6, 8)
        for path in log.folder.glob("*.log"):
            path.unlink()
        assert records.is_current()
        assert bytes_of(fetched) == expected
        log.truncate_to(2)
        assert not records.is_current()

    with_node(tmp_path, scenario, IN_THREADS)


def test_a_disk_that_does_not_give_what_was_left_in_a_file_ends_the_leadership(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, value=LARGE_VALUE)
        (records,) = in_files(await fetch(node))
        records.failed(OSError(errno.EIO, "a sector is gone"))
        assert [str(failure).split(": ", 1)[1] for failure in node.failures] == ["read: EIO"]
        assert await node.send(4) == [ErrorCode.KAFKA_STORAGE_ERROR]

    with_node(tmp_path, scenario, IN_THREADS)


def cut(log: PartitionLog) -> None:
    log.truncate_to(2)


def restart(log: PartitionLog) -> None:
    log.restart_at(2)


@pytest.mark.parametrize("change", [cut, restart])
def test_a_log_that_is_cut_while_a_thread_reads_gives_an_error_and_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[PartitionLog], None]
) -> None:
    """Other records may stand where the thread reads: it must not return them."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, 4)
        reads = Reads(monkeypatch)
        reads.may_go_on.clear()
        fetching = asyncio.ensure_future(fetch(node))
        await aeventually(reads.begun.is_set, LIMIT_MS, "the thread reads")
        change(node.store.logs[TP])
        reads.may_go_on.set()
        fetched = await fetching
        assert fetched.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched.records == ()

    with_node(tmp_path, scenario, IN_THREADS)


def test_appends_and_removed_files_do_not_change_what_a_thread_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, 4)
        log = node.store.logs[TP]
        expected = whole(log)
        reads = Reads(monkeypatch)
        reads.may_go_on.clear()
        fetching = asyncio.ensure_future(fetch(node))
        await aeventually(reads.begun.is_set, LIMIT_MS, "the thread reads")
        await node.send(6, 8)
        for path in log.folder.glob("*.log"):
            path.unlink()
        reads.may_go_on.set()
        assert bytes_of(await fetching) == expected

    with_node(tmp_path, scenario, IN_THREADS)


def test_the_event_loop_serves_others_while_threads_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0)
        reads = Reads(monkeypatch)
        reads.may_go_on.clear()
        fetching = [asyncio.ensure_future(fetch(node)) for _ in range(9)]
        await aeventually(reads.begun.is_set, LIMIT_MS, "the threads read")
        assert await node.send(2) == [ErrorCode.NONE]
        for left in fetching[:4]:
            left.cancel()
        reads.may_go_on.set()
        outcomes = await asyncio.gather(*fetching, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in outcomes[:4]] == [True] * 4
        assert (
            len({bytes_of(each) for each in outcomes[4:] if not isinstance(each, BaseException)})
            <= 2
        )
        assert bytes_of(await fetch(node))

    with_node(tmp_path, scenario, IN_THREADS)


def test_a_fetch_that_waits_for_many_bytes_reads_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 40 batches moves the high watermark; what counts them is the index."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        reads = Reads(monkeypatch)
        fetching = asyncio.ensure_future(fetch(node, min_bytes=3_000))
        sequence = 0
        while not fetching.done():
            await node.send(sequence)
            sequence += 2
            await asyncio.sleep(0)
        size = len(bytes_of(await fetching))
        assert 3_000 <= size < 3_200
        assert reads.byte_count < 2 * size

    with_node(tmp_path, scenario)


def test_partitions_behind_a_full_response_are_told_of_and_not_looked_up_in_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer of many partitions names all of them in each of its fetches."""
    sizes_asked: list[int] = []
    size_range = PartitionLog.size_range

    def count(
        log: PartitionLog, from_offset: int, up_to_offset: int, *, enough: int
    ) -> tuple[int, int]:
        sizes_asked.append(from_offset)
        return size_range(log, from_offset, up_to_offset, enough=enough)

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(*range(0, 80, 2))
        expected = whole(node.store.logs[TP])
        wanted = ConsumerFetchPartition(
            topic_name=TOPIC, partition=0, fetch_offset=0, max_bytes=1_000_000
        )
        monkeypatch.setattr(PartitionLog, "size_range", count)
        fetched = await node.broker_api.fetch(
            [wanted] * 50,
            max_wait_ms=LIMIT_MS,
            min_bytes=1,
            max_bytes=2 * len(expected),
            admit=admit_at_once,
        )
        found = [bytes_of(each) for each in fetched]
        assert found == [expected] * 2 + [b""] * 48
        assert {each.high_watermark for each in fetched} == {80}
        assert 2 <= len(sizes_asked) < 10

    with_node(tmp_path, scenario)


@pytest.mark.parametrize(
    "bounds", [{"max_bytes": 100}, {"partition_max_bytes": 100}], ids=["request", "partition"]
)
def test_more_bytes_than_may_come_are_not_waited_for(
    tmp_path: Path, bounds: dict[str, int]
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await node.send(0, 2, 4)
        async with asyncio.timeout(LIMIT_MS / 1000):
            fetched = await fetch(node, min_bytes=5_000, max_wait_ms=3_600_000, **bounds)
        assert fetched.records

    with_node(tmp_path, scenario)


@pytest.mark.parametrize("reads", [ConsumerReadConfig(), IN_THREADS], ids=["on loop", "in thread"])
@pytest.mark.parametrize("keep_bytes", [0, 40], ids=["short", "cut header"])
def test_a_read_that_fails_ends_the_leadership(
    tmp_path: Path, keep_bytes: int, reads: ConsumerReadConfig
) -> None:
    """Else consumers fail for ever while this broker goes on leading."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        assert await node.send(0) == [ErrorCode.NONE]
        os.truncate(node.segment, keep_bytes)
        found = await fetch(node)
        assert (found.error, found.records) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
        assert [str(failure).split(": ", 1)[1] for failure in node.failures] == ["read: EIO"]
        assert await node.send(2) == [ErrorCode.KAFKA_STORAGE_ERROR]

    with_node(tmp_path, scenario, consumer_reads=reads)
