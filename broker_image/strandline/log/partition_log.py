"""The log of one partition: segments in a folder, and the offsets they hold.

Called by `runtime` on its event loop: calls are synchronous and short, and one thread makes them
all. What other threads do is begun and ended there: `part` and `finish_read`, `begin_flush` and
`end_flush`, `rebuild` and `end_rebuild`. The caller decides what to append and where to cut.

Invariants: batches are contiguous from log start to log end; leader epochs never fall;
`recovery_point <= log_end_offset`, and everything below it was fsynced. After one failed write or
fsync the log refuses every further change: a second fsync would succeed for dropped pages.

Source: Kafka UnifiedLog, LocalLog.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from strandline.broker_interface import Buffer
from strandline.core.events import SequenceCheck
from strandline.errors import (
    CorruptBatch,
    ErrorCode,
    LogDirectoryFailed,
    LogDirectoryFull,
    ProtocolError,
)
from strandline.model import EpochStart, LeaderEpoch, TopicSettings

from .files import disk_failed, sync_folder
from .log_flush import LogFlush, ProducerRebuild
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
from .record_batch import (
    BatchHeader,
    ClientBatch,
    FetchedBatches,
    check_client_batch,
    check_follows,
    stamp,
)
from .segment import Segment
from .segment_part import LogPart, LogRead
from .segment_summary import SegmentSummary

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
        self._segments = LogSegments(folder, environment, summarise=self._summarise)
        self._producers = ProducerState()
        self.rebuild: ProducerRebuild | None = None
        """Set while the producer state is to be made anew: the caller runs it, and hands the result
        to `end_rebuild`."""
        self._since_cut: list[BatchHeader] = []
        """Batches appended while the producer state is made anew."""
        self._epochs: list[EpochStart] = []
        self._recovery_point = 0
        self._summarised_offset = 0
        """Where the last flush ended that wrote summaries."""
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
            sync_folder(folder)
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
        environment: LogEnvironment,
        epoch_max: LeaderEpoch = EPOCH_MAX,
        before_loss: Callable[[], None] = lambda: None,
    ) -> PartitionLog:
        """Open a log found on disk and check it.

        It takes from trusted summaries what they cover and walks the other headers, which yields
        epochs, producers and indexes; it cuts the log at the first bad batch and deletes later
        segments. Unless `clean`, it also checks the CRC of every batch that it walks, from the
        segment that holds the recovery point on. `validation` holds the result. epoch_max
        is the highest leader epoch that this broker ever accepted for this partition. before_loss
        is called before a damaged log is cut.

        Raises:  CheckpointMalformed if partition.metadata is missing or wrong
        """
        try:
            log = cls(folder, read_metadata(folder), settings, environment)
            log.validation = log._segments.load(
                recovery_point,
                with_crc=not clean,
                epoch_max=epoch_max,
                adopt=log._adopt,
                visit=log._note_batch,
                before_loss=before_loss,
            )
        except OSError as error:
            raise disk_failed(folder, "open", error) from error
        log._recovery_point = min(max(recovery_point, log.log_start_offset), log.log_end_offset)
        log._summarised_offset = log._recovery_point
        return log

    def close(self) -> None:
        """Close all files, without a flush."""
        self._segments.release_all()

    def release(self) -> None:
        """Close all files and write nothing: the folder goes to the trash."""
        self._segments.release_all()

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use changed topic settings from the next append on."""
        self._settings = settings

    @property
    def log_start_offset(self) -> int:
        """First offset still kept."""
        return self._segments.start_offset

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
    def flushes_every_append(self) -> bool:
        """Whether the present settings bring each append to disk before it returns."""
        return self._settings.flush_messages == 1

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
        """Tell whether a client's batch is new, a retry or out of order; changes nothing.

        Raises:  ProtocolError NOT_LEADER_OR_FOLLOWER while a cut log makes its producer state anew
        """
        if self.rebuild is not None:
            raise ProtocolError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                problem="producer state is made anew",
                partition=str(self.tp),
            )
        return self._producers.check(header)

    def append_as_leader(
        self, batch: ClientBatch, *, base_offset: int, leader_epoch: LeaderEpoch
    ) -> None:
        """Append one checked batch, stamped with its offset and epoch, in one write."""
        header = batch.header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        check_follows(header, self.log_end_offset, self._last_epoch, self.tp)
        self._append(stamp(header, batch.buffer), [header])
        self._flush_if_due()

    def append_as_follower(self, batches: FetchedBatches, *, batch_count: int) -> None:
        """Append the first batch_count batches of a response as the leader sent them.

        One write appends them all, unless a segment fills up in between.
        """
        headers = batches.headers[:batch_count]
        next_offset, last_epoch = self.log_end_offset, self._last_epoch
        for header in headers:
            check_follows(header, next_offset, last_epoch, self.tp)
            next_offset, last_epoch = header.next_offset, header.leader_epoch
        view, start = memoryview(batches.buffer), 0
        for part, size in self._segments.split(
            headers, segment_max_bytes=self._settings.segment_bytes
        ):
            self._append([view[start : start + size]], part)
            start += size
        self._flush_if_due()

    def _append(self, buffers: Sequence[Buffer], batches: Sequence[BatchHeader]) -> None:
        """Write, then note the batches: the state in memory never precedes the disk."""
        self._refuse_if_failed()
        try:
            self._segments.append(buffers, batches, segment_max_bytes=self._settings.segment_bytes)
        except (OSError, CorruptBatch) as error:
            failure = self._fail("append", error)
            if isinstance(failure, LogDirectoryFull):
                with suppress(OSError):
                    self._segments.active.cut_file()
            raise failure from error
        for header in batches:
            self._note_batch(header)

    def _summarise(self, segment: Segment) -> SegmentSummary | None:
        """Return the summary of the last segment; None while producers are made anew."""
        unknown = self.rebuild is not None
        return None if unknown else segment.summarise(self._epochs, self._producers)

    def _adopt(self, summary: SegmentSummary) -> None:
        """Take what a summary says of the batches that a load does not walk."""
        for epoch in summary.epochs:
            if epoch.leader_epoch > self._last_epoch:
                self._epochs.append(epoch)
        self._producers = summary.producers

    def _note_batch(self, header: BatchHeader) -> None:
        if self.rebuild is not None:
            self._since_cut.append(header)
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

    @property
    def sealed_waiting(self) -> int:
        """How many sealed segments wait for a flush."""
        return self._segments.sealed_waiting

    def begin_flush(self) -> LogFlush | None:
        """Begin a flush off this thread: `run` it on any thread, then `end_flush` on this one.

        Returns: None if there is nothing to flush
        """
        self._refuse_if_failed()
        if self._summarised_offset == self.log_end_offset and not self._segments.dirty:
            return None
        return self._segments.begin_flush()

    def end_flush(self, flush: LogFlush) -> None:
        """Move the recovery point to where a flush that has run began, unless the log was cut."""
        if self._segments.end_flush(flush):
            self._recovery_point = max(self._recovery_point, flush.end_offset)
            self._summarised_offset = flush.end_offset

    def fail(self, error: LogDirectoryFailed | CorruptBatch) -> LogDirectoryFailed:
        """Fail the log because work off this thread failed; return the first failure."""
        failed = (
            disk_failed(self.folder, "walk", error) if isinstance(error, CorruptBatch) else error
        )
        self._failure = self._failure or failed
        return self._failure

    def end_rebuild(self, rebuild: ProducerRebuild, producers: ProducerState) -> None:
        """Take the producer state that a rebuild made, unless the log was cut again."""
        if self.rebuild is rebuild:
            for header in self._since_cut:
                producers.record(header)
            self._producers, self.rebuild = producers, None
            self._since_cut.clear()

    def truncate_to(self, offset: int) -> int:
        """Keep offsets below `offset`; a batch that contains `offset` is removed whole.

        Epochs and producers are cut too; `rebuild` finds older batches of a producer that lost
        one. An offset below the log start empties the log, which then begins there.

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
            self._summarised_offset = min(self._summarised_offset, end)
            self._epochs = [entry for entry in self._epochs if entry.start_offset < end]
            if not self._producers.truncate_to(end) or self.rebuild is not None:
                self.rebuild = self._segments.producers_up_to(end)
            self._since_cut.clear()
        except (OSError, CorruptBatch) as error:
            raise self._fail("truncate", error) from error
        return end

    def restart_at(self, offset: int) -> None:
        """Drop all batches and begin empty at an offset; durable once the folder is synced."""
        self._refuse_if_failed()
        try:
            self._segments.restart_at(offset)
        except OSError as error:
            raise self._fail("restart", error) from error
        self._epochs.clear()
        self._producers.clear()
        self.rebuild = None
        self._since_cut.clear()
        self._recovery_point = self._summarised_offset = offset

    def read(
        self, *, from_offset: int, up_to_offset: int, max_bytes: int, any_size: bool = True
    ) -> list[memoryview]:
        """Read whole batches from the one that holds from_offset on, none beyond up_to_offset.

        The first batch may begin before from_offset; any_size lets it exceed max_bytes.

        Raises:  ProtocolError(OFFSET_OUT_OF_RANGE) below the log start or above the log end;
                 LogDirectoryFailed also if the file no longer holds batches there
        """
        self._refuse_out_of_range(from_offset)
        try:
            return self._segments.read(
                from_offset=from_offset,
                up_to_offset=min(up_to_offset, self.log_end_offset),
                max_bytes=max_bytes,
                any_size=any_size,
            )
        except (OSError, CorruptBatch) as error:
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
        except (OSError, CorruptBatch) as error:
            raise self._fail("read", error) from error

    def finish_read(self, part: LogPart, read: LogRead) -> tuple[memoryview, ...]:
        """Return the batches of a read, unless the log was cut since its part was made.

        Raises:  ProtocolError(NOT_LEADER_OR_FOLLOWER) after a cut: only a log that another broker
                 leads is cut, and its reader must ask there;
                 LogDirectoryFailed also if the file no longer holds batches there
        """
        if part.changes != self._segments.changes:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=str(self.tp))
        if isinstance(read.error, OSError | CorruptBatch):
            raise self._fail("read", read.error) from read.error
        if read.error is not None:
            raise read.error
        for segment, index in read.loaded:
            segment.adopt_index(index)
        return read.records

    def size_range(self, from_offset: int, up_to_offset: int) -> tuple[int, int]:
        """Return the least and the most bytes between two offsets, without reading the disk."""
        return self._segments.size_range(from_offset, min(up_to_offset, self.log_end_offset))

    def size_between(self, from_offset: int, up_to_offset: int) -> int:
        """Return the bytes between two offsets of the last segment; reads two index intervals."""
        try:
            return self._segments.size_between(from_offset, min(up_to_offset, self.log_end_offset))
        except (OSError, CorruptBatch) as error:
            raise self._fail("read", error) from error

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

    def _fail(
        self, operation: str, error: OSError | CorruptBatch | IndexError
    ) -> LogDirectoryFailed:
        """Remember the first failure: from then on the log refuses changes."""
        self._failure = self._failure or disk_failed(self.folder, operation, error)
        return self._failure
