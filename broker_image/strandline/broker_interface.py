"""The narrow interface through which clients' requests reach a broker.

`runtime` implements it; `kafka_listener` and tests use it. The interface speaks in offsets, epochs
and Kafka's error numbers, and passes records as buffers. The core never imports a listener; a
listener never sees the core.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import ErrorCode
from .model import Acks, BrokerId, Endpoint, EpochEndOffset, LeaderEpoch, TopicId

Buffer = bytes | bytearray | memoryview


class RecordsInFile(Protocol):
    """Whole batches that were not read: len() bytes of an open file, from a position on.

    Any thread may take them from the file, which is open as long as this is held. They are 64 KiB
    and more: fewer are read.
    """

    @property
    def fd(self) -> int:
        """The file's descriptor."""
        ...

    @property
    def position(self) -> int:
        """Where in the file they begin."""
        ...

    def __len__(self) -> int: ...

    def is_current(self) -> bool:
        """Tell whether the log was not cut since; what was taken before holds; in any thread."""
        ...

    def failed(self, error: OSError) -> None:
        """Tell the broker that its disk failed to give them; on the event loop."""
        ...


Piece = Buffer | RecordsInFile
"""A piece of a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition of a Metadata response; NO_LEADER travels as LEADER_NOT_AVAILABLE."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic; partitions ascend."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadata:
    """One broker, live or lately dead; a rack of "" travels as null."""

    broker_id: BrokerId
    endpoint: Endpoint
    rack: str = ""
    is_live: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """What this broker knows of the cluster; endpoints are those of the requested listener."""

    cluster_id: str
    controller: BrokerId
    brokers: tuple[BrokerMetadata, ...]
    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """What a client sent for one partition; the broker refuses all but one record batch v2.

    The broker resolves topic_name; the buffer stays unchanged until the response.
    """

    topic_name: str
    partition: int
    batch: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedPartition:
    """Outcome for one partition, in the order of the request; offsets are -1 on error."""

    error: ErrorCode
    base_offset: int = -1
    log_start_offset: int = -1
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFetchPartition:
    """One partition of a consumer's fetch request; leader_epoch None means the client sent none."""

    topic_name: str
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: LeaderEpoch | None = None
    last_fetched_epoch: LeaderEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFetchedPartition:
    """Outcome for one partition, in the order of the request.

    records holds whole batches below the high watermark; the first batch may begin before
    fetch_offset and may exceed max_bytes.
    """

    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    records: tuple[Piece, ...] = ()
    diverging: EpochEndOffset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    """Outcome for one partition: all live replicas begin at low_watermark or above, -1 on error."""

    error: ErrorCode
    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """Result of list_offset and find_offset; offset is -1 on error, and if no record was found.

    timestamp_ms is that of a record found by time.
    """

    error: ErrorCode
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)


class Broker(Protocol):
    """What a listener may ask of the broker it stands in front of."""

    def metadata(self, listener: str) -> MetadataSnapshot:
        """Return the cluster as seen through the listener of that name."""
        ...

    def leaders_settled(self, topic_names: Sequence[str] | None) -> Awaitable[None] | None:
        """Return what to await before these topics' leaders are told, None to tell them now.

        The successor of a leader that may have just died is awaited, a second at most.
        topic_names None means all topics.
        """
        ...

    def produce(
        self, partitions: Sequence[ProducePartition], *, acks: Acks, timeout_ms: int, codec_max: int
    ) -> Awaitable[tuple[ProducedPartition, ...]]:
        """Append now, in call order; await the result for the acknowledgement.

        `produce` appends before it returns, so the calls of a connection keep their order although
        the caller awaits their acknowledgements later.
        codec_max is the highest compression codec that the version of the request knows.
        Never raises: every outcome is an error code per partition.
        """
        ...

    async def fetch(
        self,
        partitions: Sequence[ConsumerFetchPartition],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        admit: Callable[[int], Awaitable[bool]],
    ) -> tuple[ConsumerFetchedPartition, ...]:
        """Read below the high watermark, waiting up to max_wait_ms for min_bytes.

        Before the read the broker awaits `admit` with the most bytes that it is going to read: the
        caller bounds the memory of all responses. `admit` returns True if it had to wait.
        """
        ...

    def delete_records(
        self, topic_name: str, partition: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[DeletedRecords]:
        """Begin a log at an offset, TO_HIGH_WATERMARK for all that consumers see.

        The awaitable ends when the logs of all live replicas begin there.
        """
        ...

    def knows(self, topic_name: str, partition: int) -> bool:
        """Tell whether this broker has heard of a partition."""
        ...

    async def heard(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Wait until the broker has heard of these partitions, by topic name, a second at most."""
        ...

    def list_offset(
        self, topic_name: str, partition: int, timestamp: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        """Return the earliest offset, or the latest (HW), unknown while below the epoch start."""
        ...

    async def find_offset(
        self, topic_name: str, partition: int, timestamp_ms: int, leader_epoch: LeaderEpoch | None
    ) -> ListedOffset:
        """Find the first record below the high watermark at or after a time; it reads the disk."""
        ...

    def end_offset_for_epoch(
        self, topic_name: str, partition: int, asked: LeaderEpoch, leader_epoch: LeaderEpoch | None
    ) -> tuple[ErrorCode, EpochEndOffset]:
        """Return where the greatest epoch not above `asked` ends (KIP-101, KIP-320)."""
        ...

    def allocate_producer_id(self) -> int:
        """Return a producer id that no broker ever handed out before (ADR 0005)."""
        ...
