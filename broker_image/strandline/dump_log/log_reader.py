"""Reads the batches of replicas in a data directory, also of a running broker's."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


def read_log(folder: Path) -> Iterator[DumpedBatch]:
    """Yield the batches of a replica from the oldest segment to the newest.

    Only the end of the newest segment may be cut: it is being written, or a crash cut it.

    Raises:  CorruptBatch if a batch is damaged or does not follow the one before; OSError
    """
    segments = _segments(folder)
    next_offset = int(segments[0].stem) if segments else 0
    for path in segments:
        is_last = path == segments[-1]
        for batch in _read_segment(path, may_be_cut=is_last):
            if batch.header.base_offset != next_offset:
                raise CorruptBatch(
                    problem="offsets have a hole",
                    segment=path.name,
                    expected=next_offset,
                    found=batch.header.base_offset,
                )
            next_offset = batch.header.next_offset
            yield batch


def _segments(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob(f"*{LOG_SUFFIX}")
        if len(path.stem) == OFFSET_DIGITS and path.stem.isdigit()
    )


def _read_segment(path: Path, *, may_be_cut: bool) -> Iterator[DumpedBatch]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size
        window = Window(descriptor, end=end)
        position = 0
        while position < end:
            left = end - position
            if may_be_cut and is_cut_at(window, position, end):
                return
            header = window.header_at(position) if left >= HEADER_BYTES else None
            if header is None or header.size_bytes > left:
                if may_be_cut:
                    return
                raise CorruptBatch(problem="batch is cut", segment=path.name, position=position)
            window.check_crc_at(position, header)
            view = window.view(position, position + header.size_bytes)
            try:
                records = read_records(header, view)
            except Unreadable:
                records = None
            yield DumpedBatch(header=header, segment=path.name, position=position, records=records)
            position += header.size_bytes
    finally:
        os.close(descriptor)
