"""Reads the batches of replicas in a data directory, also of a running broker's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from strandline.errors import CorruptBatch
from strandline.log.batch_scan import Window, is_cut_at
from strandline.log.checkpoint import LogStartCheckpoint
from strandline.log.partition_folder import PartitionMetadataFile, parse_folder_name, read_metadata
from strandline.log.record_batch import HEADER_BYTES, BatchHeader
from strandline.log.segment import LOG_SUFFIX, OFFSET_DIGITS
from strandline.model import TopicPartition

from .record_reader import Record, Unreadable, read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """A whole batch; records is None if the reader does not know its codec."""

    header: BatchHeader
    segment: str
    position: int
    records: list[Record] | None


def replicas(directory: Path) -> Iterator[tuple[PartitionMetadataFile, Path]]:
    """Yield the replicas in a data directory, by topic name and partition.

    Raises:  CheckpointMalformed for a folder without a valid identity; OSError
    """
    found = [
        (read_metadata(folder), folder)
        for folder in directory.iterdir()
        if parse_folder_name(folder.name) is not None
    ]
    yield from sorted(found, key=lambda each: (each[0].topic_name, each[0].tp))


def log_starts(directory: Path) -> dict[TopicPartition, int]:
    """Return where the logs begin that begin within a segment or above one.

    Raises:  CheckpointMalformed; LogDirectoryFailed
    """
    starts = LogStartCheckpoint(directory).read()
    return {tp: start.start_offset for tp, start in starts.items()}


def first_offset(folder: Path) -> int:
    """Return the first offset of a replica's oldest segment, 0 without one."""
    return min((int(path.stem) for path in _segments(folder)), default=0)


def end_offset(folder: Path) -> int:
    """Return the offset after the last whole batch of a replica, 0 without a segment.

    Raises:  CorruptBatch for a damaged header; OSError
    """
    segments = _segments(folder)
    if not segments:
        return 0
    end = int(segments[-1].stem)
    with closing(_Segment(segments[-1], may_be_cut=True)) as segment:
        for _, header in segment.headers():
            end = header.next_offset
    return end


def read_log(folder: Path, *, from_offset: int = 0) -> Iterator[DumpedBatch]:
    """Yield the batches of a replica that end above an offset, the oldest first.

    Of batches below it at most the headers are read. Only the end of the newest segment may be
    cut: it is being written, or a crash cut it.

    Raises:  CorruptBatch if a batch is damaged or does not follow the one before; OSError
    """
    segments = _segments(folder)
    while len(segments) > 1 and int(segments[1].stem) <= from_offset:
        del segments[0]
    next_offset = int(segments[0].stem) if segments else 0
    for path in segments:
        with closing(_Segment(path, may_be_cut=path == segments[-1])) as segment:
            for position, header in segment.headers():
                if header.base_offset != next_offset:
                    raise CorruptBatch(
                        problem="offsets have a hole",
                        segment=path.name,
                        expected=next_offset,
                        found=header.base_offset,
                    )
                next_offset = header.next_offset
                if next_offset > from_offset:
                    yield segment.batch_at(position, header)


def _segments(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob(f"*{LOG_SUFFIX}")
        if len(path.stem) == OFFSET_DIGITS and path.stem.isdigit()
    )


class _Segment:
    """A segment file that is open; only one that may be cut ends before its last byte."""

    def __init__(self, path: Path, *, may_be_cut: bool) -> None:
        self._path = path
        self._may_be_cut = may_be_cut
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._end = os.fstat(self._fd).st_size
        self._window = Window(self._fd, end=self._end)

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each whole batch; no CRC is checked."""
        position = 0
        while position < self._end:
            left = self._end - position
            if self._may_be_cut and is_cut_at(self._window, position, self._end):
                return
            header = self._window.header_at(position) if left >= HEADER_BYTES else None
            if header is None or header.size_bytes > left:
                if self._may_be_cut:
                    return
                raise CorruptBatch(
                    problem="batch is cut", segment=self._path.name, position=position
                )
            yield position, header
            position += header.size_bytes

    def batch_at(self, position: int, header: BatchHeader) -> DumpedBatch:
        """Return the batch at a position; CorruptBatch if its CRC differs."""
        self._window.check_crc_at(position, header)
        view = self._window.view(position, position + header.size_bytes)
        try:
            records = read_records(header, view)
        except Unreadable:
            records = None
        return DumpedBatch(
            header=header, segment=self._path.name, position=position, records=records
        )

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
