"""Search one segment by time, in another thread than the one that changes the log.

The event loop makes a `TimeSearch` of what the segment is now; `run` may run in any thread; the
event loop then hands the outcome to `ReadableLog.end_time_search`, which refuses what a truncation
has overtaken. As with `segment_part`, appends meanwhile do not matter.

A search reads the segment's index, the headers of one block, and one batch. It walks further blocks
in vain where one of them is cut by the log start, or was not noted from its first batch on: that
happens once for each start and each truncation of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.errors import CorruptBatch

from .batch_scan import Window
from .index import OffsetIndex
from .record_batch import BatchHeader
from .record_times import FoundRecord, first_record
from .segment_part import OpenFile, SegmentPart


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSearchResult:
    """The outcome of a search: the record, or None, or what went wrong; loaded is a new index."""

    found: FoundRecord | None = None
    loaded: OffsetIndex | None = None
    error: OSError | CorruptBatch | IndexError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSearch:
    """A segment to be searched for the first record in [from_offset, up_to_offset) at a time.

    changes is the log's count of changes other than appends when the search began.
    """

    part: SegmentPart
    timestamp_ms: int
    from_offset: int
    up_to_offset: int
    changes: int

    @property
    def end_offset(self) -> int:
        """Where the segment ends: a search of the next one begins there."""
        return self.part.end_offset

    def run(self) -> TimeSearchResult:
        """Search and let the file go.

        A change of the log meanwhile may show as any of the errors: the log knows the difference.
        """
        is_open = self.part.file is not None
        try:
            file = self.part.file or self.part.open()
            found = self._find(file)
            return TimeSearchResult(found=found, loaded=None if is_open else file.index)
        except (OSError, CorruptBatch, IndexError) as error:
            return TimeSearchResult(error=error)
        finally:
            self.part.close()

    def _find(self, file: OpenFile) -> FoundRecord | None:
        part = self.part
        start = file.index.at_or_below_offset(self.from_offset - part.base_offset)
        for begin, end in file.index.reaching_time(
            self.timestamp_ms, from_position=start, size_bytes=part.size_bytes
        ):
            window = Window(file.fd, end=end)
            position = begin
            while position < end:
                header = window.header_at(position)
                if header.base_offset >= self.up_to_offset:
                    return None
                behind = position + header.size_bytes
                if self._may_hold(header):
                    found = self._first_record(header, window.view(position, behind))
                    if found is not None:
                        return found if found.offset < self.up_to_offset else None
                position = behind
        return None

    def _may_hold(self, header: BatchHeader) -> bool:
        return header.max_timestamp >= self.timestamp_ms and header.next_offset > self.from_offset

    def _first_record(self, header: BatchHeader, batch: memoryview) -> FoundRecord | None:
        return first_record(
            header, batch, timestamp_ms=self.timestamp_ms, from_offset=self.from_offset
        )
