"""A broker whose logs are in memory, and a listener that serves it.

The broker implements the interface by which a listener knows its broker: it stores real record
batches, checks their CRC and sequence, returns whole batches, and lets a test hold
acknowledgements.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import uuid
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import crc32c
import uvloop

from strandline.broker_interface import (
    BrokerMetadata,
    ConsumerFetchedPartition,
    ConsumerFetchPartition,
    DeletedRecords,
    ListedOffset,
    MetadataSnapshot,
    PartitionMetadata,
    ProducedPartition,
    ProducePartition,
    TopicMetadata,
)
from strandline.errors import ErrorCode, ProtocolError
from strandline.kafka_listener import server
from strandline.kafka_listener.client_bounds import ClientBounds
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.observer import ListenerObserver
from strandline.log.record_batch import check_client_batch, read_client_batch
from strandline.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    TO_HIGH_WATERMARK,
    UNKNOWN_EPOCH_END,
    Acks,
    BrokerId,
    Endpoint,
    EpochEndOffset,
    LeaderEpoch,
    TopicId,
)

T = TypeVar("T")

LEADER_EPOCH = LeaderEpoch(3)
HEADER = struct.Struct(">qiibIhiqqqhii")
"""The fields of a record batch before its records: 61 bytes."""


def make_batch(
    values: Sequence[bytes], *, producer_id: int = -1, sequence: int = -1, attributes: int = 0
) -> bytes:
    """Return a record batch v2 with one record for each value, without keys."""
    records = b""
    for delta, value in enumerate(values):
        body = b"\x00" + _varint(0) + _varint(delta) + _varint(-1) + _varint(len(value)) + value
        body += _varint(0)
        records += _varint(len(body)) + body
    after_crc = struct.pack(
        ">hiqqqhii", attributes, len(values) - 1, 0, 0, producer_id, 0, sequence, len(values)
    )
    after_crc += records
    crc = crc32c.crc32c(after_crc)
    return struct.pack(">qiibI", 0, len(after_crc) + 9, -1, 2, crc) + after_crc


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


@dataclass
class MemoryLog:
    """Batches of one partition, and their base offsets; `end` is the HW and the LEO."""

    batches: list[bytearray] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    end: int = 0
    last_of_producer: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """producer id -> (first sequence, next sequence, base offset) of its newest batch"""

    def append(
        self, batch: bytes | bytearray | memoryview, codec_max: int = 4
    ) -> ProducedPartition:
        """Append a valid batch; return its former base offset if the batch is a duplicate."""
        try:
            checked = read_client_batch(batch)
            check_client_batch(
                checked, codec_max=codec_max, message_max_bytes=1 << 30, segment_max_bytes=1 << 30
            )
        except ProtocolError as refusal:
            return ProducedPartition(error=refusal.code)
        header = checked.header
        last_delta, producer_id = header.last_offset_delta, header.producer_id
        sequence = header.base_sequence
        if producer_id >= 0:
            first, following, base = self.last_of_producer.get(producer_id, (-1, 0, -1))
            if sequence == first and following == first + last_delta + 1:
                return ProducedPartition(error=ErrorCode.NONE, base_offset=base, log_start_offset=0)
            if sequence != following:
                return ProducedPartition(error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            self.last_of_producer[producer_id] = (sequence, sequence + last_delta + 1, self.end)
        stored = bytearray(batch)
        struct.pack_into(">q", stored, 0, self.end)
        struct.pack_into(">i", stored, 12, LEADER_EPOCH)
        base_offset = self.end
        self.batches.append(stored)
        self.starts.append(base_offset)
        self.end += last_delta + 1
        return ProducedPartition(error=ErrorCode.NONE, base_offset=base_offset, log_start_offset=0)

    def read(self, offset: int, max_bytes: int) -> tuple[memoryview, ...]:
        """Return whole batches, the first one with `offset`; `max_bytes` never leaves out that."""
        found: list[memoryview] = []
        size = 0
        if offset >= self.end:
            return ()
        for batch in self.batches[bisect_right(self.starts, offset) - 1 :]:
            if found and size + len(batch) > max_bytes:
                break
            found.append(memoryview(batch))
            size += len(batch)
        return tuple(found)


async def _all_set(events: Sequence[asyncio.Event]) -> None:
    for each in events:
        await each.wait()


class MemoryBroker:
    """Implements `broker_interface.Broker`; `topics` maps names to numbers of partitions."""

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        self.topic_ids = {name: TopicId(str(uuid.uuid4())) for name in topics or {}}
        self.logs = {
            (name, partition): MemoryLog()
            for name, count in (topics or {}).items()
            for partition in range(count)
        }
        self.endpoints: dict[str, Endpoint] = {}
        self.leaderless: set[tuple[str, int]] = set()
        self.unreachable: set[tuple[str, int]] = set()
        """partitions led by a broker without an address on any listener"""
        self.moved: set[tuple[str, int]] = set()
        """partitions that this broker does not lead although metadata names it"""
        self.end_unknown: set[tuple[str, int]] = set()
        """partitions whose high watermark is below the start of their leader's epoch"""
        self.searches: list[int] = []
        """for each search by time, how many ran then"""
        self._searches_running = 0
        self.produce_calls: list[tuple[Acks, int]] = []
        self.fetch_calls: list[dict[str, Any]] = []
        self.held_acks: list[Callable[[], None]] | None = None
        """None: acknowledge at once; a list: collect what acknowledges"""
        self.fetches_cancelled = 0
        self.deletions: list[tuple[str, int, int, int]] = []
        self.failure: Exception | None = None
        self.next_producer_id = 1000
        self._grown = asyncio.Event()
        self.awaited: list[list[tuple[str, int]]] = []
        """for each request that waited for news of partitions, what it waited for"""
        self.news = asyncio.Event()
        self.news.set()
        self.suspected: dict[str, asyncio.Event] = {}
        """topics whose leader may have died, each with what is set when another one leads"""

    def knows(self, topic_name: str, partition: int) -> bool:
        return (topic_name, partition) in self.logs

    async def heard(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.awaited.append(list(partitions))
        await self.news.wait()

    def leaders_settled(self, topic_names: Sequence[str] | None) -> Awaitable[None] | None:
        named = self.suspected if topic_names is None else topic_names
        held = [self.suspected[name] for name in named if name in self.suspected]
        return _all_set(held) if held else None

    def metadata(self, listener: str) -> MetadataSnapshot:
        if self.failure is not None:
            raise self.failure
        me = BrokerId(0)
        return MetadataSnapshot(
            cluster_id="memory",
            controller=me,
            brokers=(BrokerMetadata(broker_id=me, endpoint=self.endpoints[listener]),),
            topics=tuple(
                TopicMetadata(
                    name=name,
                    topic_id=topic_id,
                    partitions=tuple(
                        PartitionMetadata(
                            partition=partition,
                            leader=self._leader(name, partition),
                            leader_epoch=LEADER_EPOCH,
                            replicas=(me,),
                            isr=(me,),
                            offline=(),
                        )
                        for topic, partition in self.logs
                        if topic == name
                    ),
                )
                for name, topic_id in self.topic_ids.items()
            ),
        )

    def _leader(self, topic_name: str, partition: int) -> BrokerId:
        if (topic_name, partition) in self.leaderless:
            return BrokerId(-1)
        return BrokerId(9 if (topic_name, partition) in self.unreachable else 0)

    def _refusal(self, topic_name: str, partition: int) -> ErrorCode:
        if (topic_name, partition) not in self.logs:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (topic_name, partition) in self.moved:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def produce(
        self,
        partitions: Sequence[ProducePartition],
        *,
        acks: Acks,
        timeout_ms: int,
        codec_max: int,
    ) -> Awaitable[tuple[ProducedPartition, ...]]:
        self.produce_calls.append((acks, timeout_ms))
        outcomes = []
        for request in partitions:
            refusal = self._refusal(request.topic_name, request.partition)
            outcomes.append(
                ProducedPartition(error=refusal)
                if refusal
                else self.logs[request.topic_name, request.partition].append(
                    request.batch, codec_max
                )
            )
        self._grown.set()
        self._grown = asyncio.Event()
        result: asyncio.Future[tuple[ProducedPartition, ...]] = (
            asyncio.get_running_loop().create_future()
        )
        if self.held_acks is None or acks is Acks.NONE:
            result.set_result(tuple(outcomes))
        else:
            self.held_acks.append(lambda: result.set_result(tuple(outcomes)))
        return result

    async def fetch(
        self,
        partitions: Sequence[ConsumerFetchPartition],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        admit: Callable[[int], Awaitable[bool]],
    ) -> tuple[ConsumerFetchedPartition, ...]:
        self.fetch_calls.append({"partitions": partitions, "max_wait_ms": max_wait_ms,
                                 "min_bytes": min_bytes, "max_bytes": max_bytes})  # fmt: skip
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        try:
            while True:
                grown = self._grown
                fetched = tuple(self._read(request, max_bytes) for request in partitions)
                size = sum(len(buffer) for data in fetched for buffer in data.records)
                rest = deadline - loop.time()
                if size >= min_bytes or rest <= 0 or any(data.error for data in fetched):
                    await admit(size)
                    return fetched
                try:
                    await asyncio.wait_for(grown.wait(), rest)
                except TimeoutError:
                    continue
        except asyncio.CancelledError:
            self.fetches_cancelled += 1
            raise

    def _read(self, request: ConsumerFetchPartition, max_bytes: int) -> ConsumerFetchedPartition:
        refusal = self._refusal(request.topic_name, request.partition)
        if refusal:
            return ConsumerFetchedPartition(error=refusal)
        log = self.logs[request.topic_name, request.partition]
        if not 0 <= request.fetch_offset <= log.end:
            return ConsumerFetchedPartition(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        if request.last_fetched_epoch is not None and request.last_fetched_epoch > LEADER_EPOCH:
            return ConsumerFetchedPartition(
                error=ErrorCode.NONE,
                high_watermark=log.end,
                diverging=EpochEndOffset(leader_epoch=LEADER_EPOCH, end_offset=log.end),
            )
        return ConsumerFetchedPartition(
            error=ErrorCode.NONE,
            high_watermark=log.end,
            log_start_offset=0,
            records=log.read(request.fetch_offset, min(max_bytes, request.max_bytes)),
        )

    def delete_records(
        self, topic_name: str, partition: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[DeletedRecords]:
        self.deletions.append((topic_name, partition, offset, timeout_ms))
        done: asyncio.Future[DeletedRecords] = asyncio.get_running_loop().create_future()
        done.set_result(self._delete(topic_name, partition, offset))
        return done

    def _delete(self, topic_name: str, partition: int, offset: int) -> DeletedRecords:
        refusal = self._refusal(topic_name, partition)
        if refusal:
            return DeletedRecords(error=refusal)
        end = self.logs[topic_name, partition].end
        wanted = end if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= end:
            return DeletedRecords(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        return DeletedRecords(error=ErrorCode.NONE, low_watermark=wanted)

    def list_offset(
        self, topic_name: str, partition: int, timestamp: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        refusal = self._refusal(topic_name, partition)
        if refusal:
            return ListedOffset(error=refusal)
        if leader_epoch is not None and leader_epoch < LEADER_EPOCH:
            return ListedOffset(error=ErrorCode.FENCED_LEADER_EPOCH)
        if timestamp not in {EARLIEST_TIMESTAMP, LATEST_TIMESTAMP}:
            return ListedOffset(error=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        if timestamp == LATEST_TIMESTAMP and (topic_name, partition) in self.end_unknown:
            return ListedOffset(error=ErrorCode.OFFSET_NOT_AVAILABLE)
        end = self.logs[topic_name, partition].end
        return ListedOffset(
            error=ErrorCode.NONE,
            offset=0 if timestamp == EARLIEST_TIMESTAMP else end,
            leader_epoch=LEADER_EPOCH,
        )

    async def find_offset(
        self, topic_name: str, partition: int, timestamp_ms: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        """Find a record: the timestamps of this broker's records are their offsets."""
        self.searches.append(1 + self._searches_running)
        self._searches_running += 1
        await asyncio.sleep(0)
        self._searches_running -= 1
        edge = self.list_offset(topic_name, partition, LATEST_TIMESTAMP, leader_epoch)
        if edge.error or timestamp_ms >= edge.offset:
            return ListedOffset(error=edge.error)
        return replace(edge, offset=timestamp_ms, timestamp_ms=timestamp_ms)

    def end_offset_for_epoch(
        self,
        topic_name: str,
        partition: int,
        requested: LeaderEpoch,
        leader_epoch: LeaderEpoch | None,
    ) -> tuple[ErrorCode, EpochEndOffset]:
        refusal = self._refusal(topic_name, partition)
        if refusal:
            return refusal, UNKNOWN_EPOCH_END
        if leader_epoch is not None and leader_epoch > LEADER_EPOCH:
            return ErrorCode.UNKNOWN_LEADER_EPOCH, UNKNOWN_EPOCH_END
        if requested < LEADER_EPOCH:
            return ErrorCode.NONE, UNKNOWN_EPOCH_END
        end = self.logs[topic_name, partition].end
        return ErrorCode.NONE, EpochEndOffset(leader_epoch=LEADER_EPOCH, end_offset=end)

    def allocate_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id


class CountingObserver:
    """Keeps what a listener reported."""

    def __init__(self) -> None:
        self.responses: list[tuple[str, ErrorCode]] = []
        self.unsupported: list[tuple[str, str]] = []

    def response_sent(
        self,
        api: str,
        error: ErrorCode,
        *,
        local_seconds: float,
        remote_seconds: float,
        send_seconds: float,
    ) -> None:
        assert min(local_seconds, remote_seconds, send_seconds) >= 0
        self.responses.append((api, error))

    def request_unsupported(self, api: str, client: str) -> None:
        self.unsupported.append((api, client))


class ListenerThread:
    """A listener on a free port of loopback; its event loop has a thread of its own."""

    def __init__(
        self,
        broker: MemoryBroker,
        *,
        settings: ListenerSettings | None = None,
        observer: ListenerObserver | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    ) -> None:
        self.broker = broker
        self.loop = new_loop()
        self.loop_errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.loop_errors.append(context))
        self._settings = settings or ListenerSettings()
        self.bounds = ClientBounds.of(self._settings, self.loop)
        self._observer = observer or CountingObserver()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        self.listener = self.run(
            server.start(
                bound=bound,
                listener_name="TEST",
                broker=self.broker,
                settings=self._settings,
                observer=self._observer,
                bounds=self.bounds,
            )
        )
        self.port = self.listener.port
        self.broker.endpoints["TEST"] = Endpoint(listener="TEST", host="127.0.0.1", port=self.port)
        return self

    def __exit__(self, *exc: object) -> None:
        self.run(self.listener.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)
        self.loop.close()

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return len(self.listener._shared.connections)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the listener's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=20)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the listener's loop and return its result."""
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        self.loop.call_soon_threadsafe(call)
        return done.result(timeout=20)
