"""The log of one partition: segments in a folder, and the offsets they hold.

Called by `runtime` on its event loop: calls are synchronous and short, and one thread makes them
all. The caller decides what to append and where to cut, and has checked the batches
(`record_batch`).

Invariants: batches are contiguous from log start to log end; leader epochs never fall;
`recovery_point <= log_end_offset`, and everything below it was fsynced. After one failed
write or fsync the log refuses every further change: the log cannot know which pages the kernel
still holds, and a second fsync would succeed for pages that the kernel has dropped.

Source: Kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from strandline.broker_interface import Buffer
from strandline.core.events import SequenceCheck
from strandline.errors import ErrorCode, InvariantViolation, LogDirectoryFailed, ProtocolError
from strandline.model import EpochStart, LeaderEpoch, TopicSettings

from .files import disk_failed
from .log_segments import LogEnvironment, LogSegments
from .log_validation import LogValidation
from .partition_folder import (
    NEW_SUFFIX,
    PartitionMetadataFile,
    folder_of,
    read_metadata,
    write_metadata,
)
from .producer_state import ProducerState
from .record_batch import BatchHeader, ClientBatch, FetchedBatches, check_client_batch, stamp
from .retention import choose_log_start, is_past_retention, trusted_ms
from .segment import Segment
from .segment_part import LogPart, LogRead

EPOCH_MAX = LeaderEpoch((1 << 31) - 1)


class PartitionLog:
    """The log of one partition; made by `create` or `open`.

    Raises:  from every method that touches the disk LogDirectoryFailed; a batch that was to be
             appended then counts as not appended
    """

    def __init__(
        self,
        folder: Path,
        metadata: PartitionMetadataFile,
        settings: TopicSettings,
        environment: LogEnvironment,
    ) -> None:
        self.folder = folder
        self.tp = metadata.tp
        self.topic_name = metadata.topic_name
        self.validation = LogValidation()
        """The result of the checks of `open`."""
        self._settings = settings
        self._environment = environment
        self._segments = LogSegments(folder, environment)
        self._producers = ProducerState()
        self._epochs: list[EpochStart] = []
        self._log_start_offset = 0
        self._recovery_point = 0
        self._failure: LogDirectoryFailed | None = None

    @classmethod
    def create(
        cls,
        root: Path,
        metadata: PartitionMetadataFile,
        settings: TopicSettings,
        *,
        environment: LogEnvironment,
    ) -> PartitionLog:
        """Make the folder of a new, empty log from offset 0, on disk whole or not at all.

        It is durable once the caller has synced the root, once for all that it creates.

        Raises:  ProtocolError for an impossible partition or topic name;
                 LogDirectoryFailed, also if the folder exists
        """
        folder = folder_of(root, metadata.tp)
        unfinished = folder.with_name(folder.name + NEW_SUFFIX)
        log = cls(folder, metadata, settings, environment)
        try:
            if unfinished.exists():
                shutil.rmtree(unfinished)
            unfinished.mkdir()
            write_metadata(unfinished, metadata)
            unfinished.rename(folder)
            log._segments.restart_at(0)
        except OSError as error:
            raise log._fail("create", error) from error
        return log

    @classmethod
    def open(
        cls,
        folder: Path,
        settings: TopicSettings,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int = 0,
        environment: LogEnvironment,
        epoch_max: LeaderEpoch = EPOCH_MAX,
    ) -> PartitionLog:
        """Open a log found on disk and check it.

        It walks all headers, which yields epochs, producers and indexes, cuts the log at the first
        bad batch and deletes later segments. Unless `clean`, it also checks the CRC of every batch,
        from the segment that holds the recovery point on. `validation` holds the result. epoch_max
        is the highest leader epoch that this broker ever accepted for this partition.

        Raises:  CheckpointMalformed if partition.metadata is missing or wrong
        """
        try:
            log = cls(folder, read_metadata(folder), settings, environment)
            log.validation = log._segments.load(
                recovery_point, with_crc=not clean, epoch_max=epoch_max, visit=log._note_batch
            )
        except OSError as error:
            raise disk_failed(folder, "open", error) from error
        if log_start_offset > log.log_end_offset:
            log.validation = LogValidation(
                problem=f"the log ends below its start {log_start_offset}",
                cut_at_offset=log.log_end_offset,
                damaged=True,
            )
            log.restart_at(log_start_offset)
        else:
            log.begin_at(log_start_offset)
            for file in log.set_aside_below(log.log_start_offset):
                file.unlink()
        log._recovery_point = min(max(recovery_point, log.log_start_offset), log.log_end_offset)
        return log

    def close(self) -> None:
        """Write the index of the last segment and close all files, without a flush."""
        try:
            if self._failure is None:
                self._segments.active.write_index()
        except OSError as error:
            raise self._fail("close", error) from error
        finally:
            self._segments.release_all()

    def release(self) -> None:
        """Close all files and write nothing: the folder goes to the trash."""
        self._segments.release_all()

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use changed topic settings from the next append on."""
        self._settings = settings

    @property
    def settings(self) -> TopicSettings:
        """The topic's settings in effect."""
        return self._settings

    @property
    def log_start_offset(self) -> int:
        """First offset still kept."""
        return max(self._log_start_offset, self._segments.start_offset)

    @property
    def log_end_offset(self) -> int:
        """Next offset to be written."""
        return self._segments.active.end_offset

    @property
    def recovery_point(self) -> int:
        """Offset below which everything was fsynced; falls with a truncation.

        After a truncation the caller must write it to the recovery point checkpoint before new
        records come: otherwise an unclean start would not check them.
        """
        return self._recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """Number of segments, the active one included."""
        return len(self._segments)

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Leader epochs of the batches in the log, each with its first offset."""
        return tuple(self._epochs)

    @property
    def _last_epoch(self) -> int:
        return self._epochs[-1].leader_epoch if self._epochs else -1

    def check_client_batch(self, batch: ClientBatch, *, codec_max: int) -> None:
        """Check a client's batch, also against this topic's settings; ProtocolError if refused."""
        check_client_batch(
            batch,
            codec_max=codec_max,
            message_max_bytes=self._settings.max_message_bytes,
            segment_max_bytes=self._settings.segment_bytes,
        )

    def check_sequence(self, header: BatchHeader) -> SequenceCheck:
        """Tell whether a client's batch is new, a retry or out of order; changes nothing."""
        return self._producers.check(header)

    def append_as_leader(
        self, batch: ClientBatch, *, base_offset: int, leader_epoch: LeaderEpoch
    ) -> None:
        """Append one checked batch, stamped with its offset and epoch, in one write."""
        header = batch.header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        self._check_next(header, self.log_end_offset, self._last_epoch)
        self._append(stamp(header, batch.buffer), [header])
        self._flush_if_due()

    def append_as_follower(self, batches: FetchedBatches, *, batch_count: int) -> None:
        """Append the first batch_count batches of a response as the leader sent them.

        One write appends them all, unless a segment fills up in between.
        """
        headers = batches.headers[:batch_count]
        next_offset, last_epoch = self.log_end_offset, self._last_epoch
        for header in headers:
            self._check_next(header, next_offset, last_epoch)
            next_offset, last_epoch = header.next_offset, header.leader_epoch
        view, start = memoryview(batches.buffer), 0
        for part, size in self._segments.split(
            headers, segment_max_bytes=self._settings.segment_bytes
        ):
            self._append([view[start : start + size]], part)
            start += size
        self._flush_if_due()

    def _check_next(self, header: BatchHeader, next_offset: int, last_epoch: int) -> None:
        if header.base_offset != next_offset or header.leader_epoch < last_epoch:
            raise InvariantViolation(
                "a batch is appended at the log end, under the present epoch",
                base_offset=header.base_offset,
                log_end_offset=next_offset,
                leader_epoch=header.leader_epoch,
                last_epoch=last_epoch,
                partition=str(self.tp),
            )

    def _append(self, buffers: Sequence[Buffer], batches: Sequence[BatchHeader]) -> None:
        """Write, then note the batches: the state in memory never precedes the disk."""
        self._refuse_if_failed()
        try:
            self._segments.append(buffers, batches, segment_max_bytes=self._settings.segment_bytes)
        except OSError as error:
            raise self._fail("append", error) from error
        for header in batches:
            self._note_batch(header)

    def _note_batch(self, header: BatchHeader) -> None:
        if header.leader_epoch > self._last_epoch:
            self._epochs.append(
                EpochStart(
                    leader_epoch=LeaderEpoch(header.leader_epoch), start_offset=header.base_offset
                )
            )
        self._producers.record(header)

    def _flush_if_due(self) -> None:
        if self.log_end_offset - self._recovery_point >= self._settings.flush_messages:
            self.flush()

    def flush(self) -> None:
        """Make everything appended durable, then move the recovery point to the log end."""
        self._refuse_if_failed()
        if self._recovery_point == self.log_end_offset and not self._segments.dirty:
            return
        begun = time.perf_counter()
        try:
            self._segments.sync()
        except OSError as error:
            raise self._fail("fsync", error) from error
        self._environment.on_flush(time.perf_counter() - begun)
        self._recovery_point = self.log_end_offset

    def begin_at(self, offset: int) -> None:
        """Begin at a later offset within the log; segments stay until `set_aside_below`."""
        self._log_start_offset = max(offset, self.log_start_offset)
        before = [entry for entry in self._epochs if entry.start_offset <= offset]
        if before:
            first = replace(before[-1], start_offset=max(offset, before[-1].start_offset))
            self._epochs = [first, *self._epochs[len(before) :]]

    def start_by_retention(self, *, high_watermark: int, now_ms: int) -> int:
        """Return where this log may begin as its settings say, at most at the high watermark."""
        try:
            return choose_log_start(
                self._segments.sealed(),
                log_start_offset=self.log_start_offset,
                high_watermark=high_watermark,
                log_size_bytes=self.size_bytes,
                now_ms=now_ms,
                settings=self._settings,
            )
        except OSError as error:
            raise self._fail("stat", error) from error

    def roll_if_due(self, *, high_watermark: int, active_since_ms: int, now_ms: int) -> None:
        """Seal the active segment if its time is over: only sealed segments are ever deleted.

        Its time is over when its first record is older than segment.ms, when all its records are
        committed and past retention, or when the log begins above it. active_since_ms stands for
        a first timestamp that says nothing.

        Source:  Kafka LogSegment.shouldRoll, UnifiedLog.deletableSegments
        """
        active = self._segments.active
        if active.size_bytes == 0:
            return
        self._refuse_if_failed()
        try:
            first_ms = trusted_ms(
                active.first_timestamp_ms, otherwise_ms=active_since_ms, now_ms=now_ms
            )
            if (
                now_ms - first_ms > self._settings.segment_ms
                or active.end_offset <= self.log_start_offset
                or (active.end_offset <= high_watermark and self._is_past_retention(active, now_ms))
            ):
                self._segments.roll(active.end_offset)
        except OSError as error:
            raise self._fail("roll", error) from error

    def _is_past_retention(self, active: Segment, now_ms: int) -> bool:
        return is_past_retention(
            max_timestamp_ms=active.max_timestamp_ms,
            modified_ms=active.modified_ms,
            now_ms=now_ms,
            settings=self._settings,
        )

    def set_aside_below(self, offset: int) -> list[Path]:
        """Take out the sealed segments below an offset; return their files, to be removed later."""
        self._refuse_if_failed()
        try:
            files = self._segments.set_aside_below(offset)
        except OSError as error:
            raise self._fail("delete segments", error) from error
        self._recovery_point = max(self._recovery_point, self._segments.start_offset)
        return files

    def truncate_to(self, offset: int) -> int:
        """Keep offsets below `offset`; a batch that contains `offset` is removed whole.

        Epochs and producers are cut too. An offset below the log start empties the log, which
        then begins there.

        Returns: the new log end offset; it is below `offset` if a batch contained `offset`
        """
        if offset >= self.log_end_offset:
            return self.log_end_offset
        if offset < self.log_start_offset:
            self.restart_at(offset)
            return offset
        self._refuse_if_failed()
        try:
            self._segments.truncate_to(offset)
            end = self.log_end_offset
            self._recovery_point = min(self._recovery_point, end)
            self._epochs = [entry for entry in self._epochs if entry.start_offset < end]
            incomplete = self._producers.truncate_to(end)
            self._producers.refill(incomplete, self._segments.headers_backwards())
        except OSError as error:
            raise self._fail("truncate", error) from error
        return end

    def restart_at(self, offset: int) -> None:
        """Drop all batches and begin empty at an offset; durable on return."""
        self._refuse_if_failed()
        try:
            self._segments.restart_at(offset)
        except OSError as error:
            raise self._fail("restart", error) from error
        self._log_start_offset = offset
        self._epochs.clear()
        self._producers.clear()
        self._recovery_point = offset

    def read(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int, any_size: bool = True
    ) -> list[memoryview]:
        """Read whole batches from the one that holds from_offset on, none beyond up_to_offset.

        The first batch may begin before from_offset; any_size lets it exceed max_bytes.

        Raises:  ProtocolError(OFFSET_OUT_OF_RANGE) below the log start or above the log end;
                 CorruptBatch if the file no longer holds batches there
        """
        self._refuse_out_of_range(from_offset)
        try:
            return self._segments.read(
                from_offset=from_offset,
                up_to_offset=min(up_to_offset, self.log_end_offset),
                max_bytes=max_bytes,
                any_size=any_size,
            )
        except OSError as error:
            raise self._fail("read", error) from error

    def part(self, *, from_offset: int, up_to_offset: int, max_bytes: int) -> LogPart:
        """Return what a read of max_bytes may touch; `LogPart.read` may run in any thread.

        Raises:  ProtocolError(OFFSET_OUT_OF_RANGE) below the log start or above the log end
        """
        self._refuse_out_of_range(from_offset)
        try:
            return self._segments.part(
                from_offset=from_offset,
                up_to_offset=min(up_to_offset, self.log_end_offset),
                max_bytes=max_bytes,
            )
        except OSError as error:
            raise self._fail("read", error) from error

    def finish_read(self, part: LogPart, read: LogRead) -> tuple[memoryview, ...]:
        """Return the batches of a read, unless the log was cut since its part was made.

        Raises:  ProtocolError(NOT_LEADER_OR_FOLLOWER) after a cut: only a log that another broker
                 leads is cut, and its reader must ask there; OFFSET_OUT_OF_RANGE if the segment
                 was deleted before it was opened;
                 CorruptBatch if the file no longer holds batches there
        """
        if part.changes != self._segments.changes:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=str(self.tp))
        is_deleted = part.from_offset < self._segments.start_offset
        if is_deleted and isinstance(read.error, FileNotFoundError):
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=str(self.tp))
        if isinstance(read.error, OSError):
            raise self._fail("read", read.error) from read.error
        if read.error is not None:
            raise read.error
        for segment, index in () if is_deleted else read.loaded:
            segment.adopt_index(index)
        return read.records

    def size_range(self, from_offset: int, up_to_offset: int) -> tuple[int, int]:
        """Return the least and the most bytes between two offsets, without reading the disk."""
        return self._segments.size_range(from_offset, min(up_to_offset, self.log_end_offset))

    def size_between(self, from_offset: int, up_to_offset: int) -> int:
        """Return the bytes between two offsets of the last segment; reads two index intervals."""
        return self._segments.size_between(from_offset, min(up_to_offset, self.log_end_offset))

    def is_recent(self, offset: int, *, within_bytes: int) -> bool:
        """Tell whether all from an offset on is in the last segment and within its last bytes."""
        return self._segments.is_recent(offset, within_bytes=within_bytes)

    @property
    def changes(self) -> int:
        """How often the log was cut or closed."""
        return self._segments.changes

    @property
    def active_base_offset(self) -> int:
        """First offset of the segment that is written."""
        return self._segments.active.base_offset

    @property
    def message_max_bytes(self) -> int:
        """The greatest batch that this log takes."""
        return self._settings.max_message_bytes

    def _refuse_out_of_range(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                from_offset=offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, operation: str, error: OSError) -> LogDirectoryFailed:
        """Remember the first failure: from then on the log refuses changes."""
        self._failure = self._failure or disk_failed(self.folder, operation, error)
        return self._failure
