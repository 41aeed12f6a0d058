"""What brings a log to disk off the event loop, and what makes its producer state anew.

The thread that changes the log begins a `LogSync`, a `LogFlush` or a `ProducerRebuild`, any thread
runs it, and the first one takes the result. Between both the log may go on: what was begun holds
the open files, the sizes and the producer states of its moment. A cut of the log in between voids
the result.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .batch_scan import headers
from .files import is_full, rewrite_file, sync_data, sync_folder
from .producer_state import ProducerState
from .segment import Segment
from .segment_part import OpenFile
from .segment_summary import SegmentSummary, read_summary, write_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPart:
    """A segment to bring to disk; without a summary, a load will walk it, and reads need its index.

    index_count is the number of index entries of its moment, which the summary covers.
    """

    segment: Segment
    file: OpenFile
    index_count: int
    summary: SegmentSummary | None

    def sync(self) -> None:
        """Make the content durable."""
        sync_data(self.file.fd)

    def summarise(self) -> None:
        """Write the index, then the summary; on a full disk neither is needed."""
        content = self.file.index.to_bytes(self.index_count)
        try:
            rewrite_file(self.segment.index_path, content)
            if self.summary is None:
                return
            write_summary(
                self.segment.summary_path, replace(self.summary, index_crc=zlib.crc32(content))
            )
        except OSError as error:
            if not is_full(error):
                raise


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlush:
    """A flush of one log up to end_offset, begun when `changes` and folder_changes had these."""

    folder: Path
    parts: tuple[FlushPart, ...]
    end_offset: int
    changes: int
    folder_changes: int

    def run(self) -> None:
        """Make records and folder durable, then write the summaries of what now is; OSError."""
        for part in self.parts:
            part.sync()
        sync_folder(self.folder)
        for part in self.parts:
            part.summarise()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSync:
    """An fsync of one log up to end_offset, without summaries: cheap enough for each append.

    folder is None if it is on disk; changes and folder_changes are those of its beginning.
    """

    folder: Path | None
    files: tuple[OpenFile, ...]
    end_offset: int
    changes: int
    folder_changes: int

    def run(self) -> None:
        """Make records and folder durable; OSError."""
        for file in self.files:
            sync_data(file.fd)
        if self.folder is not None:
            sync_folder(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProducerRebuild:
    """The producer state at the end of a log that was cut, made from a summary and the log.

    Reads one segment forward, more only where summaries are missing.
    """

    segments: Sequence[Segment]
    """Those that hold the log up to the cut, as they were then."""
    known: SegmentSummary | None
    """The newest summary that is not on disk yet, of the segment before the last."""
    end_offset: int

    def run(self) -> ProducerState:
        """Return the state at the cut; OSError, CorruptBatch."""
        state, first, position = self._base()
        for segment in self.segments[first:]:
            file = segment.open_file()
            for _, header in headers(file.fd, start=position, end=segment.size_bytes):
                if header.next_offset > self.end_offset:
                    return state
                state.record(header)
            position = 0
        return state

    def _base(self) -> tuple[ProducerState, int, int]:
        """Return a known state, and the segment and position from which to read on."""
        last = len(self.segments) - 1
        if self.known is not None:
            return self.known.producers.copy(), last, 0
        for index in reversed(range(last)):
            segment = self.segments[index]
            summary = read_summary(segment.summary_path)
            if summary is not None and summary.end_offset <= segment.end_offset:
                return summary.producers, index, summary.size_bytes
        return ProducerState(), 0, 0
