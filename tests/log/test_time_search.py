"""Searches by time against a naive walk, and the bounds of what they read."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.errors import ErrorCode, LogDirectoryFailed, ProtocolError
from strandline.log.index import BLOCK_ENTRIES
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_client_batch
from strandline.log.record_times import FoundRecord
from strandline.log.segment import LogLimits, SegmentPool
from strandline.model import LeaderEpoch, TopicSettings
from tests.log.support.batches import batch
from tests.log.support.logs import Workshop, bring_to_disk

GZIP, ZSTD = 1, 4
NEVER = 1_000
"""A timestamp that no record of the model reaches."""


def append(log: PartitionLog, times: list[int], *, codec: int = 0, epoch: int = 0) -> None:
    source = batch(
        [b"v" * 10] * len(times),
        timestamps_ms=times,
        attributes=codec,
        pack=gzip.compress if codec == GZIP else bytes,
    )
    log.append_as_leader(
        read_client_batch(source),
        base_offset=log.log_end_offset,
        leader_epoch=LeaderEpoch(epoch),
    )


def find(
    log: PartitionLog, timestamp_ms: int, *, up_to_offset: int | None = None
) -> FoundRecord | None:
    """Search segment by segment, as a broker does."""
    from_offset = log.log_start_offset
    end = log.log_end_offset if up_to_offset is None else up_to_offset
    while True:
        search = log.begin_time_search(timestamp_ms, from_offset=from_offset, up_to_offset=end)
        if search is None:
            return None
        found = log.end_time_search(search, search.run())
        if found is not None:
            return found
        from_offset = search.end_offset


@dataclass(frozen=True)
class Batch:
    """One batch of the model."""

    base: int
    times: list[int]
    epoch: int
    is_opaque: bool

    @property
    def end(self) -> int:
        return self.base + len(self.times)


class TimeMachine(RuleBasedStateMachine):
    """Rules change a log and a list of batches; a search finds what a walk of the list finds."""

    def __init__(self) -> None:
        super().__init__()
        root = Path(tempfile.mkdtemp(prefix="strandline-times-"))
        self.workshop = Workshop(
            root,
            TopicSettings(segment_bytes=6_000),
            LogLimits(index_interval_bytes=64, index_size_max_bytes=1024, unflushed_segments_max=2),
            SegmentPool(open_segments_max=2),
        )
        self.log = self.workshop.create()
        self.model: list[Batch] = []
        self.epoch = 0

    def teardown(self) -> None:
        self.log.close()
        self.workshop.pool.close()
        shutil.rmtree(self.workshop.root)

    @property
    def start(self) -> int:
        return self.log.log_start_offset

    @rule(
        shapes=st.lists(
            st.tuples(
                st.lists(st.integers(-1, 99), min_size=1, max_size=4),
                st.sampled_from([0, 0, 0, GZIP, ZSTD]),
            ),
            min_size=1,
            max_size=40,
        ),
        rising=st.booleans(),
    )
    def append(self, shapes: list[tuple[list[int], int]], rising: bool) -> None:
        for number, (drawn, codec) in enumerate(shapes):
            times = [number * 2 + each // 50 for each in drawn] if rising else drawn
            base = self.log.log_end_offset
            append(self.log, times, codec=codec, epoch=self.epoch)
            self.model.append(Batch(base, times, self.epoch, codec == ZSTD))

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        bring_to_disk(self.log)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        ends = [each.end for each in self.model if each.end >= self.start]
        end = data.draw(st.sampled_from(ends)) if ends else self.start
        assert self.log.truncate_to(end) == end
        self.model = [each for each in self.model if each.end <= end]

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.log.log_end_offset))
        self.log.begin_at(offset)
        for path in self.log.set_aside_below(offset):
            path.unlink()

    @rule(is_clean=st.booleans(), loses_indexes=st.booleans())
    def restart(self, is_clean: bool, loses_indexes: bool) -> None:
        log_start, recovery_point = self.log.log_start, self.log.recovery_point
        self.log.close()
        if loses_indexes:
            for path in self.workshop.folder.glob("*.index"):
                path.unlink()
        self.log = self.workshop.open(
            clean=is_clean, recovery_point=recovery_point, log_start=log_start
        )

    @rule(data=st.data(), timestamp_ms=st.integers(0, 105))
    def search(self, data: st.DataObject, timestamp_ms: int) -> None:
        ends = [self.start, *(each.end for each in self.model if each.end > self.start)]
        self.compare(timestamp_ms, data.draw(st.sampled_from(ends)))

    @invariant()
    def searches_of_the_whole_log_are_right(self) -> None:
        for timestamp_ms in (0, 40, 90, NEVER):
            self.compare(timestamp_ms, self.log.log_end_offset)

    def compare(self, timestamp_ms: int, up_to_offset: int) -> None:
        found = find(self.log, timestamp_ms, up_to_offset=up_to_offset)
        expected = self.walk(timestamp_ms, up_to_offset)
        if expected is None:
            # A batch that cannot be opened may hold its youngest record below the log start.
            assert found is None or self.is_cut_opaque(found.offset, timestamp_ms)
            return
        assert found is not None
        holder = next(each for each in self.model if each.base <= found.offset < each.end)
        assert found.leader_epoch == holder.epoch
        assert found.timestamp_ms >= timestamp_ms
        if holder.is_opaque:
            assert found.offset == max(holder.base, self.start) <= expected
            assert max(holder.times) >= timestamp_ms
        else:
            assert found.offset == expected
            assert found.timestamp_ms == holder.times[expected - holder.base]

    def walk(self, timestamp_ms: int, up_to_offset: int) -> int | None:
        return next(
            (
                each.base + delta
                for each in self.model
                for delta, time_ms in enumerate(each.times)
                if self.start <= each.base + delta < up_to_offset and time_ms >= timestamp_ms
            ),
            None,
        )

    def is_cut_opaque(self, offset: int, timestamp_ms: int) -> bool:
        return offset == self.start and any(
            each.is_opaque and each.base < offset < each.end and max(each.times) >= timestamp_ms
            for each in self.model
        )


TestTimes = TimeMachine.TestCase
TestTimes.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, settings=TopicSettings(segment_bytes=1 << 20))


class ReadBytes:
    """Counts the bytes and calls of pread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.calls = 0
        pread = os.pread

        def counted(fd: int, length: int, position: int) -> bytes:
            data = pread(fd, length, position)
            self.calls += 1
            self.bytes += len(data)
            return data

        monkeypatch.setattr(os, "pread", counted)


