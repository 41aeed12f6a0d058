"""Consumers' fetches: they wait by counting bytes, and read once, off the event loop.

Used by `broker_api`. A fetch waits until enough bytes lie below the high watermarks; offsets and
the logs' indexes tell how many, and no record is read for it. The read happens once, at the end, in
a thread: a page that is not in memory costs milliseconds, and the event loop has none to give. Only
a small read of what was written last stays on the event loop, because the page cache holds that,
and a hand-over to a thread costs more than the read (ADR 0027). Many records of one file are found
and not read: the listener sends them from their file (ADR 0079).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from strandline.broker_interface import (
    ConsumerFetchedPartition,
    ConsumerFetchPartition,
    RecordsInFile,
)
from strandline.config.storage import ConsumerReadConfig
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.effects import CompleteFetch, LogReadInfo
from strandline.core.events import DelayedFetchReceived, Event, RequestCancelled
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode, ProtocolError, StorageError
from strandline.log.partition_log import PartitionLog
from strandline.log.segment_part import FileRange, LogPart, LogRead
from strandline.model import TopicPartition
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.storage.replica_store import ReplicaStore

PARTITIONS_PER_READ_MAX = 32
"""Partitions that a thread reads at one go: each has open files of its own meanwhile."""
RANGE_MIN_BYTES = 65_536
"""Records of one file that are sent from there: a smaller copy is cheaper than one more call."""
PARTITIONS_PER_TURN_MAX = 250
"""Partitions that one step of the event loop looks at for one fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readable:
    """Records that a fetch may have from one partition; least and most bound their bytes.

    Both bounds may be too small where the fetch may not have more anyway. slot is the partition's
    place in the request; changes is the log's count of cuts at the time of the plan: after a cut
    nothing here holds.
    """

    slot: int
    log: PartitionLog
    changes: int
    allowed: LogReadInfo
    cap_bytes: int
    least: int
    most: int

    def size(self) -> int:
        """Return the bytes: exactly, if that needs only what was written last."""
        if self.least == self.most or self.allowed.from_offset < self.log.active_base_offset:
            return self.most
        return self.log.size_between(self.allowed.from_offset, self.allowed.up_to_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a fetch may read now; nothing was read."""

    outcomes: list[ConsumerFetchedPartition]
    """One for each partition of the request, still without records."""
    readable: list[_Readable]
    """Only the first ones, if these fill the response."""
    watches: tuple[tuple[TopicPartition, int], ...]
    is_final: bool
    """True if the response leaves at once, because of an error or a divergence."""

    def has(self, min_bytes: int) -> bool:
        """Tell whether so many bytes can be read; reads headers only if the indexes cannot tell."""
        readable = self.readable
        if min_bytes <= len(readable):
            return True
        if sum(min(each.least, each.cap_bytes) for each in readable) >= min_bytes:
            return True
        if sum(min(each.most, each.cap_bytes) for each in readable) < min_bytes:
            return False
        return sum(min(each.size(), each.cap_bytes) for each in readable) >= min_bytes

    def size_max(self, max_bytes: int) -> int:
        """Return the most bytes that a read may take; the first batch counts, however large."""
        if not self.readable:
            return 0
        first = self.readable[0]
        total = sum([min(each.most, each.cap_bytes) for each in self.readable])
        return max(min(total, max_bytes), min(first.most, first.log.message_max_bytes))


@dataclass(frozen=True, slots=True)
class _SentFromFile:
    """A `RecordsInFile`: a range of a file, and the log and its count of cuts when it was found."""

    range: FileRange
    log: PartitionLog
    changes: int
    on_failure: Callable[[StorageError], None]

    @property
    def fd(self) -> int:
        return self.range.file.fd

    @property
    def position(self) -> int:
        return self.range.position

    def __len__(self) -> int:
        return self.range.size_bytes

    def is_current(self) -> bool:
        return self.log.changes == self.changes

    def failed(self, error: OSError) -> None:
        self.on_failure(self.log.reading_failed(error))


_Records = tuple[memoryview | RecordsInFile, ...] | ErrorCode
"""The records of one partition, or the error of their read."""

_Outcome = tuple[LogPart, LogRead] | ErrorCode
"""What a thread brings back for one partition."""


class ConsumerFetches:
    """All fetches of consumers; on_fetched gets (topic, bytes)."""

    def __init__(
        self,
        *,
        replicas: Replicas,
        store: ReplicaStore,
        metadata: MetadataCache,
        clock: Clock,
        config: ConsumerReadConfig,
        submit: Callable[[Event], None],
        next_request_id: Callable[[], int],
        on_fetched: Callable[[str, int], None],
    ) -> None:
        self._replicas = replicas
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._config = config
        self._submit = submit
        self._next_request_id = next_request_id
        self._on_fetched = on_fetched
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._free_threads = asyncio.Semaphore(config.threads_max)
        self._threads = ThreadPoolExecutor(config.threads_max, thread_name_prefix="consumer read")

    def close(self) -> None:
        """Begin no further read; those that run end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

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

        A read that the disk fails is the end of this directory, as for a follower (ADR 0010).
        """
        try:
            return await self._fetch(partitions, max_wait_ms, min_bytes, max_bytes, admit)
        except StorageError as failure:
            self._store.fail(failure)
            failed = ConsumerFetchedPartition(error=ErrorCode.KAFKA_STORAGE_ERROR)
            return tuple(failed for _ in partitions)

    async def _fetch(
        self,
        partitions: Sequence[ConsumerFetchPartition],
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        admit: Callable[[int], Awaitable[bool]],
    ) -> tuple[ConsumerFetchedPartition, ...]:
        # More than the response may hold would keep a consumer waiting beside full partitions.
        fits = min(max_bytes, sum([each.max_bytes for each in partitions]))
        least = min(min_bytes, max(1, fits))
        deadline_ms = self._clock.now_ms() + max_wait_ms
        while True:
            plan = await self._plan(partitions, max_bytes)
            left_ms = deadline_ms - self._clock.now_ms()
            if plan.is_final or left_ms <= 0 or not plan.watches or plan.has(least):
                break
            expired = await self._wait(plan.watches, left_ms)
            if expired:
                # The core ended the wait: look once more and respond, even if time is left.
                deadline_ms = 0
        size_max = plan.size_max(max_bytes)
        if await admit(size_max):
            # Time has passed: another broker may lead now.
            plan = await self._plan(partitions, max_bytes)
        fetched = await self._read(plan, min(max_bytes, size_max))
        for wanted, data in zip(partitions, fetched, strict=True):
            if data.records:
                self._on_fetched(wanted.topic_name, sum(len(part) for part in data.records))
        return fetched

    async def _wait(self, watches: tuple[tuple[TopicPartition, int], ...], wait_ms: int) -> bool:
        """Wait until a watched partition changes; True if the wait expired first."""
        request_id = self._next_request_id()
        completed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = completed
        self._submit(
            DelayedFetchReceived(request_id=request_id, watches=watches, max_wait_ms=wait_ms)
        )
        try:
            return await completed
        except asyncio.CancelledError:
            self._submit(RequestCancelled(request_id=request_id))
            raise
        finally:
            self._waiting.pop(request_id, None)

    def on_completed(self, effect: CompleteFetch) -> None:
        """Wake a waiting fetch: a partition changed, or the wait expired."""
        completed = self._waiting.get(effect.request_id)
        if completed is not None and not completed.done():
            completed.set_result(effect.expired)

    async def _plan(self, partitions: Sequence[ConsumerFetchPartition], max_bytes: int) -> _Plan:
        """Look at the partitions in turns; what changes meanwhile is noticed by the core's wait.

        Partitions behind those that fill the response are not looked up in their logs. A read of
        what was cut meanwhile is refused by the count of changes.
        """
        outcomes: list[ConsumerFetchedPartition] = []
        readable: list[_Readable] = []
        watches: list[tuple[TopicPartition, int]] = []
        is_final = False
        left = max_bytes
        for number, wanted in enumerate(partitions):
            if number and number % PARTITIONS_PER_TURN_MAX == 0:
                await asyncio.sleep(0)
            tp = self._metadata.resolve(wanted.topic_name, wanted.partition)
            if tp is None:
                unknown = ConsumerFetchedPartition(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                outcomes.append(unknown)
                is_final = True
                continue
            allowed = self._replicas.consumer_reads.read(
                tp,
                fetch_offset=wanted.fetch_offset,
                leader_epoch=wanted.leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
            )
            watches.append((tp, allowed.high_watermark))
            if allowed.error is not ErrorCode.NONE or allowed.diverging is not None:
                is_final = True
            elif left > 0 and tp in self._store.logs and allowed.from_offset < allowed.up_to_offset:
                found = self._readable(wanted, allowed, slot=len(outcomes))
                readable.append(found)
                left -= min(found.least, found.cap_bytes)
            outcomes.append(_fetched(allowed, allowed.error, ()))
        return _Plan(
            outcomes=outcomes, readable=readable, watches=tuple(watches), is_final=is_final
        )

    def _readable(
        self, wanted: ConsumerFetchPartition, allowed: LogReadInfo, *, slot: int
    ) -> _Readable:
        log = self._store.logs[allowed.tp]
        cap_bytes = max(1, wanted.max_bytes)
        least, most = log.size_range(
            allowed.from_offset,
            allowed.up_to_offset,
            enough=max(cap_bytes, log.message_max_bytes),
        )
        return _Readable(
            slot=slot,
            log=log,
            changes=log.changes,
            allowed=allowed,
            cap_bytes=cap_bytes,
            least=least,
            most=most,
        )

    async def _read(self, plan: _Plan, max_bytes: int) -> tuple[ConsumerFetchedPartition, ...]:
        """Read what was planned, in its order, up to max_bytes; the first batch always fits."""
        stays = max_bytes <= self._config.on_loop_max_bytes and self._is_recent(plan)
        left, work = max_bytes, plan.readable
        while work and (left > 0 or left == max_bytes):
            now, work = work[:PARTITIONS_PER_READ_MAX], work[PARTITIONS_PER_READ_MAX:]
            any_size = left == max_bytes
            if stays:
                found = _read_on_loop(now, left, any_size=any_size)
                if work:
                    await asyncio.sleep(0)  # other clients have a turn
            else:
                found = await self._find(now, left, any_size=any_size)
            for each, records in zip(now, found, strict=True):
                if isinstance(records, ErrorCode):
                    plan.outcomes[each.slot] = _fetched(each.allowed, records, ())
                else:
                    plan.outcomes[each.slot] = _fetched(each.allowed, ErrorCode.NONE, records)
                    left -= sum(len(part) for part in records)
        return tuple(plan.outcomes)

    def _is_recent(self, plan: _Plan) -> bool:
        """Tell whether all records were written so lately that no disk is asked for them."""
        recent = self._config.recent_bytes
        return all(
            each.log.is_recent(each.allowed.from_offset, within_bytes=recent)
            for each in plan.readable
        )

    async def _find(
        self, readable: list[_Readable], left: int, *, any_size: bool
    ) -> list[_Records]:
        """Find records, and read the few; in a thread only if the disk has to be asked."""
        try:
            parts = _open_parts(readable)
            done = _read_parts(parts, left, any_size=any_size, cached_only=True)
        except BlockingIOError:
            done = await self._read_in_thread(readable, left, any_size=any_size)
        return [self._taken(each, outcome) for each, outcome in zip(readable, done, strict=True)]

    async def _read_in_thread(
        self, readable: list[_Readable], left: int, *, any_size: bool
    ) -> list[_Outcome]:
        """Read in a thread once one is free; a client that leaves does not stop the thread."""
        await self._free_threads.acquire()
        try:
            # Opened only now, so that open files are bounded by the threads.
            parts = _open_parts(readable)
            read = partial(_read_parts, parts, left, any_size=any_size)
            running = asyncio.get_running_loop().run_in_executor(self._threads, read)
        except BaseException:
            self._free_threads.release()
            raise
        running.add_done_callback(lambda _: self._free_threads.release())
        return await asyncio.shield(running)

    def _taken(self, readable: _Readable, outcome: _Outcome) -> _Records:
        """Return the records of a read, or the error of its partition; on the event loop."""
        if isinstance(outcome, ErrorCode):
            return outcome
        part, read = outcome
        if part.changes != readable.changes:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = readable.log
        try:
            found = log.finish_read(part, read)
        except ProtocolError as refusal:
            return refusal.code
        return tuple(
            _SentFromFile(each, log, part.changes, self._store.fail)
            if isinstance(each, FileRange)
            else each
            for each in found
        )


def _fetched(
    allowed: LogReadInfo, error: ErrorCode, records: tuple[memoryview | RecordsInFile, ...]
) -> ConsumerFetchedPartition:
    return ConsumerFetchedPartition(
        error=error,
        high_watermark=allowed.high_watermark,
        log_start_offset=allowed.log_start_offset,
        records=records,
        diverging=allowed.diverging,
    )


def _read_on_loop(readable: Sequence[_Readable], left: int, *, any_size: bool) -> list[_Records]:
    """Read partitions one after the other, at once."""
    found: list[_Records] = []
    for each in readable:
        records: _Records = ()
        if each.log.changes != each.changes:
            records = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif left > 0 or any_size:
            try:
                records = tuple(
                    each.log.read(
                        from_offset=each.allowed.from_offset,
                        up_to_offset=each.allowed.up_to_offset,
                        max_bytes=min(each.cap_bytes, left),
                        any_size=any_size,
                    )
                )
            except ProtocolError as refusal:
                records = refusal.code
            else:
                any_size = any_size and not records
                left -= sum([len(part) for part in records])
        found.append(records)
    return found


def _open_parts(readable: Sequence[_Readable]) -> list[tuple[LogPart | ErrorCode, int]]:
    """Return what a thread needs to read each partition, or its error, and its cap in bytes."""
    parts: list[tuple[LogPart | ErrorCode, int]] = []
    for each in readable:
        try:
            part = each.log.part(
                from_offset=each.allowed.from_offset,
                up_to_offset=each.allowed.up_to_offset,
                max_bytes=each.cap_bytes,
            )
        except ProtocolError as refusal:
            parts.append((refusal.code, 0))
        else:
            parts.append((part, each.cap_bytes))
    return parts


def _read_parts(
    parts: Sequence[tuple[LogPart | ErrorCode, int]],
    left: int,
    *,
    any_size: bool,
    cached_only: bool = False,
) -> list[_Outcome]:
    """Read parts one after the other, in any thread, and close them all.

    Raises:  BlockingIOError with cached_only, where the disk would have to be asked
    """
    done: list[_Outcome] = []
    for part, cap_bytes in parts:
        if isinstance(part, ErrorCode):
            done.append(part)
            continue
        read = LogRead()
        if left > 0 or any_size:
            read = part.read(
                max_bytes=min(cap_bytes, left),
                any_size=any_size,
                range_min_bytes=RANGE_MIN_BYTES,
                cached_only=cached_only,
            )
        else:
            part.close()
        any_size = any_size and not read.size_bytes
        left -= read.size_bytes
        done.append((part, read))
    return done
