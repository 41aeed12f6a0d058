"""The log of one partition: segments in a folder, and the offsets they hold.

Called by `runtime` on its event loop: calls are synchronous and short, and one thread makes them
all. What other threads do is begun and ended there: `part` and `finish_read`, `begin_flush` and
`end_flush`, `begin_sync` and `end_sync`, `rebuild` and `end_rebuild`. The caller decides what to
append and where to cut.

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

from .batch_history import BatchHistory
from .checkpoint import FIRST_START
from .files import disk_failed, is_full, sync_folder
from .log_flush import LogFlush, LogSync, ProducerRebuild
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
from .readable_log import ReadableLog
from .record_batch import (
    BatchHeader,
    ClientBatch,
    FetchedBatches,
    check_client_batch,
    check_follows,
    stamp,
)
from .retention import choose_log_start, is_roll_due
from .segment_cut import SegmentCut

EPOCH_MAX = LeaderEpoch((1 << 31) - 1)


class PartitionLog(ReadableLog):
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
        history = BatchHistory()
        segments = LogSegments(folder, environment, summarise=history.summarise)
        super().__init__(folder, metadata.tp, segments, history, settings)
        self.topic_name = metadata.topic_name
        self.validation = LogValidation()
        """The result of the checks of `open`."""
        self._environment = environment
        self._recovery_point = 0
        self._summarised_offset = 0
        """Where the last flush ended that wrote summaries."""

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
        log_start: EpochStart = FIRST_START,
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
                adopt=log._history.adopt,
                visit=log._history.note,
                before_loss=before_loss,
            )
        except OSError as error:
            raise disk_failed(folder, "open", error) from error
        if log_start.start_offset > log.log_end_offset:
            before_loss()
            log.validation = LogValidation(
                problem=f"the log ends below its start {log_start.start_offset}",
                cut_at_offset=log.log_end_offset,
                damaged=True,
            )
            log.restart_at(log_start.start_offset)
            log._remove(log.take_set_aside())
        else:
            log.begin_at(log_start.start_offset)
            log._remove_below_start()
        if log_start.start_offset == log.log_end_offset and log_start.leader_epoch <= epoch_max:
            log._history.adopt_epoch_below(log_start)
        log._recovery_point = min(max(recovery_point, log.log_start_offset), log.log_end_offset)
        log._summarised_offset = log._recovery_point
        return log

    def close(self) -> None:
        """Close all files, without a flush; a cut is made on disk."""
        if self.cut is not None:
            self.cut.run()
        self._segments.release_all()

    def release(self) -> None:
        """Close all files and write nothing: the folder goes to the trash."""
        self._segments.release_all()

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use changed topic settings from the next append on."""
        self._settings = settings

    @property
    def recovery_point(self) -> int:
        """Offset below which everything was fsynced; falls with a truncation.

        After a truncation the caller must write it to the recovery point checkpoint before new
        records come: otherwise an unclean start would not check them.
        """
        return self._recovery_point

    @property
    def flushes_every_append(self) -> bool:
        """Whether the present settings want each append on disk before it counts."""
        return self._settings.flushes_every_append

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
        return self._history.check_sequence(header)

    def append_as_leader(
        self, batch: ClientBatch, *, base_offset: int, leader_epoch: LeaderEpoch
    ) -> None:
        """Append one checked batch, stamped with its offset and epoch, in one write."""
        header = batch.header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        check_follows(header, self.log_end_offset, self._history.last_epoch, self.tp)
        self._append(stamp(header, batch.buffer), [header])

    def append_as_follower(self, batches: FetchedBatches, *, batch_count: int) -> None:
        """Append the first batch_count batches of a response as the leader sent them.

        One write appends them all, unless a segment fills up in between.
        """
        headers = batches.headers[:batch_count]
        next_offset, last_epoch = self.log_end_offset, self._history.last_epoch
        for header in headers:
            check_follows(header, next_offset, last_epoch, self.tp)
            next_offset, last_epoch = header.next_offset, header.leader_epoch
        view, start = memoryview(batches.buffer), 0
        for part, size in self._segments.split(
            headers, segment_max_bytes=self._settings.segment_bytes
        ):
            self._append([view[start : start + size]], part)
            start += size

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
            self._history.note(header)

    def flush(self) -> None:
        """Make everything appended durable here and now, the recovery point included."""
        if (sync := self.begin_sync()) is None:
            return
        begun = time.perf_counter()
        try:
            sync.run()
        except OSError as error:
            raise self._fail("fsync", error) from error
        self._environment.on_flush(time.perf_counter() - begun)
        self.end_sync(sync)

    @property
    def is_sync_due(self) -> bool:
        """Whether so many records are not known to be on disk that `flush.messages` wants them."""
        return self.log_end_offset - self._recovery_point >= self._settings.flush_messages

    def begin_sync(self) -> LogSync | None:
        """Begin an fsync off this thread: `run` it on any thread, then `end_sync` on this one.

        Returns: None if all is on disk
        """
        self._refuse_if_failed()
        if self._recovery_point == self.log_end_offset and not self._segments.dirty:
            return None
        return self._segments.begin_sync()

    def end_sync(self, sync: LogSync) -> bool:
        """Move the recovery point to where a sync that has run began; False if a cut voids it."""
        is_valid = self._segments.end_sync(sync)
        if is_valid:
            self._recovery_point = max(self._recovery_point, sync.end_offset)
        return is_valid

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

    @property
    def rebuild(self) -> ProducerRebuild | None:
        """How to make the producer state anew, which a cut made incomplete; None if it is known.

        The caller runs it, and hands the result to `end_rebuild`.
        """
        return self._history.rebuild

    def end_rebuild(self, rebuild: ProducerRebuild, producers: ProducerState) -> None:
        """Take the producer state that a rebuild made, unless the log was cut again."""
        self._history.end_rebuild(rebuild, producers)

    def begin_at(self, offset: int) -> None:
        """Begin at a later offset within the log; segments stay until `set_aside_below`."""
        self._log_start_offset = max(offset, self.log_start_offset)

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
        if active.size_bytes == 0 or not self._segments.may_roll or self.cut is not None:
            return
        self._refuse_if_failed()
        try:
            if is_roll_due(
                active,
                log_start_offset=self.log_start_offset,
                high_watermark=high_watermark,
                active_since_ms=active_since_ms,
                now_ms=now_ms,
                settings=self._settings,
            ):
                self._segments.roll(active.end_offset)
        except (OSError, CorruptBatch) as error:
            # On a full volume the next check tries again.
            if not is_full(error):
                raise self._fail("roll", error) from error

    def set_aside_below(self, offset: int) -> list[Path]:
        """Take out sealed segments below an offset; return their files, to be removed later.

        Some may stay for the next call, and all while the producer state is made anew from them.
        """
        if self.rebuild is not None:
            return []
        self._refuse_if_failed()
        try:
            files = self._segments.set_aside_below(offset)
        except OSError as error:
            raise self._fail("delete segments", error) from error
        start = self._segments.start_offset
        self._history.forget_epochs_below(start)
        self._recovery_point = max(self._recovery_point, start)
        return files

    def _remove_below_start(self) -> None:
        """Remove at once what a process that died left below the log start."""
        while files := self.set_aside_below(self.log_start_offset):
            self._remove(files)

    def _remove(self, files: Sequence[Path]) -> None:
        try:
            for file in files:
                file.unlink()
        except OSError as error:
            raise self._fail("delete segments", error) from error

    @property
    def cut(self) -> SegmentCut | None:
        """What the newest truncation left to be cut off the disk, None if nothing is left.

        The caller runs it off the loop before it has records appended: an append would do it.
        """
        cut = self._segments.active.cut
        return None if cut is None or cut.is_done else cut

    def take_set_aside(self) -> list[Path]:
        """Return the files of segments that cuts took whole; the caller removes them off the loop.

        The next load removes what no caller does.
        """
        return self._segments.take_set_aside()

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
            self._history.cut_at(end, self._segments.producers_up_to)
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
        self._log_start_offset = offset
        self._history.clear()
        self._recovery_point = self._summarised_offset = offset
