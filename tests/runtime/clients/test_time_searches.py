"""Offsets by time as clients get them: what is committed, off the event loop, and errors."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from strandline.broker_interface import ListedOffset, ProducePartition
from strandline.errors import ErrorCode
from strandline.model import Acks, LeaderEpoch
from tests.log.support.batches import batch
from tests.runtime.clients.test_broker_api import ME, OTHER, TOPIC, TP, Node, with_node
from tests.runtime.clients.test_consumer_fetches import Reads
from tests.support.eventually import aeventually

LIMIT_MS = 5_000
NOTHING = ListedOffset(error=ErrorCode.NONE)


async def find(node: Node, timestamp_ms: int, epoch: int | None = None) -> ListedOffset:
    asked = None if epoch is None else LeaderEpoch(epoch)
    return await node.broker_api.find_offset(TOPIC, 0, timestamp_ms, asked)


def send(node: Node, *times: int) -> asyncio.Future[object]:
    """Send one batch with a record for each timestamp; the future ends with its acknowledgement."""
    wanted = ProducePartition(
        topic_name=TOPIC, partition=0, batch=batch([b"v"] * len(times), timestamps_ms=times)
    )
    return asyncio.ensure_future(
        node.broker_api.produce([wanted], acks=Acks.ALL, timeout_ms=LIMIT_MS, codec_max=4)
    )


def test_the_first_record_at_or_after_a_time_is_found_with_its_epoch(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await send(node, 10, 20)
        await node.apply_state(ME, 3)
        await send(node, 15, 40)
        found = [await find(node, each) for each in (0, 11, 20, 21, 41)]
        assert [(each.offset, each.timestamp_ms, each.leader_epoch) for each in found] == [
            (0, 10, 0), (1, 20, 0), (1, 20, 0), (3, 40, 3), (-1, -1, -1),
        ]  # fmt: skip
        assert {each.error for each in found} == {ErrorCode.NONE}

    with_node(tmp_path, scenario)


def test_a_record_that_is_not_committed_is_not_found(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await send(node, 10)
        await node.apply_state(ME, 1, others=(OTHER,))
        waiting = send(node, 20)
        await aeventually(
            lambda: node.store.logs[TP].log_end_offset == 2, LIMIT_MS, "the second record"
        )
        assert (await find(node, 5)).offset == 0
        assert await find(node, 15) == NOTHING
        # A leader of a later epoch does not know whether the second record is committed.
        await node.apply_state(ME, 2, others=(OTHER,))
        assert (await find(node, 5)).offset == 0
        assert (await find(node, 15)).error is ErrorCode.OFFSET_NOT_AVAILABLE
        waiting.cancel()

    with_node(tmp_path, scenario)


def test_who_may_not_answer_refuses(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 2)
        await send(node, 10)
        assert (await find(node, 5, epoch=2)).offset == 0
        assert (await find(node, 5, epoch=1)).error is ErrorCode.FENCED_LEADER_EPOCH
        assert (await find(node, 5, epoch=3)).error is ErrorCode.UNKNOWN_LEADER_EPOCH
        unknown = await node.broker_api.find_offset("elsewhere", 0, 5, None)
        assert unknown.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await node.apply_state(OTHER, 3)
        assert (await find(node, 5)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_node(tmp_path, scenario)


def test_a_search_reads_off_the_event_loop_and_others_are_served_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await send(node, 10)
        reads = Reads(monkeypatch)
        reads.may_go_on.clear()
        searches = [asyncio.ensure_future(find(node, 5)) for _ in range(5)]
        await aeventually(reads.begun.is_set, LIMIT_MS, "the thread reads")
        assert await node.send(0) == [ErrorCode.NONE]
        searches[3].cancel()
        reads.may_go_on.set()
        found = await asyncio.gather(*searches, return_exceptions=True)
        assert isinstance(found.pop(3), asyncio.CancelledError)
        assert [each.offset for each in found if isinstance(each, ListedOffset)] == [0] * 4
        assert not reads.on_loop

    with_node(tmp_path, scenario)


def test_a_log_that_is_cut_while_a_thread_searches_gives_no_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await send(node, 10)
        reads = Reads(monkeypatch)
        reads.may_go_on.clear()
        search = asyncio.ensure_future(find(node, 5))
        await aeventually(reads.begun.is_set, LIMIT_MS, "the thread reads")
        node.store.logs[TP].restart_at(7)
        reads.may_go_on.set()
        assert (await search).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.failures == []

    with_node(tmp_path, scenario)


def test_a_search_that_the_disk_fails_ends_the_leadership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        await send(node, 10)
        with monkeypatch.context() as broken:
            broken.setattr(os, "pread", fail)
            assert (await find(node, 5)).error is ErrorCode.KAFKA_STORAGE_ERROR
        await aeventually(lambda: len(node.failures) == 1, LIMIT_MS, "the failure is told")

    with_node(tmp_path, scenario)