def long_log(root: Path, *, batches: int) -> tuple[Workshop, PartitionLog]:
    """Make a log of one segment whose records are one ms apart, the first of them far ahead."""
    limits = LogLimits(index_interval_bytes=64, index_size_max_bytes=1 << 20)
    workshop = Workshop(root, TopicSettings(segment_bytes=1 << 30), limits)
    log = workshop.create()
    append(log, [1 << 60])
    for number in range(1, batches):
        append(log, [number])
    return workshop, log


@pytest.mark.parametrize("is_loaded", [False, True], ids=["written", "loaded"])
def test_a_search_reads_one_block_however_long_its_segment_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loaded: bool
) -> None:
    """Also where a deleted record is far ahead of all others: a running maximum would hide them."""
    workshop, log = long_log(tmp_path, batches=4_000)
    log.begin_at(1)
    if is_loaded:
        bring_to_disk(log)
        log_start = log.log_start
        log.close()
        log = workshop.open(clean=True, recovery_point=4_000, log_start=log_start)
    batch_bytes = log.size_bytes // 4_000
    block_bytes = (BLOCK_ENTRIES + 1) * (64 + batch_bytes)
    reads = ReadBytes(monkeypatch)
    for wanted in (1, 700, 3_998):
        before = reads.bytes, reads.calls
        found = find(log, wanted)
        assert found is not None
        assert found.offset == wanted
        assert reads.bytes - before[0] <= 2 * block_bytes
        assert reads.calls - before[1] <= 2
    log.close()


def test_a_batch_that_lies_about_its_time_costs_one_read_and_no_record(workshop: Workshop) -> None:
    """Its header says what no record of it has: it counts as the header says."""
    log = workshop.create()
    append(log, [5, 7])
    lying = batch([b"v", b"v"], max_timestamp_ms=1 << 61)
    log.append_as_leader(read_client_batch(lying), base_offset=2, leader_epoch=LeaderEpoch(0))
    append(log, [1 << 61])
    found = find(log, 1 << 60)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, 1 << 61)
    log.close()


def test_bytes_that_are_no_records_count_as_their_header_says(workshop: Workshop) -> None:
    log = workshop.create()
    append(log, [5])
    garbage = batch([b"v"] * 3, timestamps_ms=[6, 9, 7], pack=lambda data: b"\xff" * len(data))
    log.append_as_leader(read_client_batch(garbage), base_offset=1, leader_epoch=LeaderEpoch(0))
    found = find(log, 8)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (1, 9)
    log.close()


def test_a_cut_while_a_search_runs_refuses_its_result(workshop: Workshop) -> None:
    log = workshop.create()
    for number in range(5):
        append(log, [number])
    search = log.begin_time_search(3, from_offset=0, up_to_offset=5)
    assert search is not None
    result = search.run()
    log.truncate_to(2)
    with pytest.raises(ProtocolError) as refused:
        log.end_time_search(search, result)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    log.close()


def test_a_segment_deleted_before_it_was_opened_has_nothing_any_more(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    log = workshop.create()
    for number in range(30):
        append(log, [number])
    bring_to_disk(log)
    search = log.begin_time_search(1, from_offset=0, up_to_offset=30)
    assert search is not None
    start = search.end_offset
    log.begin_at(start)
    for path in log.set_aside_below(start):
        path.unlink()
    assert log.end_time_search(search, search.run()) is None
    found = find(log, 1)
    assert found is not None
    assert found.offset == start
    log.close()


def test_a_search_that_the_disk_fails_fails_the_log(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workshop.create()
    append(log, [5])

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    search = log.begin_time_search(1, from_offset=0, up_to_offset=1)
    assert search is not None
    with monkeypatch.context() as broken:
        broken.setattr(os, "pread", fail)
        result = search.run()
    with pytest.raises(LogDirectoryFailed):
        log.end_time_search(search, result)
    log.close()
