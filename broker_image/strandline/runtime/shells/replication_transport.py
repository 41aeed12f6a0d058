"""The transport of replication for one broker: fetches of its followers, fetches of its own.

Turns the core's `SendFetch` and `ReplyFetch` into frames and frames into events. One stream per
leader process: a broker that restarts has another broker epoch and may have another address.
The transport replaces request ids of followers by ids of its own, because each follower counts
for itself. What it reads for copies keeps to the broker's `CopyQuota`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from strandline.config.network import GrpcConfig
from strandline.core.copy_quota import CopyQuota
from strandline.core.effects import LogReadInfo, ReplyFetch, SendFetch
from strandline.core.events import (
    Event,
    FetchedPartition,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    RecordsHandle,
    RequestCancelled,
)
from strandline.errors import ErrorCode, ProtocolError, StorageError
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import FetchedBatches, read_fetched
from strandline.log_fields import fields
from strandline.model import (
    GRPC_LISTENER,
    BrokerEpoch,
    BrokerId,
    EpochEndOffset,
    LiveBroker,
    Registration,
    TopicPartition,
    joined_address,
)
from strandline.rpc.frames import RecordsFrame
from strandline.rpc.replication_client import ReplicationClient
from strandline.rpc.replication_server import FollowerStream
from strandline.rpc.streams import StreamOverflow
from strandline.runtime.event_loop.begun_tasks import BegunTasks
from strandline.runtime.storage.disk_space import DiskSpace
from strandline.runtime.storage.replica_store import ReplicaStore

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Leader:
    """A stream to one process of a broker, and the one fetch that may be outstanding on it."""

    broker_epoch: BrokerEpoch
    stream: ReplicationClient
    request_id: int = -1


class _Asked(NamedTuple):
    """A read of a log; a range that no cut came between has the same batches for ever."""

    log: PartitionLog
    changes: int
    from_offset: int
    up_to_offset: int
    max_bytes: int


@dataclass(slots=True, kw_only=True, eq=False)
class ReplicationTransport:
    """Streams from and to peers; submit is the core's driver."""

    registration: Registration
    store: ReplicaStore
    space: DiskSpace
    live_broker: Callable[[BrokerId], LiveBroker | None]
    submit: Callable[[Event], None]
    next_request_id: Callable[[], int]
    grpc: GrpcConfig
    partition_fetch_max_bytes: int
    response_max_bytes: int
    on_bytes: Callable[[str, int], None]
    copies: CopyQuota
    on_copied: Callable[[int], None]
    on_copy_held_back: Callable[[], None]
    now_ms: Callable[[], int]
    _waiting: dict[int, tuple[FollowerStream, int]] = field(default_factory=dict, init=False)
    _leaders: dict[BrokerId, _Leader] = field(default_factory=dict, init=False)
    _last_asked: _Asked | None = field(default=None, init=False)
    _last_read: list[memoryview] = field(default_factory=list, init=False)
    """As a rule, an append ends the waits of all followers, and each of them gets the same."""
    _closing: BegunTasks = field(default_factory=BegunTasks, init=False)

    def on_fetch(self, fetch: FollowerFetchReceived, stream: FollowerStream) -> None:
        """Hand a follower's fetch to the core, under a request id of our own."""
        request_id = self.next_request_id()
        self._waiting[request_id] = (stream, fetch.request_id)
        self.submit(
            FollowerFetchReceived(
                request_id=request_id,
                follower=fetch.follower,
                broker_epoch=fetch.broker_epoch,
                clean_since_epoch=fetch.clean_since_epoch,
                max_wait_ms=fetch.max_wait_ms,
                partitions=fetch.partitions,
                changes=fetch.changes,
                without_records=fetch.without_records,
                copies_after_ms=self.copies.wait_ms(fetch.follower, self.now_ms()),
            )
        )

    def on_follower_gone(self, stream: FollowerStream) -> None:
        """Cancel the fetches of a stream that ended."""
        gone = [number for number, (waiting, _) in self._waiting.items() if waiting is stream]
        for request_id in gone:
            del self._waiting[request_id]
            self.submit(RequestCancelled(request_id=request_id))

    def reply(self, effect: ReplyFetch) -> None:
        """Respond to a follower; records beyond a bound wait for its next fetch.

        What a copy must wait for is left out, as in Kafka: no member of an ISR gets less for it.
        """
        waiting = self._waiting.pop(effect.request_id, None)
        if waiting is None:
            return
        stream, request_id = waiting
        budget = self.response_max_bytes
        for part in effect.partitions:
            if budget <= 0 and part.from_offset < part.up_to_offset:
                continue
            max_bytes = min(budget, self.partition_fetch_max_bytes)
            if part.is_copy:
                max_bytes = min(max_bytes, self._copy_bytes(effect.follower))
                if max_bytes <= 0:
                    continue
            records = self._read(part, max_bytes)
            size = sum(map(len, records))
            budget -= size
            self.on_bytes("out", size)
            if part.is_copy:
                self.copies.note_copied(effect.follower, size)
                self.on_copied(size)
            stream.send_records(request_id, part, records)
        stream.send_end(request_id)

    def _copy_bytes(self, follower: BrokerId) -> int:
        """Return how many bytes of a copy a response may have, 0 if it must wait."""
        allowed = self.copies.allowed_bytes(follower, self.now_ms())
        if allowed == 0:
            self.copies.note_refused(follower, self.now_ms())
            self.on_copy_held_back()
        return allowed

    def _read(self, part: LogReadInfo, max_bytes: int) -> list[memoryview]:
        if part.error is not ErrorCode.NONE or part.from_offset >= part.up_to_offset:
            return []
        start, end = part.from_offset, part.up_to_offset
        log, indexes = self.store.logs[part.tp], self.store.indexes
        asked = _Asked(log, log.changes, start, end, max_bytes)
        if asked == self._last_asked:
            return self._last_read
        if not indexes.has_all(part.tp, from_offset=start, up_to_offset=end, max_bytes=max_bytes):
            return []  # the follower's next fetch finds it made
        self._last_read = log.read(from_offset=start, up_to_offset=end, max_bytes=max_bytes)
        self._last_asked = asked
        return self._last_read

    def send(self, effect: SendFetch) -> None:
        """Fetch from a leader, or tell it where we are; without its address, fail after this step.

        A follower without space goes on to tell: what it has may be acknowledged already, and a
        leader shows it to nobody until its followers told.
        """
        leader = self._leader(effect.leader)
        failed = FetchFailed(request_id=effect.request_id, leader=effect.leader)
        if leader is None:
            asyncio.get_running_loop().call_soon(self.submit, failed)
            return
        leader.request_id = effect.request_id
        fetch = FollowerFetchReceived(
            request_id=effect.request_id,
            follower=self.registration.broker_id,
            broker_epoch=self.registration.broker_epoch,
            clean_since_epoch=self.registration.clean_since_epoch,
            max_wait_ms=effect.max_wait_ms,
            partitions=effect.partitions,
            changes=effect.changes,
            without_records=not self.space.has_room_for_leader(),
        )
        try:
            leader.stream.send(fetch)
        except StreamOverflow as error:
            _log.warning("replication stream given up", extra=fields(cause=str(error)))
            self._give_up(effect.leader)
            asyncio.get_running_loop().call_soon(self.submit, failed)

    def _give_up(self, broker_id: BrokerId) -> None:
        """End the stream to a leader; the next fetch opens another, and names all partitions."""
        self._closing.begin(self._leaders.pop(broker_id).stream.close())

    async def close(self) -> None:
        """End all streams to leaders."""
        streams = [leader.stream for leader in self._leaders.values()]
        self._leaders.clear()
        await asyncio.gather(*(stream.close() for stream in streams))
        await self._closing.all_done()

    def _leader(self, broker_id: BrokerId) -> _Leader | None:
        """Return the stream to a broker's present process, and open it if there is none."""
        live = self.live_broker(broker_id)
        known = self._leaders.get(broker_id)
        if known is not None and (live is None or live.broker_epoch == known.broker_epoch):
            return known
        endpoint = None if live is None else live.endpoint(GRPC_LISTENER)
        if live is None or endpoint is None:
            return None
        if known is not None:
            self._closing.begin(known.stream.close())
        stream = ReplicationClient(
            joined_address(endpoint.host, endpoint.port),
            self.grpc,
            on_response=lambda request_id, frames: self._on_response(broker_id, request_id, frames),
            on_broken=lambda: self._on_broken(broker_id, live.broker_epoch),
        )
        leader = self._leaders[broker_id] = _Leader(broker_epoch=live.broker_epoch, stream=stream)
        return leader

    def _on_broken(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        leader = self._leaders.get(broker_id)
        if leader is None or leader.broker_epoch != broker_epoch:
            return
        del self._leaders[broker_id]
        self.submit(FetchFailed(request_id=leader.request_id, leader=broker_id))

    def _on_response(
        self, broker_id: BrokerId, request_id: int, frames: list[RecordsFrame]
    ) -> None:
        partitions = tuple(self._checked(self._fitting(frame)) for frame in frames)
        self.submit(
            FetchResponseReceived(request_id=request_id, leader=broker_id, partitions=partitions)
        )

    def _fitting(self, frame: RecordsFrame) -> RecordsFrame:
        """Leave out records that there is no room for; the rest of the news needs none."""
        if not frame.records or self.space.admit_from_leader(len(frame.records)):
            return frame
        return replace(frame, records=b"")

    def _checked(self, frame: RecordsFrame) -> FetchedPartition:
        """Return one fetched partition for the core, after a check of each batch's CRC."""
        error = frame.error
        batches = FetchedBatches((), b"")
        try:
            batches = read_fetched(frame.records)
            self.on_bytes("in", len(frame.records))
        except ProtocolError as refusal:
            error = refusal.code
            _log.warning(
                "fetched batch refused", extra=fields(partition=str(frame.tp), cause=str(refusal))
            )
        parted = frame.diverging if error is ErrorCode.NONE else None
        if parted is not None and not self._may_cut(frame.tp, parted):
            error = ErrorCode.KAFKA_STORAGE_ERROR  # the core asks again, after a pause
        return FetchedPartition(
            tp=frame.tp,
            error=error,
            high_watermark=frame.high_watermark,
            log_start_offset=frame.log_start_offset,
            batches=batches.spans,
            records=RecordsHandle(batches),
            record_bytes=len(frame.records),
            diverging=frame.diverging,
        )

    def _may_cut(self, tp: TopicPartition, diverging: EpochEndOffset) -> bool:
        """Tell whether the core may cut a log now: a cut must walk no segment on this loop."""
        try:
            return self.store.indexes.may_cut(tp, diverging)
        except StorageError as error:
            self.store.fail(error)
            return False
