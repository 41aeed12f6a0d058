"""A response holds copies back when the quota is used up, and never anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from strandline.config.network import GrpcConfig
from strandline.core.copy_quota import GATHER_MS, CopyQuota
from strandline.core.effects import LogReadInfo, ReplyFetch
from strandline.core.events import Event, FollowerFetchReceived
from strandline.errors import ErrorCode
from strandline.model import BrokerEpoch, BrokerId, Registration, TopicPartition
from strandline.rpc.replication_server import FollowerStream
from strandline.runtime.shells.replication_transport import ReplicationTransport
from strandline.runtime.storage.disk_space import DiskSpace

from .opened import OTHER, TP, Opened, append, with_store

RATE = 1 << 20
BATCHES = 100
FOLLOWER = BrokerId(4)


class Stream:
    """A follower's stream that keeps what was sent, by partition."""

    def __init__(self) -> None:
        self.sent: dict[TopicPartition, int] = {}
        self.ends = 0

    def send_records(self, _id: int, part: LogReadInfo, records: Sequence[memoryview]) -> None:
        self.sent[part.tp] = self.sent.get(part.tp, 0) + sum(map(len, records))

    def send_end(self, _id: int) -> None:
        self.ends += 1


class Leader:
    """A transport over a store that has two logs; the test gives the time."""

    def __init__(self, one: Opened) -> None:
        self.now_ms = 0
        self.quota = CopyQuota(rate=RATE)
        self.stream = Stream()
        self.submitted: list[FollowerFetchReceived] = []
        self.copied = 0
        self.held_back = 0
        self._store = one.store
        self._transport = ReplicationTransport(
            registration=cast(Registration, None),
            store=one.store,
            space=cast(DiskSpace, None),
            live_broker=lambda _broker: None,
            submit=cast(Callable[[Event], None], self.submitted.append),
            next_request_id=lambda: len(self.submitted),
            grpc=GrpcConfig(),
            partition_fetch_max_bytes=1 << 20,
            response_max_bytes=1 << 20,
            on_bytes=lambda _direction, _count: None,
            copies=self.quota,
            on_copied=self._on_copied,
            on_copy_held_back=self._on_copy_held_back,
            now_ms=lambda: self.now_ms,
        )

    def _on_copied(self, size: int) -> None:
        self.copied += size

    def _on_copy_held_back(self) -> None:
        self.held_back += 1

    def size(self, tp: TopicPartition) -> int:
        """Return the bytes of a log."""
        return self._store.logs[tp].size_bytes

    def fetch(self) -> FollowerFetchReceived:
        """Take a fetch of the follower; return it as the core gets it."""
        fetch = FollowerFetchReceived(
            request_id=0,
            follower=FOLLOWER,
            broker_epoch=BrokerEpoch(1),
            clean_since_epoch=BrokerEpoch(1),
            max_wait_ms=500,
            partitions=(),
        )
        self._transport.on_fetch(fetch, cast(FollowerStream, self.stream))
        return self.submitted[-1]

    def exchange(self) -> dict[TopicPartition, int]:
        """Fetch both partitions from their beginning, one as a copy; return the bytes sent."""
        request_id = self.fetch().request_id
        self.stream.sent.clear()
        parts = tuple(self._part(tp, is_copy=tp == TP) for tp in (TP, OTHER))
        self._transport.reply(
            ReplyFetch(request_id=request_id, follower=FOLLOWER, partitions=parts)
        )
        return dict(self.stream.sent)

    def _part(self, tp: TopicPartition, *, is_copy: bool) -> LogReadInfo:
        return LogReadInfo(
            tp=tp,
            error=ErrorCode.NONE,
            high_watermark=0,
            log_start_offset=0,
            from_offset=0,
            up_to_offset=self._store.logs[tp].log_end_offset,
            is_copy=is_copy,
        )


async def with_records(one: Opened) -> Leader:
    """Fill both logs with small batches."""
    await one.create(TP, OTHER)
    for sequence in range(BATCHES):
        for tp in (TP, OTHER):
            one.perform(append(one, tp, sequence=sequence))
        await asyncio.sleep(0)
    return Leader(one)


def test_a_response_leaves_a_copy_out_and_has_all_of_the_others(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        leader = await with_records(one)
        whole = {tp: leader.size(tp) for tp in (TP, OTHER)}
        assert leader.fetch().copies_after_ms == 0
        assert leader.exchange() == whole
        assert (leader.copied, leader.held_back) == (whole[TP], 0)
        leader.quota.note_copied(FOLLOWER, RATE)
        assert leader.fetch().copies_after_ms >= GATHER_MS
        assert leader.exchange() == {OTHER: whole[OTHER]}
        assert (leader.copied, leader.held_back) == (whole[TP], 1)
        assert leader.stream.ends == 2
        assert not one.failures

    with_store(tmp_path, watched)


def test_a_copy_gets_what_is_allowed_in_whole_batches_and_one_at_least(tmp_path: Path) -> None:
    async def watched(one: Opened) -> None:
        leader = await with_records(one)
        one_batch = leader.size(TP) // BATCHES
        leader.quota.note_copied(FOLLOWER, leader.quota.allowed_bytes(FOLLOWER, 0))
        leader.now_ms += 1
        allowed = leader.quota.allowed_bytes(FOLLOWER, leader.now_ms)
        assert one_batch < allowed < leader.size(TP)
        assert leader.exchange()[TP] == allowed // one_batch * one_batch
        leader.quota.note_copied(FOLLOWER, leader.quota.allowed_bytes(FOLLOWER, leader.now_ms) - 1)
        assert leader.exchange()[TP] == one_batch
        assert TP not in leader.exchange()
        assert not one.failures

    with_store(tmp_path, watched)
