"""What a log holds, and its reads: offsets, sizes, epochs, batches.

The base of `PartitionLog`, which changes the log. It remembers the first failure: after it the log
refuses every further change.
"""

from __future__ import annotations

from pathlib import Path

from strandline.errors import CorruptBatch, ErrorCode, LogDirectoryFailed, ProtocolError
from strandline.model import NO_EPOCH, EpochStart, TopicPartition, TopicSettings

from .batch_history import BatchHistory
from .files import disk_failed
from .log_segments import LogSegments
from .record_times import FoundRecord
from .segment_part import LogPart, LogRead, Records
from .time_search import TimeSearch, TimeSearchResult


class ReadableLog:
    """A log as its readers see it.

    Raises:  from every method that touches the disk LogDirectoryFailed
    """

    def __init__(
        self,
        folder: Path,
        tp: TopicPartition,
        segments: LogSegments,
        history: BatchHistory,
        settings: TopicSettings,
    ) -> None:
        self.folder = folder
        self.tp = tp
        self._segments = segments
        self._history = history
        self._settings = settings
        self._log_start_offset = 0
        self._failure: LogDirectoryFailed | None = None

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
        return self._segments.active.end.offset

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
        """Leader epochs of the batches from the log start on, each with its first offset."""
        return self._history.epochs_from(self.log_start_offset)

    @property
    def log_start(self) -> EpochStart:
        """Where this log begins, and the leader epoch there; NO_EPOCH if none is known."""
        start = self.log_start_offset
        found = self._history.epochs_from(start)
        return EpochStart(
            leader_epoch=found[0].leader_epoch if found else NO_EPOCH, start_offset=start
        )

    @property
    def active_base_offset(self) -> int:
        """First offset of the segment that is written."""
        return self._segments.active.base_offset

    @property
    def message_max_bytes(self) -> int:
        """The greatest batch that this log takes."""
        return self._settings.max_message_bytes

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

    def unindexed(self, *, from_offset: int, up_to_offset: int, max_bytes: int) -> LogPart | None:
        """Return a part whose read, in any thread, makes an index that `read` would make here.

        To make it is a walk of a whole segment. None if `read` finds all indexes that it needs.
        """
        self._refuse_out_of_range(from_offset)
        try:
            segment = self._segments.unindexed(
                from_offset=from_offset,
                up_to_offset=min(up_to_offset, self.log_end_offset),
                max_bytes=max_bytes,
            )
        except OSError as error:
            raise self._fail("read", error) from error
        if segment is None:
            return None
        return LogPart(
            segments=[segment],
            from_offset=max(from_offset, segment.base_offset),
            up_to_offset=segment.end_offset,
            changes=self.changes,
        )

    def finish_read(self, part: LogPart, read: LogRead) -> tuple[Records, ...]:
        """Return the batches of a read, unless the log was cut since its part was made.

        Raises:  ProtocolError(NOT_LEADER_OR_FOLLOWER) after a cut: only a log that another broker
                 leads is cut, and its reader must ask there; OFFSET_OUT_OF_RANGE if the segment
                 was deleted before it was opened;
                 LogDirectoryFailed also if the file no longer holds batches there
        """
        if part.changes != self._segments.changes:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=str(self.tp))
        is_deleted = part.from_offset < self._segments.start_offset
        if is_deleted and isinstance(read.error, FileNotFoundError):
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=str(self.tp))
        if isinstance(read.error, OSError | CorruptBatch):
            raise self._fail("read", read.error) from read.error
        if read.error is not None:
            raise read.error
        for segment, index in () if is_deleted else read.loaded:
            segment.adopt_index(index)
        return read.records

    def reading_failed(self, error: OSError) -> LogDirectoryFailed:
        """Remember that the disk failed a read of batches that were left in their file."""
        return self._fail("read", error)

    def begin_time_search(
        self, timestamp_ms: int, *, from_offset: int, up_to_offset: int
    ) -> TimeSearch | None:
        """Return a search of the first segment that may have a record at or after a timestamp.

        Returns: None if no record between the offsets reaches it. Any thread may run the search
        """
        part = self._segments.first_reaching_time(
            timestamp_ms, from_offset=from_offset, up_to_offset=up_to_offset
        )
        if part is None:
            return None
        return TimeSearch(
            part=part,
            timestamp_ms=timestamp_ms,
            from_offset=from_offset,
            up_to_offset=up_to_offset,
            changes=self._segments.changes,
        )

    def end_time_search(self, search: TimeSearch, result: TimeSearchResult) -> FoundRecord | None:
        """Return what a search found in its segment; None too if the segment was deleted meanwhile.

        Raises:  as finish_read, but for OFFSET_OUT_OF_RANGE
        """
        if search.changes != self._segments.changes:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=str(self.tp))
        is_deleted = search.part.base_offset < self._segments.start_offset
        if is_deleted and isinstance(result.error, FileNotFoundError):
            return None
        if isinstance(result.error, OSError | CorruptBatch):
            raise self._fail("search", result.error) from result.error
        if result.error is not None:
            raise result.error
        if result.loaded is not None and not is_deleted:
            search.part.segment.adopt_index(result.loaded)
        return result.found

    def size_range(self, from_offset: int, up_to_offset: int, *, enough: int) -> tuple[int, int]:
        """Return the least and the most bytes between two offsets, without reading the disk.

        Where both are at least enough they may be too small.
        """
        up_to_offset = min(up_to_offset, self.log_end_offset)
        return self._segments.size_range(from_offset, up_to_offset, enough=enough)

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
