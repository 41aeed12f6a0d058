"""Read the logs of a data directory, also of a running broker, and print every record.

    python -m strandline.cli.dump_log [--dir /var/lib/strandline] [--topic NAME]
        [--partition N] [--lines --broker ID]

By default one line for each batch and below it its records, for people. With --lines one
line of JSON for each record, as `strandline.checker` takes it. Nothing is written and nothing
is locked: a batch that a running broker is just writing is left out. A damaged log ends with
exit code 1, and what was read before the damage is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strandline.checker.history import Scanned, scanned_line
from strandline.config.storage import StorageConfig
from strandline.errors import CheckpointMalformed, CorruptBatch
from strandline.log.batch_scan import Window
from strandline.log.partition_folder import PartitionMetadataFile, parse_folder_name, read_metadata
from strandline.log.record_batch import HEADER_BYTES, BatchHeader
from strandline.log.segment import LOG_SUFFIX, OFFSET_DIGITS
from strandline.model import BrokerId, LeaderEpoch

from .record_reader import CODECS, Record, Unreadable, read_records

SHOWN_BYTES_MAX = 200
"""Of a key or value, for people; --lines prints values whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """A batch found whole; records is None if its codec is not opened here."""

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


def read_log(folder: Path) -> Iterator[DumpedBatch]:
    """Yield the batches of a replica from the oldest segment to the newest.

    Only the end of the newest segment may be cut: it is being written, or a crash cut it.

    Raises:  CorruptBatch if a batch is damaged or does not follow the one before; OSError
    """
    segments = sorted(
        path
        for path in folder.glob(f"*{LOG_SUFFIX}")
        if len(path.stem) == OFFSET_DIGITS and path.stem.isdigit()
    )
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


def _read_segment(path: Path, *, may_be_cut: bool) -> Iterator[DumpedBatch]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size
        window = Window(descriptor, end=end)
        position = 0
        while position < end:
            left = end - position
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


def checker_lines(broker: BrokerId, partition: int, batch: DumpedBatch) -> Iterator[str]:
    """Yield a line for each record; what is no text is spelled with backslashes.

    Raises:  Unreadable if the records are compressed
    """
    if batch.records is None:
        raise Unreadable(problem="records are compressed", codec=CODECS[batch.header.codec])
    for record in batch.records:
        yield scanned_line(
            Scanned(
                broker=broker,
                partition=partition,
                offset=record.offset,
                leader_epoch=LeaderEpoch(batch.header.leader_epoch),
                value=(record.value or b"").decode(errors="backslashreplace"),
                checksum=batch.header.crc,
            )
        )


def human_lines(batch: DumpedBatch) -> Iterator[str]:
    """Yield a line for the batch and an indented one for each of its records."""
    header = batch.header
    codec = CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec)
    yield (
        f"offsets {header.base_offset}..{header.next_offset - 1} epoch {header.leader_epoch} "
        f"crc {header.crc:08x} bytes {header.size_bytes} codec {codec} "
        f"producer {header.producer_id}/{header.producer_epoch} sequence {header.base_sequence} "
        f"at {batch.segment}:{batch.position}"
    )
    for record in batch.records or ():
        yield (
            f"  {record.offset} at {record.timestamp_ms} ms "
            f"key {_shown(record.key)} value {_shown(record.value)}"
        )


def _shown(content: bytes | None) -> str:
    if content is None:
        return "none"
    rest = len(content) - SHOWN_BYTES_MAX
    shown = repr(content[:SHOWN_BYTES_MAX].decode(errors="backslashreplace"))
    return f"{shown} and {rest} bytes" if rest > 0 else shown


def main(arguments: list[str] | None = None) -> int:
    """Print the logs; 0 if all of them were read to their ends."""
    options = _options(arguments)
    damaged = False
    try:
        found = list(replicas(Path(options.dir)))
    except (OSError, CheckpointMalformed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for metadata, folder in found:
        partition = metadata.tp.partition
        if options.topic not in (None, metadata.topic_name):
            continue
        if options.partition not in (None, partition):
            continue
        if not options.lines:
            print(f"{metadata.topic_name}-{partition} {folder}")
        try:
            for batch in read_log(folder):
                lines = (
                    checker_lines(BrokerId(options.broker), partition, batch)
                    if options.lines
                    else human_lines(batch)
                )
                sys.stdout.writelines(f"{line}\n" for line in lines)
        except (OSError, CorruptBatch) as error:
            sys.stdout.flush()
            print(f"error: {folder}: {error}", file=sys.stderr)
            damaged = True
    return 1 if damaged else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="strandline.cli.dump_log")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = os.environ.get("DATA_DIR") or StorageConfig().data_dir
    parser.add_argument("--dir", default=default, help=f"data directory ({default})")
    parser.add_argument("--topic", help="only this topic; --lines needs it")
    parser.add_argument("--partition", type=int, help="only this partition")
    parser.add_argument("--lines", action="store_true", help="lines for the checker")
    parser.add_argument("--broker", type=int, help="id of the broker, for --lines")
    options = parser.parse_args(arguments)
    if options.lines and (options.broker is None or options.topic is None):
        parser.error("--lines needs --broker and --topic: a line names one broker, no topic")
    return options


if __name__ == "__main__":
    sys.exit(main())
