"""The broker as its clients see it: `broker_interface.Broker` on top of the core and the logs.

Parses and checks a client's batch, lets the core decide, and responds when the core says so.
`consumer_fetches` reads for consumers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from strandline.broker_interface import (
    ConsumerFetchedPartition,
    ConsumerFetchPartition,
    DeletedRecords,
    ListedOffset,
    MetadataSnapshot,
    ProducedPartition,
    ProducePartition,
)
from strandline.config.storage import ConsumerReadConfig
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.effects import (
    AppendAsLeader,
    CompleteFetch,
    ReplyDeleteRecords,
    ReplyProduce,
)
from strandline.core.events import (
    Event,
    ProduceReceived,
    RecordsHandle,
)
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode, ProtocolError
from strandline.log.record_batch import read_client_batch
from strandline.model import (
    UNKNOWN_EPOCH_END,
    Acks,
    BatchSpan,
    EpochEndOffset,
    LeaderEpoch,
    TopicPartition,
)
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.storage.disk_space import DiskSpace
from strandline.runtime.storage.replica_store import ReplicaStore

from .consumer_fetches import ConsumerFetches
from .producer_ids import ProducerIds
from .record_deletions import RecordDeletions
from .refused_batches import RefusedBatches, SentBatch
from .suspect_leaders import SuspectLeaders
from .time_searches import TimeSearches
from .unheard_partitions import UnheardPartitions


@dataclass(slots=True, kw_only=True)
class _Produce:
    """A produce request in flight: one result per partition, in the order of the request.

    unappended holds the batches that the core has not appended; an appended batch leaves it.
    """

    request_id: int
    acks: Acks
    timeout_ms: int
    codec_max: int
    results: list[ProducedPartition | None]
    unsettled: int
    done: asyncio.Future[tuple[ProducedPartition, ...]]
    slots: dict[TopicPartition, int] = field(default_factory=dict)
    unappended: dict[TopicPartition, SentBatch] = field(default_factory=dict)

    def settle(self, slot: int, result: ProducedPartition) -> bool:
        """Take one result; True if it was the last."""
        if self.results[slot] is None:
            self.unsettled -= 1
        self.results[slot] = result
        if not self.unsettled and not self.done.done():
            self.done.set_result(tuple(each for each in self.results if each is not None))
        return self.done.done()

    def refuse(self, slot: int, refusal: ProtocolError) -> None:
        """Settle a partition whose batch does not reach the core."""
        self.settle(slot, ProducedPartition(error=refusal.code, message=str(refusal)))


class BrokerApi:
    """Serves clients; on_produced gets (topic, records, bytes), on_fetched (topic, bytes)."""

    def __init__(
        self,
        *,
        replicas: Replicas,
        store: ReplicaStore,
        metadata: MetadataCache,
        suspects: SuspectLeaders,
        producer_ids: ProducerIds,
        clock: Clock,
        consumer_reads: ConsumerReadConfig,
        submit: Callable[[Event], None],
        next_request_id: Callable[[], int],
        space: DiskSpace,
        on_produced: Callable[[str, int, int], None],
        on_fetched: Callable[[str, int], None],
    ) -> None:
        self._replicas = replicas
        self._store = store
        self._metadata = metadata
        self._suspects = suspects
        self._unheard = UnheardPartitions(metadata=metadata)
        self._producer_ids = producer_ids
        self._submit = submit
        self._next_request_id = next_request_id
        self._space = space
        self._on_produced = on_produced
        self._refused = RefusedBatches()
        self._deletions = RecordDeletions(submit=submit, next_request_id=next_request_id)
        self._searches = TimeSearches(replicas=replicas, store=store)
        self._produces: dict[int, _Produce] = {}
        self._fetches = ConsumerFetches(
            replicas=replicas,
            store=store,
            metadata=metadata,
            clock=clock,
            config=consumer_reads,
            submit=submit,
            next_request_id=next_request_id,
            on_fetched=on_fetched,
        )

    def metadata(self, listener: str) -> MetadataSnapshot:
        """Return the cluster as seen through the listener of that name."""
        return self._metadata.snapshot(listener)

    def leaders_settled(self, topic_names: Sequence[str] | None) -> Awaitable[None] | None:
        """Return what to await before these topics' leaders are told, None to tell them now."""
        return self._suspects.settled(topic_names)

    def on_metadata(self) -> None:
        """Let requests for partitions of which nothing was known look again."""
        self._unheard.look_again()

    def knows(self, topic_name: str, partition: int) -> bool:
        """Tell whether this broker has heard of a partition."""
        return self._metadata.resolve(topic_name, partition) is not None

    async def heard(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Wait until this broker has heard of all these partitions, a second at most."""
        await self._unheard.heard(partitions)

    def allocate_producer_id(self) -> int:
        """Return a producer id that no broker ever handed out before (ADR 0005)."""
        return self._producer_ids.allocate()

    def produce(
        self, partitions: Sequence[ProducePartition], *, acks: Acks, timeout_ms: int, codec_max: int
    ) -> Awaitable[tuple[ProducedPartition, ...]]:
        """Append now, in call order; the awaitable ends with the acknowledgement."""
        request = _Produce(
            request_id=self._next_request_id(),
            acks=acks,
            timeout_ms=timeout_ms,
            codec_max=codec_max,
            results=[None] * len(partitions),
            unsettled=len(partitions),
            done=asyncio.get_running_loop().create_future(),
        )
        self._produces[request.request_id] = request
        for slot, wanted in enumerate(partitions):
            try:
                batch = read_client_batch(wanted.batch)
            except ProtocolError as refusal:
                request.refuse(slot, refusal)
                continue
            sent = SentBatch(wanted.topic_name, wanted.partition, batch)
            try:
                self._append(sent, slot, request)
            except ProtocolError as refusal:
                self._refused.note(sent, refusal.code)
                request.refuse(slot, refusal)
        if not partitions:
            request.done.set_result(())
        if request.done.done():
            self._produces.pop(request.request_id, None)
        return request.done

    def _append(self, sent: SentBatch, slot: int, request: _Produce) -> None:
        """Check one batch and hand it to the core; ProtocolError if it does not reach the core."""
        shared = self._refused.shared(sent)
        if shared is not ErrorCode.NONE:
            raise ProtocolError(shared, problem="right behind a refused batch")
        tp = self._metadata.resolve(sent.topic_name, sent.partition)
        if tp is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=sent.topic_name)
        log = self._store.logs.get(tp)
        if log is None:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=str(tp))
        if tp in request.slots:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, partition=str(tp))
        log.check_client_batch(sent.batch, codec_max=request.codec_max)
        sequence = log.check_sequence(sent.batch.header)
        is_new, size = sequence is ErrorCode.NONE, sent.batch.header.size_bytes
        if is_new and not self._space.admit_from_client(size):
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, problem="the volume is full")
        request.slots[tp] = slot
        if isinstance(sequence, ErrorCode):
            request.unappended[tp] = sent
        self._submit(
            ProduceReceived(
                request_id=request.request_id,
                tp=tp,
                acks=request.acks,
                record_count=sent.batch.header.last_offset_delta + 1,
                records=RecordsHandle(sent.batch),
                timeout_ms=request.timeout_ms,
                sequence=sequence,
            )
        )
        if isinstance(sequence, BatchSpan):
            self._note_retry(sent, request.results[slot])

    def _note_retry(self, sent: SentBatch, result: ProducedPartition | None) -> None:
        """Remember the refusal of a batch that is in the log already; None means that it waits.

        A timeout is no refusal: the batches behind this one waited, too.
        """
        if result is not None and result.error is not ErrorCode.REQUEST_TIMED_OUT:
            self._refused.note(sent, result.error)

    def on_appended(self, effect: AppendAsLeader) -> None:
        """Note that the core has appended a batch."""
        sent = self._produces[effect.request_id].unappended.pop(effect.tp)
        header = sent.batch.header
        self._on_produced(sent.topic_name, header.last_offset_delta + 1, header.size_bytes)

    def on_produced(self, effect: ReplyProduce) -> None:
        """Take the core's response for one partition; a batch still unappended was refused."""
        request = self._produces.get(effect.request_id)
        if request is None:
            return
        message = None
        if (sent := request.unappended.pop(effect.tp, None)) is not None:
            producer_id = sent.batch.header.producer_id
            message = str(
                ProtocolError(effect.error, producer_id=producer_id, partition=str(effect.tp))
            )
            self._refused.note(sent, effect.error)
        result = ProducedPartition(
            error=effect.error,
            base_offset=effect.base_offset,
            log_start_offset=effect.log_start_offset,
            message=message,
        )
        if request.settle(request.slots[effect.tp], result):
            del self._produces[effect.request_id]

    async def fetch(
        self,
        partitions: Sequence[ConsumerFetchPartition],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        admit: Callable[[int], Awaitable[bool]],
    ) -> tuple[ConsumerFetchedPartition, ...]:
        """Read below the high watermark, waiting up to max_wait_ms for min_bytes."""
        return await self._fetches.fetch(
            partitions,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            admit=admit,
        )

    def on_fetch_completed(self, effect: CompleteFetch) -> None:
        """Wake a waiting fetch: a partition changed, or the wait expired."""
        self._fetches.on_completed(effect)

    def close(self) -> None:
        """Begin no further read for a consumer."""
        self._fetches.close()
        self._searches.close()

    def delete_records(
        self, topic_name: str, partition: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[DeletedRecords]:
        """Begin a log at an offset; the awaitable ends when all live replicas begin there."""
        tp = self._metadata.resolve(topic_name, partition)
        return self._deletions.delete(tp, offset, timeout_ms=timeout_ms)

    def on_records_deleted(self, effect: ReplyDeleteRecords) -> None:
        """Take the core's response to a deletion."""
        self._deletions.on_deleted(effect)

    def list_offset(
        self, topic_name: str, partition: int, timestamp: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        """Return the earliest offset or the HW; an error while the HW is below the epoch start."""
        tp = self._metadata.resolve(topic_name, partition)
        if tp is None:
            return ListedOffset(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error, offset, epoch = self._replicas.consumer_reads.list_offset(
            tp, timestamp, leader_epoch
        )
        return ListedOffset(error=error, offset=offset, leader_epoch=epoch)

    async def find_offset(
        self, topic_name: str, partition: int, timestamp_ms: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        """Find the first record below the high watermark at or after a time."""
        tp = self._metadata.resolve(topic_name, partition)
        if tp is None:
            return ListedOffset(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return await self._searches.find(tp, timestamp_ms, leader_epoch)

    def end_offset_for_epoch(
        self, topic_name: str, partition: int, asked: LeaderEpoch, leader_epoch: LeaderEpoch | None
    ) -> tuple[ErrorCode, EpochEndOffset]:
        """Return where the greatest epoch not above `asked` ends (KIP-101, KIP-320)."""
        tp = self._metadata.resolve(topic_name, partition)
        if tp is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_EPOCH_END
        return self._replicas.consumer_reads.end_offset_for_epoch(tp, asked, leader_epoch)
