"""A reader on the event loop that meets a segment without an index makes none there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from strandline.config.network import GrpcConfig
from strandline.core.copy_quota import CopyQuota
from strandline.core.effects import CreateReplica, TruncateTo
from strandline.core.events import Event, FetchResponseReceived
from strandline.errors import ErrorCode
from strandline.log.partition_log import PartitionLog
from strandline.log.segment import INDEX_SUFFIX
from strandline.model import BrokerId, EpochEndOffset, LeaderEpoch, Registration, TopicSettings
from strandline.rpc.frames import RecordsFrame
from strandline.runtime.shells.replication_transport import ReplicationTransport
from strandline.runtime.storage.disk_space import DiskSpace
from tests.support.disk_calls import disk_calls

from .opened import OTHER, TP, Opened, append, with_store

INTERVAL_BYTES = 4_096
"""More than a walk of one index interval of these tests reads, and less than a segment."""
SEGMENT_BYTES = 64_000


async def with_sealed_segments(one: Opened) -> PartitionLog:
    """Fill a log and take the index files of its sealed segments away."""
    await one.create(TP)
    settings = TopicSettings(segment_bytes=SEGMENT_BYTES)
    one.perform(CreateReplica(tp=TP, topic_name="orders", settings=settings))
    log = one.store.logs[TP]
    sequence = 0
    while log.segment_count < 3:
        one.perform(append(one, TP, sequence=sequence))
        sequence += 1
        if sequence % 100 == 0:
            await asyncio.sleep(0)
    await one.until(lambda: log.sealed_waiting == 0, "segments flushed")
    for path in log.folder.glob("*" + INDEX_SUFFIX):
        path.unlink()
    one.loaded_store.environment.pool.close()
    return log


def test_an_index_that_is_missing_is_made_off_the_event_loop(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        log = await with_sealed_segments(one)
        middle = log.log_end_offset // 5

        def is_made() -> bool:
            return one.store.indexes.has_all(
                TP, from_offset=middle, up_to_offset=log.log_end_offset, max_bytes=100
            )

        with disk_calls(tmp_path) as calls:
            assert not is_made()
            assert not is_made()
            await one.until(is_made, "the index")
            read = log.read(from_offset=middle, up_to_offset=log.log_end_offset, max_bytes=100)
        assert read
        assert not [call for call in calls if call.name in {"fsync", "create"}]
        walked = sum(call.amount for call in calls if call.name == "pread")
        assert walked < 2 * INTERVAL_BYTES
        assert not one.failures

    with_store(tmp_path, watched)


def test_the_end_of_the_log_needs_no_other_index(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        log = await with_sealed_segments(one)
        end = log.log_end_offset
        with disk_calls(tmp_path) as calls:
            assert one.store.indexes.has_all(
                TP, from_offset=end - 1, up_to_offset=end, max_bytes=100
            )
        assert not calls

    with_store(tmp_path, watched)


def test_a_log_that_is_cut_while_its_index_is_made_fails_no_disk(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        log = await with_sealed_segments(one)
        wanted = {"from_offset": 1, "up_to_offset": log.log_end_offset, "max_bytes": 100}
        assert not one.store.indexes.has_all(TP, **wanted)
        one.perform(TruncateTo(tp=TP, offset=2))
        await one.store.indexes.close()
        assert one.store.indexes.has_all(TP, from_offset=1, up_to_offset=2, max_bytes=100)
        assert log.read(from_offset=1, up_to_offset=2, max_bytes=100)
        assert not one.failures

    with_store(tmp_path, watched)


def test_a_cut_of_a_segment_without_an_index_waits_until_it_is_made(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        log = await with_sealed_segments(one)
        target = log.log_end_offset // 5
        parted = EpochEndOffset(leader_epoch=LeaderEpoch(0), end_offset=target)

        def is_ready() -> bool:
            return one.store.indexes.may_cut(TP, parted)

        with disk_calls(tmp_path) as calls:
            assert not is_ready()
            await one.until(is_ready, "the index")
            one.perform(TruncateTo(tp=TP, offset=target))
        assert log.log_end_offset == target
        assert not [call for call in calls if call.name in {"fsync", "create"}]
        assert sum(call.amount for call in calls if call.name == "pread") < 2 * INTERVAL_BYTES
        assert not one.failures

    with_store(tmp_path, watched)


def test_a_cut_near_the_end_or_of_nothing_waits_for_no_index(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        log = await with_sealed_segments(one)
        start, end = log.log_start_offset, log.log_end_offset
        with disk_calls(tmp_path) as calls:
            for offset in (end - 1, end, end + 7, start - 1):
                parted = EpochEndOffset(leader_epoch=LeaderEpoch(0), end_offset=offset)
                assert one.store.indexes.may_cut(TP, parted)
            assert one.store.indexes.may_cut(OTHER, parted)
        assert not calls

    with_store(tmp_path, watched)


def test_a_response_that_would_cut_a_segment_without_an_index_is_a_refusal_at_first(
    tmp_path: Path,
) -> None:
    submitted: list[FetchResponseReceived] = []

    async def watched(one: Opened) -> None:
        log = await with_sealed_segments(one)
        target = log.log_end_offset // 5
        transport = transport_of(one, submitted)
        frame = RecordsFrame(
            request_id=7,
            tp=TP,
            error=ErrorCode.NONE,
            high_watermark=0,
            log_start_offset=0,
            diverging=EpochEndOffset(leader_epoch=LeaderEpoch(0), end_offset=target),
            records=b"",
        )

        def error() -> ErrorCode:
            transport._on_response(BrokerId(2), 7, [frame])
            return submitted[-1].partitions[0].error

        assert error() is ErrorCode.KAFKA_STORAGE_ERROR
        await one.until(lambda: error() is ErrorCode.NONE, "the index")
        assert submitted[-1].partitions[0].diverging == frame.diverging
        assert not one.failures

    with_store(tmp_path, watched)


def transport_of(one: Opened, submitted: list[FetchResponseReceived]) -> ReplicationTransport:
    """Return a transport of a store, without peers: only what it makes of responses counts."""
    return ReplicationTransport(
        registration=cast(Registration, None),
        store=one.store,
        space=cast(DiskSpace, None),
        live_broker=lambda _broker: None,
        submit=cast(Callable[[Event], None], submitted.append),
        next_request_id=lambda: 0,
        grpc=GrpcConfig(),
        partition_fetch_max_bytes=1 << 20,
        response_max_bytes=1 << 20,
        on_bytes=lambda _direction, _count: None,
        copies=CopyQuota(rate=1 << 20),
        on_copied=lambda _count: None,
        on_copy_held_back=lambda: None,
        now_ms=lambda: 0,
    )
