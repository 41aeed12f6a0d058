"""Threads read parts of a log while another one appends, rolls, truncates and deletes it."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from strandline.errors import ErrorCode, ProtocolError
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_fetched
from strandline.log.segment import SegmentPool
from strandline.log.segment_part import READ_ALL
from tests.log.support.logs import (
    SMALL_INDEX,
    Workshop,
    append,
    bring_to_disk,
    bytes_of,
    content,
    fill,
)

READERS = 2
CHANGES = 400
Span = tuple[int, int]
"""The base offset and the leader epoch of a batch."""


class Readers:
    """Threads that read at random until they are stopped, and what went wrong in them."""

    def __init__(self, log: PartitionLog, loop: threading.Lock) -> None:
        self._log = log
        self._loop = loop
        self._stop = threading.Event()
        self.seen: list[list[Span]] = []
        self.errors: list[BaseException] = []
        self.refusals: set[ErrorCode] = set()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(READERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        draw = random.Random(seed)
        try:
            while not self._stop.is_set():
                with suppress(ProtocolError):
                    self._read_once(draw)
        except BaseException as error:
            self.errors.append(error)

    def _read_once(self, draw: random.Random) -> None:
        max_bytes = draw.choice([1, 300, 5000])
        with self._loop:
            end = self._log.log_end_offset
            start = draw.randrange(end + 1)
            up_to = draw.randint(start, end)
            part = self._log.part(from_offset=start, up_to_offset=up_to, max_bytes=max_bytes)
        range_min_bytes = draw.choice([1, 2_000, READ_ALL])
        read = part.read(max_bytes=max_bytes, any_size=True, range_min_bytes=range_min_bytes)
        try:
            with self._loop:
                found = bytes_of(self._log.finish_read(part, read))
        except ProtocolError as refusal:
            self.refusals.add(refusal.code)
            raise
        batches = read_fetched(found).headers
        assert all(header.next_offset <= up_to for header in batches)
        self.seen.append([(header.base_offset, header.leader_epoch) for header in batches])


def change_at_random(
    log: PartitionLog, loop: threading.Lock, draw: random.Random
) -> list[list[Span]]:
    """Change a log many times; return the batches of every version between two cuts."""
    epoch, versions, now = 0, [], list[Span]()
    for _ in range(CHANGES):
        if draw.random() < 0.9 or not now:
            now.append((log.log_end_offset, epoch))
            with loop:
                append(log, records=2, epoch=epoch, value=b"v" * draw.choice([5, 20, 100]))
                if len(now) % 7 == 0:
                    bring_to_disk(log)
            continue
        versions.append(list(now))
        epoch += 1
        target = draw.choice(now[len(now) // 2 :])[0]
        with loop:
            log.truncate_to(target)
        now = [span for span in now if span[0] < target]
    return [*versions, now]


@pytest.mark.parametrize("at_once_max", [1 << 20, 0], ids=["short tails", "long tails"])
def test_a_read_returns_checked_batches_of_one_version_of_the_log(
    tmp_path: Path, at_once_max: int
) -> None:
    limits = dataclasses.replace(SMALL_INDEX, cut_at_once_bytes_max=at_once_max)
    workshop = Workshop(tmp_path, limits=limits, pool=SegmentPool(open_segments_max=2))
    log = workshop.create()
    loop = threading.Lock()
    with Readers(log, loop) as readers:
        versions = change_at_random(log, loop, random.Random(7))
    assert readers.errors == []
    assert any(readers.seen)
    assert readers.refusals <= {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    known = [set(version) for version in versions]
    for seen in readers.seen:
        assert any(version.issuperset(seen) for version in known), seen
    log.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.restart_at(1000),
        lambda log: log.release(),
        lambda log: log.truncate_to(2),
    ],
    ids=["restarted", "deleted", "truncated"],
)
def test_a_read_that_a_cut_overtakes_is_refused_and_fails_no_disk(
    workshop: Workshop, change: Callable[[PartitionLog], None]
) -> None:
    log = workshop.create()
    fill(log, batches=20)
    part = log.part(from_offset=30, up_to_offset=40, max_bytes=5000)
    change(log)
    read = part.read(max_bytes=5000, any_size=True)
    with pytest.raises(ProtocolError) as refusal:
        log.finish_read(part, read)
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log._failure is None


def test_a_disk_that_lost_bytes_without_a_cut_still_fails_the_log(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=1)
    whole = content(log)
    path = next(workshop.folder.glob("*.log"))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Exception, match="read: EIO"):
        log.read(from_offset=0, up_to_offset=2, max_bytes=5000)
    assert log._failure is not None


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
