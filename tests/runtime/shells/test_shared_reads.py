"""A leader reads a range for its followers once, and never hands out what was cut since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

from strandline.config.network import GrpcConfig
from strandline.core.copy_quota import CopyQuota
from strandline.core.effects import LogReadInfo, ReplyFetch, TruncateTo
from strandline.core.events import Event, FollowerFetchReceived
from strandline.core.fetch_changes import FetchChanges
from strandline.errors import ErrorCode
from strandline.model import BrokerEpoch, BrokerId, Registration
from strandline.rpc.replication_server import FollowerStream
from strandline.runtime.shells.replication_transport import ReplicationTransport
from strandline.runtime.storage.disk_space import DiskSpace
from tests.runtime.storage.opened import TP, Opened, append, with_store

FETCH = FollowerFetchReceived(
    request_id=99,
    follower=BrokerId(2),
    broker_epoch=BrokerEpoch(5),
    clean_since_epoch=BrokerEpoch(4),
    max_wait_ms=500,
    partitions=(),
    changes=FetchChanges(session_id=7, session_epoch=3, changed=(), forgotten=()),
    without_records=True,
)


class Leader:
    """A transport over a store, and what it sent to its followers."""

    def __init__(self, one: Opened) -> None:
        self._one = one
        self.submitted: list[FollowerFetchReceived] = []
        self._sent: list[Sequence[memoryview]] = []
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
            copies=CopyQuota(rate=1 << 20),
            on_copied=lambda _: None,
            on_copy_held_back=lambda: None,
            now_ms=lambda: 0,
        )

    def send_records(self, _id: int, _part: LogReadInfo, records: Sequence[memoryview]) -> None:
        """Stand in for a follower's stream."""
        self._sent.append(records)

    def send_end(self, _id: int) -> None: ...

    def take(self, fetch: FollowerFetchReceived) -> None:
        """Take a follower's fetch from its stream."""
        self._transport.on_fetch(fetch, cast(FollowerStream, self))

    def serve(self, follower: int, from_offset: int, up_to_offset: int) -> list[memoryview]:
        """Return what a follower gets."""
        self.take(replace(FETCH, follower=BrokerId(follower)))
        part = LogReadInfo(
            tp=TP,
            error=ErrorCode.NONE,
            high_watermark=0,
            log_start_offset=0,
            from_offset=from_offset,
            up_to_offset=up_to_offset,
        )
        request_id = self.submitted[-1].request_id
        self._transport.reply(
            ReplyFetch(request_id=request_id, follower=BrokerId(follower), partitions=(part,))
        )
        return [*self._sent[-1]]

    def on_disk(self, from_offset: int) -> bytes:
        """Return the batches of the log from an offset on; all have one size."""
        log = self._one.store.logs[TP]
        content = next(log.folder.glob("*.log")).read_bytes()
        return content[len(content) * from_offset // log.log_end_offset :]


def test_a_fetch_reaches_the_core_whole_under_a_request_id_of_our_own(tmp_path: Path) -> None:
    async def scenario(one: Opened) -> None:
        leader = Leader(one)
        leader.take(FETCH)
        (submitted,) = leader.submitted
        assert submitted == replace(FETCH, request_id=0)
        told = [each.name for each in fields(FETCH) if getattr(FETCH, each.name) != each.default]
        assert {*told, "copies_after_ms"} == {each.name for each in fields(FETCH)}

    with_store(tmp_path, scenario)


def test_followers_share_a_read_until_the_log_is_cut(tmp_path: Path) -> None:
    async def scenario(one: Opened) -> None:
        await one.create(TP)
        for sequence in range(3):
            one.perform(append(one, TP, sequence=sequence))
        leader = Leader(one)
        (first,) = leader.serve(2, 1, 3)
        (second,) = leader.serve(3, 1, 3)
        assert second is first
        assert first == leader.on_disk(1)
        (longer,) = leader.serve(3, 0, 3)
        assert longer == leader.on_disk(0)
        (again,) = leader.serve(2, 1, 3)
        one.perform(TruncateTo(tp=TP, offset=1))
        for sequence in (7, 8):
            one.perform(append(one, TP, sequence=sequence))
        (anew,) = leader.serve(3, 1, 3)
        assert anew == leader.on_disk(1)
        assert anew != again

    with_store(tmp_path, scenario)
